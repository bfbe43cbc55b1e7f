"""The common arguments of image decoders."""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.output_dtype import check_dtype
from dali_proxy.pipeline._operators.decoding.cache_arguments import CACHE_ARGUMENTS
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.types import (
    ANY_DATA,
    FLOAT,
    GRAY,
    INT8,
    INT16,
    INT32,
    RGB,
    UINT8,
    UINT16,
    UINT32,
    DALIImageType,
)

_CHANNELS = {DALIImageType.RGB: 3, DALIImageType.BGR: 3, DALIImageType.YCbCr: 3, DALIImageType.GRAY: 1}
_DTYPES = (UINT8, INT8, UINT16, INT16, INT32, UINT32, FLOAT)


def _ignored(name: str, kind: Kind, discouraged: bool = False) -> Argument:
    deprecated = f"The argument `{name}` is now deprecated and its usage is discouraged." if discouraged else ""
    return Argument(name, kind, "Accepted for compatibility; memory is managed automatically.", deprecated=deprecated)


DECODER_ARGUMENTS = (
    Argument(
        "output_type",
        Kind.IMAGE_TYPE,
        "Colour model of the output: RGB, BGR, GRAY, YCbCr (BT.601, 16 to 235) or ANY_DATA (that of the file). With "
        "device='mixed', the last two are decoded on the CPU.",
        RGB,
    ),
    Argument(
        "dtype",
        Kind.DTYPE,
        "Dtype of the output. Integers are scaled to its range, for FLOAT from 0 to 1. The values of float files "
        "(TIFF, PFM) are kept as FLOAT; for other dtypes, they are clipped to 0 to 1, with a warning, and scaled.",
        UINT8,
    ),
    Argument(
        "palette_indices",
        Kind.BOOL,
        "Decode an image with a palette to one channel with its indices, as PIL does, instead of its colors: in masks, "
        "these are the classes. Images without a palette are decoded as usual, with a warning if `dtype` scales their "
        "values: pass UINT16 for masks of 16 bits. Needs GRAY or ANY_DATA. DALI doesn't have this argument.",
        False,
    ),
    Argument("adjust_orientation", Kind.BOOL, "Rotate and flip the image according to its EXIF orientation.", True),
    Argument("use_fast_idct", Kind.BOOL, "Decode JPEGs on the CPU with a faster, less accurate inverse DCT.", False),
    Argument(
        "jpeg_fancy_upsampling",
        Kind.BOOL,
        "Interpolate the chroma of JPEGs with device='mixed'; slower, but closer to the CPU, which always does this.",
        False,
    ),
    Argument(
        "hw_decoder_load",
        Kind.FLOAT,
        "0 disables the JPEG engine of the GPU. With other values, the engine, if there is one, decodes all baseline "
        "JPEGs without EXIF rotation, and CUDA decodes the others.",
        0.65,
    ),
    _ignored("affine", Kind.BOOL),
    *CACHE_ARGUMENTS,
    _ignored("device_memory_padding", Kind.INT),
    _ignored("device_memory_padding_jpeg2k", Kind.INT),
    _ignored("host_memory_padding", Kind.INT),
    _ignored("host_memory_padding_jpeg2k", Kind.INT),
    _ignored("hybrid_huffman_threshold", Kind.INT),
    _ignored("memory_stats", Kind.BOOL, discouraged=True),
    _ignored("preallocate_height_hint", Kind.INT),
    _ignored("preallocate_width_hint", Kind.INT),
    _ignored("split_stages", Kind.BOOL, discouraged=True),
    _ignored("use_chunk_allocator", Kind.BOOL, discouraged=True),
)


def decoding_options(node: GraphNode) -> dict[str, Any]:
    """Return the arguments of a decoder for `pipeline._imaging.decode`.

    Raises:
        ArgumentValueError: the dtype isn't supported, or the arguments contradict each other.
    """
    if node.argument("palette_indices") and node.argument("output_type") not in (GRAY, ANY_DATA):
        raise ArgumentValueError("palette_indices=True needs output_type=types.GRAY or types.ANY_DATA: one channel")
    return {
        "output_type": node.argument("output_type").name,
        "adjust_orientation": node.argument("adjust_orientation"),
        "fast_idct": node.argument("use_fast_idct") and node.device == "cpu",
        "palette_indices": bool(node.argument("palette_indices")),
        "dtype": check_dtype(node.argument("dtype"), _DTYPES),
    }


def channels_of(output_type: DALIImageType) -> int | None:
    """Return the number of channels of decoded images; None if it depends on the file."""
    return _CHANNELS.get(output_type)
