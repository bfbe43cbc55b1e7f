"""Random numbers of transforms, and the choice of a transform for each image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._dynamic.values import tracing
from dali_proxy.pipeline._graph.selecting import select
from dali_proxy.pipeline._torchvision.images import Image, ops, traced_tensor, unknown, vector
from dali_proxy.pipeline.errors import ArgumentValueError

Step = Callable[..., Image]


def uniform(image: Image, low: Any, high: Any, count: int | None = None) -> Any:
    """Draw a number from a range for each image, or several.

    The operators that draw have no inputs, so a sample's numbers don't depend on branches.
    """
    shape = None if count is None else [count]
    limits = {"values": [float(low)]} if low == high else {"range": [float(low), float(high)]}
    return ops.random.uniform(**limits, shape=shape, batch_size=image.batch_size)


def uniform_field(image: Image, low: float, high: float) -> Any:
    """Draw a number from a range for each pixel: an array HW of the image's size."""
    shape = ops.cast(vector(*image.size()), dtype=ops.int32)
    field = ops.random.uniform(range=[low, high], shape=shape, batch_size=image.batch_size)
    return image.beside(ops.reshape(field, layout="HW"))


def integers(image: Image, end: Any) -> Any:
    """Draw an integer from 0 to below `end` for each image."""
    if isinstance(end, int):
        values = [float(each) for each in range(end)]
        return ops.random.uniform(values=values, dtype=ops.int32, batch_size=image.batch_size)
    return ops.cast(ops.math.clamp(ops.math.floor(uniform(image, 0, 1) * end), 0, end - 1), dtype=ops.int32)


def chance(image: Image, p: float) -> Any:
    """Draw 1 with a probability, otherwise 0, for each image."""
    return ops.random.coin_flip(probability=p, batch_size=image.batch_size)


def choice(image: Image, weights: Sequence[float]) -> Any:
    """Draw the index of a weight, in proportion to the weights, for each image."""
    drawn = uniform(image, 0, 1)
    limits = np.cumsum(weights)[:-1] / np.sum(weights)
    result = ops.cast(drawn * 0, dtype=ops.int32)
    for limit in limits:
        result = result + (drawn >= float(limit))
    return ops.cast(result, dtype=ops.int32)


def switch(selector: Any, steps: Sequence[Step], image: Image, *parameters: Any, draws: bool = False) -> Image:
    """Process each image with one of several functions.

    Args:
        selector: the index of the function, for each image, on the CPU.
        steps: functions of the image and the parameters.
        image: the images.
        *parameters: tensors or batches that have one value for each image.
        draws: whether the functions draw random numbers. Then all functions draw, so that a traced function and the
            same function in Python get the same numbers.

    Raises:
        ArgumentValueError: the results have different types or layouts.
    """
    if isinstance(image.data, ops.Batch):
        return _switch_batch(np.asarray(selector.cpu().torch()).reshape(-1), steps, image, parameters)
    if tracing.active():
        images: list[Image] = []

        def described(step: Step) -> Callable[[], Any]:
            def describe() -> Any:
                images.append(step(image, *parameters))
                return images[-1].data._value

            return describe

        node = select(selector._value, [described(step) for step in steps])
        return _checked(images).replaced(traced_tensor(node))
    chosen, result = int(selector), None
    for number, step in enumerate(steps):
        if number == chosen:
            result = step(image, *parameters)
        elif draws:
            with tracing(), suppress(ops.TracingError):
                step(image.replaced(unknown(image.data)), *map(unknown, parameters))
    assert result is not None
    return result


def _switch_batch(
    selector: np.ndarray[Any, Any], steps: Sequence[Step], image: Image, parameters: Sequence[Any]
) -> Image:
    images, tensors = [], [None] * len(selector)
    for number, step in enumerate(steps):
        members = np.flatnonzero(selector == number).tolist()
        if members:
            own = image.replaced(image.data.select(members))
            images.append(step(own, *(each.select(members) for each in parameters)))
            for position, tensor in zip(members, images[-1].data.tensors, strict=True):
                tensors[position] = tensor
    return _checked(images).replaced(ops.as_batch(tensors))


def _checked(images: Sequence[Image]) -> Image:
    first, *rest = images
    for other in rest:
        if replace(other, data=None) != replace(first, data=None):
            raise ArgumentValueError(
                f"transforms to choose from return different kinds of images: {first.layout} of {first.dtype} with "
                f"{first.channels} channels, and {other.layout} of {other.dtype} with {other.channels}"
            )
    return first
