# Written by `python -m docs.stubs`.

"""Operators of `pipeline.ops.experimental.decoders`."""




__all__ = ['Image', 'ImageCrop', 'ImageRandomCrop', 'ImageSlice', 'Video']

from pipeline.ops.decoders import Image as Image
from pipeline.ops.decoders import ImageCrop as ImageCrop
from pipeline.ops.decoders import ImageRandomCrop as ImageRandomCrop
from pipeline.ops.decoders import ImageSlice as ImageSlice
from pipeline.ops.decoders import Video as Video
