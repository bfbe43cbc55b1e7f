"""GPU decoders of images, a batch at a time. Importing this needs neither CuPy nor nvImageCodec."""

from pipeline._codecs.decoded import DecodedBatch
from pipeline._codecs.encoded import EncodedBatch
from pipeline._codecs.images import ImageBatchDecoder
from pipeline._codecs.missing import missing_codec_reason, require_codec
from pipeline._codecs.nvimgcodec import GpuDecoder, is_gpu_format
from pipeline._codecs.turns import declare_no_training

__all__ = [
    "DecodedBatch",
    "EncodedBatch",
    "GpuDecoder",
    "ImageBatchDecoder",
    "declare_no_training",
    "is_gpu_format",
    "missing_codec_reason",
    "require_codec",
]
