"""GPU decoders of images, a batch at a time. Importing this needs neither CuPy nor nvImageCodec."""

from dali_proxy.pipeline._codecs.decoded import DecodedBatch
from dali_proxy.pipeline._codecs.encoded import EncodedBatch
from dali_proxy.pipeline._codecs.images import ImageBatchDecoder
from dali_proxy.pipeline._codecs.missing import missing_codec_reason, require_codec
from dali_proxy.pipeline._codecs.nvimgcodec import GpuDecoder, is_gpu_format

__all__ = [
    "DecodedBatch",
    "EncodedBatch",
    "GpuDecoder",
    "ImageBatchDecoder",
    "is_gpu_format",
    "missing_codec_reason",
    "require_codec",
]
