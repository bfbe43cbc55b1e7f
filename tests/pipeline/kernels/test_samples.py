from __future__ import annotations

import numpy as np
import pytest

from dali_proxy.pipeline._cuda.launch import Launch
from dali_proxy.pipeline._cuda.staging import ALIGNMENT, pack_tables
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError


def test_columns_of_ragged_arrays() -> None:
    arrays = [np.zeros((2, 3), np.int16), np.zeros((5, 1), np.int16)[::-1]]
    samples = Samples.from_arrays(arrays)
    assert samples.pointers.tolist() == [array.ctypes.data for array in arrays]
    assert samples.shapes.tolist() == [[2, 3], [5, 1]]
    assert samples.strides.tolist() == [[6, 2], [-2, 2]]
    assert not samples.is_contiguous()


def test_dense_batch_equals_its_samples() -> None:
    batch = np.zeros((3, 4, 5), np.float32)
    dense, listed = Samples.dense(batch), Samples.from_arrays(list(batch))
    for column in ("pointers", "shapes", "strides"):
        np.testing.assert_array_equal(getattr(dense, column), getattr(listed, column))
    assert dense.is_contiguous()
    assert dense.take(np.array([2, 0])).is_contiguous()
    assert not Samples.dense(batch[:, ::2]).take(np.array([2, 0])).is_contiguous()


def test_packed_samples_are_aligned_and_do_not_overlap() -> None:
    shapes = np.array([[3, 5], [0, 7], [100, 1]])
    samples, nbytes = Samples.packed(1 << 20, shapes, np.float64)
    assert samples.is_contiguous()
    assert (samples.pointers % 256 == 0).all()
    ends = samples.pointers + shapes.prod(axis=1) * 8
    assert (ends[:-1] <= samples.pointers[1:]).all()
    assert ends[-1] <= (1 << 20) + nbytes


@pytest.mark.parametrize("shapes", [[[3, 5], [0, 7], [7, 0]], [[4, 3, 2], [1, 0, 5]], [[6], [0]], [[], []]], ids=str)
def test_sizes_of_contiguous_samples_are_those_of_any_samples(shapes: list[list[int]]) -> None:
    table = np.array(shapes, np.int64)
    samples = Samples.contiguous(np.arange(len(table)) * 1000, table, np.dtype(np.float32))
    others = Samples(samples.pointers, samples.shapes, samples.strides, samples.dtype)
    assert samples.sizes.tolist() == others.sizes.tolist() == [4 * int(np.prod(shape)) for shape in shapes]


def test_windows_equal_slices_of_numpy() -> None:
    array = np.arange(60).reshape(5, 4, 3)
    view, window = array[1:4, 2:3], Samples.from_arrays([array]).window([1, 2, 0], [3, 1, 3])
    assert window.pointers[0] == view.ctypes.data
    assert window.shapes[0].tolist() == list(view.shape)
    with pytest.raises(PipelineError, match="sample 0"):
        Samples.from_arrays([array]).window([3, 0, 0], [3, 1, 3])


def test_arrays_of_different_kinds_are_an_error() -> None:
    with pytest.raises(PipelineError, match="sample 1"):
        Samples.from_arrays([np.zeros(3), np.zeros(3, np.uint8)])
    with pytest.raises(PipelineError, match="at least one"):
        Samples.from_arrays([])


def test_tables_are_packed_at_aligned_offsets() -> None:
    offsets, size = pack_tables([np.zeros(3, np.uint8), np.zeros(100), np.zeros(1)])
    assert offsets == [0, ALIGNMENT, 5 * ALIGNMENT]
    assert size == 6 * ALIGNMENT


def test_batch_too_large_for_a_grid_is_an_error() -> None:
    with pytest.raises(PipelineError, match="65536 samples"):
        Launch("strided_copy.cu", "strided_copy", (), (), (1, 65536))
