"""GPU decoders of images, a batch at a time. Importing this needs neither CuPy nor nvImageCodec."""

from pipeline._codecs.decoded import DecodedBatch
from pipeline._codecs.encoded import EncodedBatch
from pipeline._codecs.images import ImageBatchDecoder
from pipeline._codecs.missing import missing_codec_reason, require_codec
from pipeline._codecs.nvimgcodec import GpuDecoder, is_gpu_format

__all__ = [
    "DecodedBatch",
    "EncodedBatch",
    "GpuDecoder",
    "ImageBatchDecoder",
    "is_gpu_format",
    "missing_codec_reason",
    "require_codec",
]
