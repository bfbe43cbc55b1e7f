"""The user's own Python function, after decoding and cropping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.comparison.job import Arrays, Tensors
from benchmarks.comparison.jobs.images import SIZE, Images, decode, exact, exact_decode, shrink
from benchmarks.comparison.posterize import posterize


class OwnFunction(Images):
    """An image through a function in NumPy. It returns uint8 ``[H, W, C]``."""

    bounds = (6.0,)
    units = (1.0,)

    def drawn(self, index: int) -> Arrays:
        return super().drawn(index)[:2]

    def transform(self, *inputs: np.ndarray) -> Arrays:
        encoded, start, shape = inputs
        return (posterize(shrink(decode(encoded), start, shape).transpose(1, 2, 0)),)

    def graph(self, library: Any, *inputs: Any) -> Any:
        encoded, start, shape = inputs
        images = library.fn.decoders.image_slice(encoded, start=start, shape=shape, axes=[0, 1])
        return library.fn.python_function(library.fn.resize(images, size=SIZE), function=posterize)

    def reference(self, *inputs: np.ndarray) -> Arrays:
        encoded, start, shape = inputs
        return (posterize(exact(exact_decode(encoded), start, shape)),)

    def finisher(self) -> Callable[[Tensors], Tensors]:
        return lambda batch: batch
