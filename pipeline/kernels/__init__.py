"""GPU primitives for ragged batches: CUDA sources with a thin launcher each, and the sharing of device memory.

They know pointers, shapes and regions, nothing of graphs or operators. Importing them needs no CuPy.
"""

from pipeline.kernels.blur import blur_axes
from pipeline.kernels.color import transform_pixels
from pipeline.kernels.context import KernelContext
from pipeline.kernels.erase import erase
from pipeline.kernels.errors import CudaError, KernelCompileError
from pipeline.kernels.fused import crop_resize_normalize
from pipeline.kernels.join import join_samples
from pipeline.kernels.jpeg import distort_as_jpeg
from pipeline.kernels.lookup import look_up
from pipeline.kernels.noise import Noise, add_noise
from pipeline.kernels.nv12 import nv12_to_pixels
from pipeline.kernels.one_hot import one_hot
from pipeline.kernels.reduce import reduce_axes
from pipeline.kernels.resample import resample
from pipeline.kernels.samples import Samples
from pipeline.kernels.standardize import Spread, standardize
from pipeline.kernels.strided_copy import strided_copy

__all__ = [
    "CudaError",
    "KernelCompileError",
    "KernelContext",
    "Noise",
    "Samples",
    "Spread",
    "add_noise",
    "blur_axes",
    "crop_resize_normalize",
    "distort_as_jpeg",
    "erase",
    "join_samples",
    "look_up",
    "nv12_to_pixels",
    "one_hot",
    "reduce_axes",
    "resample",
    "standardize",
    "strided_copy",
    "transform_pixels",
]
