"""Values from constant arguments are computed once per batch size; other values for each batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._operator_api.batch import ArgumentCache
from pipeline import Pipeline, fn, types


def batch(size: int) -> Any:
    return SimpleNamespace(size=size)


@pytest.mark.parametrize(
    ("given", "arguments", "drawn", "made"),
    [
        ((), None, False, 3),
        (("size",), None, False, 5),
        (("size",), ("mirror",), False, 3),
        (("size",), ("size", "mirror"), False, 5),
        ((), None, True, 5),
    ],
)
def test_value_is_computed_as_often_as_needed(given: tuple[str, ...], arguments: Any, drawn: bool, made: int) -> None:
    calls = []
    node: Any = SimpleNamespace(argument_inputs=dict.fromkeys(given))
    cache = ArgumentCache(node, lambda batch, axes: calls.append(axes) or (batch.size, axes), arguments, drawn=drawn)
    asked = [(2, "HW"), (2, "HW"), (3, "HW"), (2, "DHW"), (3, "HW")]
    assert [cache.get(batch(size), axes) for size, axes in asked] == asked
    assert len(calls) == made


def test_batches_of_changing_sizes() -> None:
    pipe = Pipeline(batch_size=4, num_threads=1, device_id=None)
    with pipe:
        images = fn.external_source(name="images", layout="HWC")
        resized = fn.resize(images, size=(4, 6))
        outputs = fn.crop_mirror_normalize(resized, crop=(2, 3), mean=[1.0, 2, 3], dtype=types.FLOAT)
        pipe.set_outputs(outputs, fn.crop_mirror_normalize(images, mirror=1, output_layout="HWC"))
    for size in (4, 2, 3, 2, 4):
        given = [np.full((5 + n, 7, 3), 10 * n, np.uint8) for n in range(size)]
        made, mirrored = pipe.run(images=given)
        assert len(made) == len(mirrored) == size
        for n in range(size):
            expected = np.broadcast_to(10.0 * n - np.array([1, 2, 3])[:, None, None], (3, 2, 3))
            np.testing.assert_array_equal(made.at(n), expected)
            np.testing.assert_array_equal(mirrored.at(n), given[n])
    pipe.close()
