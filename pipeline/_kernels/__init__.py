"""CUDA kernels for ragged batches with thin launchers.

The kernels operate on pointers, shapes and regions, and don't depend on graphs or operators. You can import this
package without CuPy.
"""

from pipeline._kernels.join import join_samples
from pipeline._kernels.jpeg import distort_as_jpeg
from pipeline._kernels.lookup import look_up
from pipeline._kernels.noise import Noise
from pipeline._kernels.nv12 import nv12_to_pixels
from pipeline._kernels.one_hot import one_hot
from pipeline._kernels.reduce import reduce_axes
from pipeline._kernels.resample import resample
from pipeline._kernels.samples import Samples
from pipeline._kernels.standardize import Spread, standardize
from pipeline._kernels.strided_copy import strided_copy

__all__ = [
    "Noise",
    "Samples",
    "Spread",
    "distort_as_jpeg",
    "join_samples",
    "look_up",
    "nv12_to_pixels",
    "one_hot",
    "reduce_axes",
    "resample",
    "standardize",
    "strided_copy",
]
