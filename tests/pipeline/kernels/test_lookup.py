"""Tables of values indexed by integers are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._kernels.lookup import plan_look_up
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError


@pytest.mark.parametrize(("source", "target"), [("uint8", "float16"), ("int8", "int32"), ("int64", "float32")])
def test_values_by_number(runner: Any, source: str, target: str) -> None:
    table = np.array([10, 20, 30, -1]).astype(target)
    feed = [
        np.array([[0, 1, 2], [3, 4, 100]]).astype(source),
        np.array([[-1], [0]]).astype(source),
        np.zeros((0, 2), source),
    ]
    made = [np.zeros(sample.shape, target) for sample in feed]
    runner.look_up(feed, made, table=table)
    assert [sample.ravel().tolist() for sample in made] == [[10, 20, 30, -1, -1, -1], [-1, 10], []]


def test_arrays_that_do_not_fit_are_refused() -> None:
    src, table = Samples.from_arrays([np.zeros(3, np.uint8)]), np.zeros(1, np.float32)
    with pytest.raises(PipelineError, match="the table in dtype"):
        plan_look_up(src, src, table)
    with pytest.raises(PipelineError, match="not contiguous"):
        plan_look_up(
            Samples.from_arrays([np.zeros(6, np.uint8)[::2]]), Samples.from_arrays([np.zeros(3, np.float32)]), table
        )
