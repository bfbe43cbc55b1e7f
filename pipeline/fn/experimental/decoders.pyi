# Written by `python -m docs.stubs`.

"""Operators of `pipeline.fn.experimental.decoders`."""




__all__ = ['image', 'image_crop', 'image_random_crop', 'image_slice', 'video']

from pipeline.fn.decoders import image as image
from pipeline.fn.decoders import image_crop as image_crop
from pipeline.fn.decoders import image_random_crop as image_random_crop
from pipeline.fn.decoders import image_slice as image_slice
from pipeline.fn.decoders import video as video
