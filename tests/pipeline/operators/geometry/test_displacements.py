"""`jitter`, whose numbers are random, and the arguments that `water`, `sphere` and `jitter` share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, run_ours

#: Each pixel has its own position as value.
POSITIONS = np.stack(np.meshgrid(np.arange(60), np.arange(50)), axis=-1).astype(np.float32)


def run(name: str, image: Array, **arguments: Any) -> list[Array]:
    graph = lambda fn, types, x: getattr(fn, name)(x, **arguments)  # noqa: E731
    return run_ours(graph, [image, image], layouts=["HWC"])[0].samples


def test_jitter_moves_by_up_to_half_of_the_degree() -> None:
    first, second = run("jitter", POSITIONS, nDegree=6, fill_value=-100)
    moved = (first - POSITIONS)[first.min(axis=-1) >= 0]
    assert sorted(set(moved.ravel().tolist())) == [-3, -2, -1, 0, 1, 2, 3]
    assert abs(moved.mean()) < 0.1
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("name", ["water", "sphere", "jitter"])
def test_mask_returns_the_image_unchanged(name: str) -> None:
    assert np.array_equal(run(name, POSITIONS, mask=0)[1], POSITIONS)
    assert not np.array_equal(run(name, POSITIONS)[1], POSITIONS)


def test_displacements_refuse_other_filters() -> None:
    with pytest.raises(PipelineError, match="interp_type"):
        run("water", POSITIONS, interp_type=2)
