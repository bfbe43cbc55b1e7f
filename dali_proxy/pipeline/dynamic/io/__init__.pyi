# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.io`."""

from typing import Literal
from dali_proxy.pipeline._annotations import Array, Arrays, Data, Float, Floats, Int
from dali_proxy.pipeline._annotations import Ints
from dali_proxy.pipeline._dynamic.devices import Device
from dali_proxy.pipeline.types import DALIImageType

from dali_proxy.pipeline.dynamic.io import file as file

__all__ = ['file', 'video']

def video(
    source: Arrays | Data, /, *, fill_value: Ints = (0,), frames: Ints | Array | None = None,
    image_type: DALIImageType = DALIImageType.RGB,
    pad_mode: Literal['none', 'constant', 'edge', 'repeat', 'reflect_1001', 'symmetric', 'reflect_101', 'reflect'] = 'none',
    pool_bytes: Int = 1073741824, times: Floats | Array | None = None, tolerance: Float | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Returns single frames of videos, FHWC, for datasets that ask for frames at random. `fn.io.video` describes the arguments."""

