# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.segmentation`."""

from builtins import bool as _bool
from typing import Literal
from dali_proxy.pipeline._annotations import Array, Arrays, Data, Float, Floats, Int
from dali_proxy.pipeline._annotations import Ints
from dali_proxy.pipeline._dynamic.devices import Device
from dali_proxy.pipeline._dynamic.randomness import RNG


__all__ = ['random_mask_pixel', 'random_object_bbox', 'select_masks']

def random_mask_pixel(
    mask: Arrays | Data, /, *, foreground: Int | Array = 0, threshold: Float | Array = 0.0,
    value: Int | Array | None = None, device: Device | str | None = None, batch_size: int | None = None,
    rng: RNG | None = None,
) -> Arrays:
    """Draws a pixel of a mask: one of the foreground, or any. `fn.segmentation.random_mask_pixel` describes the arguments."""

def random_object_bbox(
    map: Arrays | Data, /, *, background: Int | Array = 0, cache_objects: _bool = False,
    class_weights: Floats | Array | None = None, classes: Ints | Array | None = None,
    foreground_prob: Float | Array = 1.0,
    format: Literal['anchor_shape', 'start_end', 'box'] = 'anchor_shape', ignore_class: _bool = False,
    k_largest: Int | None = None, output_class: _bool = False, threshold: Ints | Array | None = None,
    device: Device | str | None = None, batch_size: int | None = None, rng: RNG | None = None,
) -> tuple[Arrays, ...]:
    """Draws an object of a segmentation map, and returns its bounding box. `fn.segmentation.random_object_bbox` describes the arguments."""

def select_masks(
    mask_ids: Arrays | Data, polygons: Array | Data, vertices: Array | Data, /, *,
    reindex_masks: _bool = False, device: Device | str | None = None, batch_size: int | None = None,
) -> tuple[Arrays, ...]:
    """Selects the polygons of masks, in the order of `mask_ids`. `fn.segmentation.select_masks` describes the arguments."""

