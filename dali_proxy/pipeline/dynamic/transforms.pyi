# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.transforms`."""

from builtins import bool as _bool
from typing import Any
from dali_proxy.pipeline._annotations import Array, Arrays, Data, Float, Floats, Int
from dali_proxy.pipeline._dynamic.devices import Device


__all__ = ['combine', 'crop', 'rotation', 'scale', 'shear', 'translation']

def combine(
    input_0: Arrays | Data, input_1: Array | Data, /, *inputs: Array | Data, reverse_order: _bool = False,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Combines transforms into one that applies them in the order of the inputs. `fn.transforms.combine` describes the arguments."""

def crop(
    input: Arrays | Data | None = None, /, *, absolute: _bool = False, from_end: Floats | Array = (1.0,),
    from_start: Floats | Array = (0.0,), reverse_order: _bool = False, to_end: Floats | Array = (1.0,),
    to_start: Floats | Array = (0.0,), device: Device | str | None = None, batch_size: int | None = None,
) -> Any:
    """Returns a transform that maps one box to another, for example a window to the whole image. `fn.transforms.crop` describes the arguments."""

def rotation(
    input: Arrays | Data | None = None, /, *, angle: Float | Array, axis: Floats | Array | None = None,
    center: Floats | Array | None = None, reverse_order: _bool = False, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Any:
    """Returns a transform that rotates points: from x to y in the plane, about an axis in space. `fn.transforms.rotation` describes the arguments."""

def scale(
    input: Arrays | Data | None = None, /, *, center: Floats | Array | None = None, ndim: Int | None = None,
    reverse_order: _bool = False, scale: Floats | Array, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Any:
    """Returns a transform that multiplies coordinates. `fn.transforms.scale` describes the arguments."""

def shear(
    input: Arrays | Data | None = None, /, *, angles: Floats | Array | None = None,
    center: Floats | Array | None = None, reverse_order: _bool = False, shear: Floats | Array | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Any:
    """Returns a transform that shears: it adds multiples of the other coordinates to each coordinate. `fn.transforms.shear` describes the arguments."""

def translation(
    input: Arrays | Data | None = None, /, *, offset: Floats | Array, reverse_order: _bool = False,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Any:
    """Returns a transform that moves points. `fn.transforms.translation` describes the arguments."""

