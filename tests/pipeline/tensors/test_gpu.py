"""Tensors on a GPU: the same questions as on the CPU, and memory that torch and CuPy see."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from pipeline import errors, types
from pipeline.tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

pytestmark = pytest.mark.gpu

DATA = np.arange(12, dtype=np.float32).reshape(2, 2, 3)


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


def test_tensors_go_to_the_gpu_and_back(cupy: Any) -> None:
    for dtype in types.DALIDataType:
        if types.NO_TYPE < dtype <= types.BOOL:
            batch = TensorListCPU(DATA.astype(types.to_numpy_type(dtype)), "HW").as_gpu()
            assert (batch.dtype, batch.layout(), batch.device_id()) == (dtype, "HW", 0)
            np.testing.assert_array_equal(batch.as_cpu().as_array(), DATA.astype(types.to_numpy_type(dtype)))
    ragged = TensorListCPU([np.zeros((0, 3)), np.ones((2, 3))]).as_gpu()
    assert ragged.shape() == [(0, 3), (2, 3)]
    assert not ragged.is_dense_tensor()
    assert ragged.as_reshaped_tensor([6]).as_cpu().as_array().tolist() == [1.0] * 6
    assert ragged.data_ptr() == ragged[1].data_ptr()
    with pytest.raises(errors.RaggedError, match="ragged"):
        ragged.as_tensor()
    assert TensorCPU(np.float32(3)).as_gpu().as_cpu().as_array() == 3


def test_memory_is_shared_with_cupy_and_torch(cupy: Any) -> None:
    torch = pytest.importorskip("torch")
    array = cupy.asarray(DATA)
    batch = TensorListGPU(array, "HW")
    tensor = batch.as_tensor()
    assert batch.data_ptr() == tensor.data_ptr() == array.data.ptr
    assert tensor.layout() == "NHW"
    assert cupy.asarray(tensor).data.ptr == cupy.from_dlpack(tensor).data.ptr == array.data.ptr
    assert torch.from_dlpack(tensor).data_ptr() == torch.as_tensor(tensor, device="cuda").data_ptr() == array.data.ptr
    made = torch.ones(2, 3, device="cuda", requires_grad=True)
    for other in (TensorGPU(made), TensorListGPU(made), TensorListGPU([made, made])[0]):
        assert other.as_array().data.ptr == made.data_ptr()


def test_copies_and_representations(cupy: Any) -> None:
    batch = TensorListGPU(cupy.asarray(DATA), "HW")
    target = cupy.zeros(DATA.shape, np.float32)
    batch.copy_to_external(ctypes.c_void_p(target.data.ptr))
    np.testing.assert_array_equal(target.get(), DATA)
    assert "11." in str(batch)
    assert "[0. 1. 2.]" in str(batch.at(0))
    with pytest.raises(errors.SampleIndexError, match="index 2 is out of range"):
        batch.at(2)


def test_shapes_and_dtypes_change_in_place(cupy: Any) -> None:
    tensor = TensorGPU(cupy.ones((1, 3, 1), np.int32), "ABC")
    assert (tensor.squeeze(0), tensor.shape(), tensor.layout(), tensor.ndim()) == (True, [3, 1], "BC", 2)
    tensor.reinterpret(types.FLOAT)
    assert tensor.dtype == types.FLOAT
    batch = TensorListGPU.broadcast(tensor, 2)
    assert (batch.shape(), batch.layout(), batch[0].data_ptr()) == ([(3, 1)] * 2, "BC", tensor.data_ptr())
    batch.reset()
    assert (len(batch), batch.shape(), batch.dtype) == (0, [], types.NO_TYPE)
    with pytest.raises(RuntimeError, match="cuda array interface"):
        TensorGPU(DATA)
    with pytest.raises(TypeError, match="position 1 cannot be converted to TensorGPU"):
        TensorListGPU([tensor, TensorCPU(np.ones((3, 1)), "BC")])


def test_streams_convert_to_their_handles(cupy: Any) -> None:
    stream = cupy.cuda.Stream()
    tensor = TensorGPU(cupy.ones(3), stream=stream.ptr)
    assert int(tensor.stream) == stream.ptr
