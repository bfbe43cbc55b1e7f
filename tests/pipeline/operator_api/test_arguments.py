"""Arguments of an operator for one batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operators.geometry.crop import CROP
from pipeline.tensors.cpu import TensorListCPU


def arguments(constants: dict[str, Any], batches: dict[str, list[Any]], size: int = 2) -> Arguments:
    values = {name: TensorListCPU([np.asarray(each) for each in rows]) for name, rows in batches.items()}
    return Arguments(GraphNode(0, CROP.name, "__crop", "cpu", arguments=constants), values, size)


def test_table_is_one_array_if_all_samples_have_as_many_numbers() -> None:
    made = arguments({"crop": (3.0, 4.0)}, {"crop_pos_x": [0.25, 0.5], "crop_pos_y": [[0.25], [0.5, 1.0]]})
    for name, expected in (("crop", [[3, 4], [3, 4]]), ("crop_pos_x", [[0.25], [0.5]])):
        table = made.table(name, np.float32)
        assert isinstance(table, np.ndarray)
        assert (table.tolist(), table.dtype) == (expected, np.float32)
    ragged = made.table("crop_pos_y")
    assert isinstance(ragged, list)
    assert [row.tolist() for row in ragged] == [[0.25], [0.5, 1.0]]
    assert made.table("crop_d") is not None  # a default
    assert made.table("crop") is made.table("crop")


def test_numbers_that_repeat_for_each_axis_are_an_array_of_their_own() -> None:
    vectors = arguments({}, {"crop_pos_x": [0.25, 0.5]}).vectors("crop_pos_x", 3, np.float32)
    assert vectors is not None
    assert (vectors.tolist(), vectors.dtype) == ([[0.25] * 3, [0.5] * 3], np.float32)


def test_derived_values_are_computed_once_for_constants() -> None:
    calls: list[int] = []

    def compute(own: Arguments, size: int) -> int:
        calls.append(size)
        return len(calls)

    constant = arguments({"crop": (3.0, 4.0)}, {"crop_pos_x": [0.25, 0.5]})
    assert [constant.derived(compute, "crop", "crop_d") for _ in range(2)] == [1, 1]
    assert [constant.derived(compute, "crop", "crop_pos_x") for _ in range(2)] == [2, 3]
    assert calls == [2, 2, 2]
