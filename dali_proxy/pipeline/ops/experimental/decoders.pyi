# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.experimental.decoders`."""




__all__ = ['Image', 'ImageCrop', 'ImageRandomCrop', 'ImageSlice', 'Video']

from dali_proxy.pipeline.ops.decoders import Image as Image
from dali_proxy.pipeline.ops.decoders import ImageCrop as ImageCrop
from dali_proxy.pipeline.ops.decoders import ImageRandomCrop as ImageRandomCrop
from dali_proxy.pipeline.ops.decoders import ImageSlice as ImageSlice
from dali_proxy.pipeline.ops.decoders import Video as Video
