"""GPU decoders of pictures, a batch at a time. Importing this needs neither CuPy nor nvImageCodec."""

from pipeline.codecs.decoded import DecodedBatch
from pipeline.codecs.encoded import EncodedBatch
from pipeline.codecs.missing import missing_codec_reason, require_codec
from pipeline.codecs.nvimgcodec import GpuDecoder
from pipeline.codecs.pictures import PictureDecoder
from pipeline.codecs.turns import nobody_trains_here

__all__ = [
    "DecodedBatch",
    "EncodedBatch",
    "GpuDecoder",
    "PictureDecoder",
    "missing_codec_reason",
    "nobody_trains_here",
    "require_codec",
]
