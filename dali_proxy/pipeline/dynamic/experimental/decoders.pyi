# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.experimental.decoders`."""




__all__ = ['image', 'image_crop', 'image_random_crop', 'image_slice', 'video']

from dali_proxy.pipeline.dynamic.decoders import image as image
from dali_proxy.pipeline.dynamic.decoders import image_crop as image_crop
from dali_proxy.pipeline.dynamic.decoders import image_random_crop as image_random_crop
from dali_proxy.pipeline.dynamic.decoders import image_slice as image_slice
from dali_proxy.pipeline.dynamic.decoders import video as video
