"""Tests of tensors and batches: creation, properties, conversion, indexing, arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline import dynamic, types
from pipeline.errors import ArgumentValueError, RaggedError
from pipeline.tensors import TensorCPU, TensorListCPU


def test_tensor_has_the_data_and_properties_of_an_array() -> None:
    array = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    tensor = dynamic.tensor(array, layout="HWC")
    assert (tensor.shape, tensor.dtype, tensor.layout, tensor.ndim) == ((1, 2, 3), dynamic.uint8, "HWC", 3)
    assert (tensor.size, tensor.nbytes, tensor.itemsize) == (6, 6, 1)
    assert tensor.device == dynamic.Device("cpu")
    assert np.array_equal(np.array(tensor), array)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [([1, 2], "int32"), (1.5, "float32"), (True, "bool"), (np.float64(1), "float64"), (np.int64([1]), "int64")],
)
def test_numbers_of_python_have_32_bits_and_arrays_keep_their_dtype(value: object, dtype: str) -> None:
    assert dynamic.tensor(value).dtype == dynamic.dtype(dtype)


def test_members_of_enumerations_keep_their_type() -> None:
    tensor = dynamic.tensor(types.INTERP_CUBIC)
    assert tensor.dtype == dynamic.InterpType
    assert dynamic.tensor(tensor, dtype=dynamic.int32).item() == int(types.INTERP_CUBIC)


def test_tensor_copies_and_as_tensor_shares_memory() -> None:
    array = np.zeros(3, np.int32)
    copied, shared = dynamic.tensor(array), dynamic.as_tensor(array)
    array[0] = 7
    assert copied.numpy().tolist() == [0, 0, 0]
    assert shared.numpy().tolist() == [7, 0, 0]


@pytest.mark.parametrize(
    "source",
    [
        TensorCPU(np.int32([1, 2])),
        torch.tensor([1, 2], dtype=torch.int32),
        dynamic.tensor([1, 2]),
        TensorListCPU(np.int32([1, 2])),
    ],
)
def test_tensor_accepts_tensors_of_other_libraries(source: object) -> None:
    assert dynamic.as_tensor(source).numpy().tolist() == [1, 2]


def test_torch_and_numpy_share_the_memory_of_a_tensor() -> None:
    tensor = dynamic.tensor([1, 2, 3])
    tensor.torch()[0] = 42
    torch.as_tensor(tensor)[1] = 43
    np.asarray(tensor)[2] = 44
    tensor.torch(copy=True)[0] = 0
    assert tensor.numpy().tolist() == [42, 43, 44]
    assert not hasattr(tensor, "__cuda_array_interface__")


def test_batch_of_lists_is_ragged_and_becomes_a_tensor_by_padding() -> None:
    batch = dynamic.batch([[1, 2], [3]], layout="X")
    assert (batch.batch_size, batch.shape, batch.ndim) == (2, [(2,), (1,)], 1)
    with pytest.raises(RaggedError, match="non-uniform shape"):
        dynamic.as_tensor(batch)
    padded = dynamic.as_tensor(batch, pad=True)
    assert (padded.numpy().tolist(), padded.layout) == ([[1, 2], [3, 0]], "NX")
    assert batch.torch(pad=True).tolist() == [[1, 2], [3, 0]]


def test_batch_selects_samples_and_slices_elements() -> None:
    batch = dynamic.batch([[1, 2, 3], [4, 5, 6]])
    assert batch.select(1).numpy().tolist() == [4, 5, 6]
    assert batch.select([1, 0]).torch().tolist() == [[4, 5, 6], [1, 2, 3]]
    assert batch.select(slice(1, None)).torch().tolist() == [[4, 5, 6]]
    assert batch.slice[1:].torch().tolist() == [[2, 3], [5, 6]]
    assert batch.slice[dynamic.batch([0, 2])].torch().tolist() == [1, 6]
    assert [tensor.numpy().tolist() for tensor in batch] == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(TypeError, match=r"batch\.slice"):
        batch[0]


def test_empty_batch_needs_a_dtype() -> None:
    with pytest.raises(ValueError, match="Element type must be specified"):
        dynamic.batch([])
    assert dynamic.batch([], dtype=dynamic.int16).dtype == dynamic.int16


def test_broadcast_repeats_a_sample() -> None:
    assert dynamic.Batch.broadcast([1, 2], 3).torch().tolist() == [[1, 2]] * 3


def test_layout_must_name_all_dimensions() -> None:
    with pytest.raises(ValueError, match="dimensions"):
        dynamic.tensor(np.zeros((2, 2)), layout="HWC")


def test_layout_can_be_replaced_without_changing_the_source() -> None:
    tensor = dynamic.tensor(np.zeros((2, 2)), layout="HW")
    assert dynamic.as_tensor(tensor, layout="AB").layout == "AB"
    assert tensor.layout == "HW"


def test_indexing_follows_numpy_and_keeps_the_layout() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    tensor = dynamic.tensor(array, layout="HWC")
    cut = tensor[1, ..., ::-1]
    assert np.array_equal(cut, array[1, ..., ::-1])
    assert cut.layout == "WC"
    assert [row.shape for row in tensor] == [(3, 4)] * 2


def test_arithmetic_mixes_tensors_batches_arrays_and_numbers() -> None:
    batch, tensor = dynamic.batch([[1, 2], [3, 4]]), dynamic.tensor([10, 20])
    assert (batch + tensor * 2).torch().tolist() == [[21, 42], [23, 44]]
    assert (np.int32([1, 1]) - tensor).numpy().tolist() == [-9, -19]
    assert (tensor // [3, 4]).numpy().tolist() == [3, 5]
    assert (dynamic.tensor(5, dtype=dynamic.uint8) + 300).dtype == dynamic.int32
    assert bool(dynamic.tensor(5) > 3)
    assert dynamic.math.sqrt(4).item() == 2
    assert dynamic.math.clamp(tensor, 0, 15).numpy().tolist() == [10, 15]


def test_arithmetic_accepts_samples_that_are_not_contiguous() -> None:
    batch = dynamic.batch([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    assert (batch.slice[:, 1:] - batch.slice[:, :1]).torch().flatten().tolist() == [1] * 4


def test_sizes_of_batches_must_agree() -> None:
    with pytest.raises(ValueError, match=r"Inconsistent batch size: 2 != 3\n  at .*test_arrays\.py"):
        _ = dynamic.batch([1, 2, 3]) + dynamic.batch([1, 2])


def test_dtype_describes_its_bits() -> None:
    assert (dynamic.float16.exponent_bits, dynamic.float16.significand_bits, dynamic.int32.bytes) == (5, 10, 4)
    assert dynamic.dtype("f32") is dynamic.dtype(torch.float32) is dynamic.dtype(np.float32) is dynamic.float32
    assert dynamic.type_id(dynamic.float32) is types.FLOAT
    assert dynamic.uint8([1, 2]).dtype == dynamic.uint8
    with pytest.raises(ValueError, match="unknown type"):
        dynamic.dtype("float7")


def test_device_is_checked() -> None:
    assert str(dynamic.device("cpu")) == "cpu"
    assert dynamic.device(torch.device("cpu")) == dynamic.Device.CPU
    for wrong in ("foo", "cpu:1", "gpu:99"):
        with pytest.raises(ArgumentValueError, match="Invalid device"):
            dynamic.device(wrong)


def test_text_shows_data_and_properties() -> None:
    assert repr(dynamic.tensor([1, 2])) == 'Tensor(\n    [1 2],\n    dtype=i32,\n    device="cpu",\n    shape=(2,))'
    assert str(dynamic.batch([[1]])).startswith("Batch(\n    [[1]],\n    dtype=i32")


def test_notebooks_draw_tensors_and_batches() -> None:
    pixels = np.full((30, 40, 3), 200, np.uint8)
    for array in (dynamic.tensor(pixels, layout="HWC"), dynamic.batch([pixels] * 2, layout="HWC")):
        html = dynamic.flip(array)._repr_html_()
        assert html.startswith('<img src="data:image/png;base64,')
        assert f"<pre>{type(array).__name__}(" in html
    assert dynamic.tensor([1.0, 2.0])._repr_html_().startswith("<pre>Tensor(")
