"""GPU decoders of pictures, a batch at a time. Importing this needs neither CuPy nor nvImageCodec."""

from pipeline.codecs.missing import missing_codec_reason, require_codec
from pipeline.codecs.nvimgcodec import DecodedBatch, GpuDecoder

__all__ = ["DecodedBatch", "GpuDecoder", "missing_codec_reason", "require_codec"]
