"""The arguments of all decoders of pictures, declared once."""

from __future__ import annotations

from pipeline._declaration.schema import Argument, Kind
from pipeline.types import RGB, UINT8

__all__ = ["DECODER_ARGUMENTS"]


def _ignored(name: str, kind: Kind) -> Argument:
    return Argument(name, kind, "Accepted for compatibility; memory manages itself.")


DECODER_ARGUMENTS = (
    Argument(
        "output_type",
        Kind.IMAGE_TYPE,
        "Colours of the output: RGB, BGR, GRAY, YCbCr (BT.601, 16 to 235) or ANY_DATA (those of the file). "
        "The mixed device has RGB, BGR and GRAY.",
        RGB,
    ),
    Argument("dtype", Kind.DTYPE, "Dtype of the output; values are scaled to its range, FLOAT to 0 to 1.", UINT8),
    Argument("adjust_orientation", Kind.BOOL, "Turn the image as its EXIF orientation says.", True),
    Argument("use_fast_idct", Kind.BOOL, "Decode JPEGs on the CPU with a faster, less exact inverse DCT.", False),
    Argument(
        "jpeg_fancy_upsampling",
        Kind.BOOL,
        "Interpolate the chroma of JPEGs on the mixed device, as the CPU always does; slower, closer to the CPU.",
        False,
    ),
    Argument(
        "hw_decoder_load",
        Kind.FLOAT,
        "0 leaves the GPU's JPEG engine alone. With any other value it decodes all baseline JPEGs that need not be "
        "turned, where there is one, and CUDA the rest.",
        0.65,
    ),
    _ignored("affine", Kind.BOOL),
    _ignored("cache_batch_copy", Kind.BOOL),
    _ignored("cache_debug", Kind.BOOL),
    _ignored("cache_size", Kind.INT),
    _ignored("cache_threshold", Kind.INT),
    _ignored("cache_type", Kind.STRING),
    _ignored("device_memory_padding", Kind.INT),
    _ignored("device_memory_padding_jpeg2k", Kind.INT),
    _ignored("host_memory_padding", Kind.INT),
    _ignored("host_memory_padding_jpeg2k", Kind.INT),
    _ignored("hybrid_huffman_threshold", Kind.INT),
    _ignored("memory_stats", Kind.BOOL),
    _ignored("preallocate_height_hint", Kind.INT),
    _ignored("preallocate_width_hint", Kind.INT),
    _ignored("split_stages", Kind.BOOL),
    _ignored("use_chunk_allocator", Kind.BOOL),
)
