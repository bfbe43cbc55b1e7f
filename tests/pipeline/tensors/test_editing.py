"""Tensors and batches change in place, as in NVIDIA DALI."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

from pipeline import Pipeline, errors, fn, types
from pipeline.tensors import TensorCPU, TensorListCPU

DATA = np.arange(12, dtype=np.float32).reshape(2, 2, 3)


@pytest.mark.parametrize(
    ("shape", "dim", "result", "layout"),
    [
        ((3, 5), None, [3, 5], "AB"),
        ((1, 3, 1), None, [3], "B"),
        ((1, 3, 1), 0, [3, 1], "BC"),
        ((1, 3, 1), -1, [1, 3], "AB"),
        ((1, 3, 1), 1, [1, 3, 1], "ABC"),
        ((1, 1), None, [], ""),
    ],
)
def test_squeeze_removes_dimensions_without_a_copy(
    shape: tuple[int, ...], dim: int | None, result: list[int], layout: str
) -> None:
    data = np.zeros(shape)
    tensor = TensorCPU(data, "ABC"[: len(shape)])
    assert tensor.squeeze(dim) == (len(result) < len(shape))
    assert (tensor.shape(), tensor.layout(), tensor.data_ptr()) == (result, layout, data.ctypes.data)


def test_squeeze_of_missing_dimension_is_an_error() -> None:
    for dim in (2, -3):
        with pytest.raises(errors.InputError, match="out of bounds for a tensor with 2"):
            TensorCPU(np.zeros((1, 1))).squeeze(dim)


def test_dtypes_are_reinterpreted_in_place() -> None:
    tensor = TensorCPU(np.array([0x3F800000, 0x40000000], np.int32))
    tensor.reinterpret(types.FLOAT)
    assert (tensor.dtype, tensor.as_array().tolist()) == (types.FLOAT, [1.0, 2.0])
    for batch in (TensorListCPU(DATA.copy()), TensorListCPU([DATA[0], DATA[1][:1]])):
        _ = batch.table(), batch.samples
        batch.reinterpret(types.UINT32)
        assert batch.dtype == batch[1].dtype == types.UINT32
        assert batch.table().dtype == batch.samples[0].dtype == np.uint32
        assert batch.data_ptr() == batch[0].data_ptr()
        for other in (types.UINT16, types.FLOAT64, types.NO_TYPE):
            with pytest.raises(RuntimeError, match="different element size"):
                batch.reinterpret(other)
        with pytest.raises(TypeError, match="DALIDataType"):
            batch.reinterpret(3)  # type: ignore[arg-type]


def test_layouts_are_set_and_removed() -> None:
    batch, tensor = TensorListCPU(DATA, "HW"), TensorCPU(DATA[0], source_info="file")
    assert (tensor.get_property("layout"), tensor.get_property("source_info")) == (None, "file")
    assert tensor.get_property("else") is None
    for each in (batch, tensor):
        each.set_layout("AB")
        assert each.layout() == "AB"
        with pytest.raises(ValueError, match="'A' names 1 dimensions"):
            each.set_layout("A")
        each.set_layout(None)
        assert each.layout() == ""
        assert each.ndim == each.ndim() == 2
    assert tensor.get_property("layout") is None


def test_separate_samples_become_contiguous_when_necessary() -> None:
    ragged = TensorListCPU([DATA[0], DATA[1][:1]], "HW")
    before = ragged[0].data_ptr()
    assert ragged.as_reshaped_tensor([3, 3]).as_array().tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert ragged.data_ptr() == ragged[0].data_ptr() == ragged.as_reshaped_tensor((9,)).data_ptr() != before
    assert ragged.shape() == [(2, 3), (1, 3)]
    equal = TensorListCPU([DATA[0], DATA[1]])
    assert equal.data_ptr() == equal.as_tensor().data_ptr()
    assert TensorListCPU(DATA).as_reshaped_tensor([12]).data_ptr() == DATA.ctypes.data
    for shape in ([13], [-1], [2, 5]):
        with pytest.raises(RuntimeError, match="same volume"):
            equal.as_reshaped_tensor(shape)
    with pytest.raises(RuntimeError, match="aren't contiguous"):
        TensorListCPU([DATA[0], DATA[1][:1]], contiguous=False).as_reshaped_tensor([9])


def test_outputs_of_a_pipeline_become_contiguous_when_necessary() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.copy(fn.external_source(name="x")), fn.random.normal())
    ragged, numbers = pipe.run(x=[DATA[0], DATA[1][:1], DATA[0]])
    for output in (ragged, numbers):
        assert output.data_ptr() == output[0].data_ptr()
    elements = (ctypes.c_float * 15).from_address(ragged.data_ptr())
    assert list(elements) == [*range(6), *range(6, 9), *range(6)]
    for sample, expected in zip(ragged, (DATA[0], DATA[1][:1], DATA[0]), strict=True):
        assert np.array_equal(sample, expected)
    pipe.close()


def test_one_sample_is_broadcast() -> None:
    sample = TensorCPU(DATA[0], "HW")
    batch = TensorListCPU.broadcast(sample, 3)
    assert (batch.shape(), batch.layout(), batch.dtype) == ([(2, 3)] * 3, "HW", types.FLOAT)
    assert batch[0].data_ptr() == batch[2].data_ptr() == sample.data_ptr()
    assert TensorListCPU.broadcast(sample, 0).dtype == types.FLOAT
    with pytest.raises(errors.InputError, match="-1 samples"):
        TensorListCPU.broadcast(sample, -1)


def test_batches_are_created_from_dlpack() -> None:
    batch = TensorListCPU.from_dlpack_list([torch.ones(2, 3), DATA[1]], "HW")
    assert (batch.shape(), batch.layout()) == ([(2, 3), (2, 3)], "HW")
    assert batch[1].data_ptr() == DATA[1].ctypes.data
    copied = TensorListCPU.from_dlpack_list([DATA[0], DATA[1]], contiguous=True)
    assert copied.data_ptr() == copied[0].data_ptr() != DATA.ctypes.data
    with pytest.raises(TypeError, match="position 1 does not support the DLPack"):
        TensorListCPU.from_dlpack_list([DATA[0], 1])
    assert TensorListCPU(DATA.__dlpack__(), "HW").data_ptr() == DATA.ctypes.data


def test_batches_may_be_empty() -> None:
    reset = TensorListCPU(DATA, "HW")
    reset.reset()
    for batch in (reset, TensorListCPU([])):
        assert (len(batch), batch.shape(), batch.dtype, batch.layout()) == (0, [], types.NO_TYPE, "")
        assert (batch.is_dense_tensor(), batch.as_array().tolist(), batch.nbytes) == (True, [], 0)


def test_dtype_can_be_called_as_in_old_versions_of_dali() -> None:
    with pytest.warns(Warning, match=r"Calling '\.dtype\(\)' is deprecated"):
        assert TensorCPU(DATA).dtype() == "=f"
