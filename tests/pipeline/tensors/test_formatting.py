"""Text that shows tensors and batches."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from pipeline.tensors import TensorListCPU


def texts(name: str) -> list[str]:
    """Return the texts of tensors of DALI or of this package."""
    tensors = importlib.import_module(f"{name}.tensors")
    one, many = tensors.TensorCPU, tensors.TensorListCPU
    arrays: list[Any] = [np.zeros((1,) * ndim, np.uint8) for ndim in range(9)]
    arrays += [np.arange(12, dtype=np.float32).reshape(3, 4), np.array([True, False]), np.float16([1.5, 2])]
    arrays += [np.arange(count) for count in (0, 30, 1000, 1001)]
    arrays += [np.array([np.nan, 1e-9, 1.123456789]), np.arange(1250).reshape(25, 50), np.ones((2, 3, 2, 2))]
    shown = [one(np.ascontiguousarray(array).reshape(np.shape(array))) for array in arrays]
    shown += [many(array) for array in arrays if np.ndim(array)]
    shown += [many([one(array)] * count) for array in arrays[:9] for count in (2, 4, 16, 17)]
    shown += [many([one(np.ones((rows, 3), np.int8), "HW") for rows in range(1, rows)]) for rows in (4, 18, 40)]
    shown += [many(np.ones(shape)) for shape in ((12, 10, 10), (6, 25, 50), (5, 201), (8, 10, 10), (7, 100, 100))]
    shown += [many([]), one(np.zeros((2, 3)), "HW")]
    return [text for each in shown for text in (repr(each), str(each))]


@pytest.mark.parity
def test_texts_are_those_of_dali() -> None:
    for ours, theirs in zip(texts("pipeline"), texts("nvidia.dali"), strict=True):
        assert ours == theirs


def test_text_of_batch_shows_layout_and_shapes() -> None:
    batch = TensorListCPU([np.zeros((1, 2), np.uint8), np.ones((2, 2), np.uint8)], "HW")
    assert str(batch).splitlines() == [
        "TensorListCPU(",
        "    [[[0 0]],",
        "",
        "    [[1 1]",
        "     [1 1]]],",
        "    dtype=DALIDataType.UINT8,",
        '    layout="HW",',
        '    device="cpu",',
        "    num_samples=2,",
        "    shape=[(1, 2), (2, 2)])",
    ]
    assert "[0 0]" not in repr(batch)
