from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

from pipeline import errors, types
from pipeline.tensors import TensorCPU, TensorListCPU

DTYPES = [dtype for dtype in types.DALIDataType if dtype != types.NO_TYPE]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_passes_through_unchanged(dtype: types.DALIDataType) -> None:
    data = np.arange(6).reshape(2, 3).astype(types.to_numpy_type(dtype))
    batch = TensorListCPU(data, layout="W")
    assert batch.dtype == batch[1].dtype == dtype
    np.testing.assert_array_equal(np.asarray(batch[1]), data[1])
    np.testing.assert_array_equal(batch.as_array(), data)


def test_views_share_memory_and_copies_do_not() -> None:
    data = np.arange(12, dtype=np.float32).reshape(2, 6)
    batch = TensorListCPU(data)
    assert batch.data_ptr() == data.ctypes.data
    assert batch[1].data_ptr() == data[1].ctypes.data
    assert torch.from_dlpack(batch[1]).data_ptr() == data[1].ctypes.data
    assert np.asarray(batch).ctypes.data == data.ctypes.data
    assert np.array(batch[0], copy=True).ctypes.data != data.ctypes.data


def test_a_tensor_is_made_of_anything_that_holds_numbers() -> None:
    class OnlyDlpack:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **arguments: Any) -> Any:
            return self.array.__dlpack__(**arguments)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    for source in (torch.ones(2, 3), np.ones((2, 3), np.float32), OnlyDlpack(np.ones((2, 3), np.float32))):
        assert TensorCPU(source, "HW").as_array().tolist() == [[1.0] * 3] * 2


def test_ragged_empty_and_scalar_samples() -> None:
    ragged = TensorListCPU([np.zeros((0, 3)), np.ones((2, 3))])
    assert ragged.shape() == [(0, 3), (2, 3)]
    assert not ragged.is_dense_tensor()
    assert ragged.nbytes == 48
    with pytest.raises(ValueError, match="different places"):
        ragged.data_ptr()
    scalars = TensorListCPU(np.arange(3))
    assert (scalars.ndim, scalars.shape(), int(np.asarray(scalars[2]))) == (0, [(), (), ()], 2)
    equal = TensorListCPU([np.zeros(2), np.ones(2)])
    assert equal.is_dense_tensor()
    assert equal.as_tensor().shape() == [2, 2]


def test_data_is_copied_to_an_address() -> None:
    ragged = TensorListCPU([np.array([1, 2], np.int16), np.arange(6, dtype=np.int16).reshape(2, 3).T.ravel()])
    target = np.zeros(8, np.int16)
    ragged.copy_to_external(ctypes.c_void_p(target.ctypes.data))
    assert target.tolist() == [1, 2, 0, 3, 1, 4, 2, 5]
    TensorCPU(np.full(8, 7, np.int16)).copy_to_external(target.ctypes.data)
    assert target.tolist() == [7] * 8
    with pytest.raises(ValueError, match="NULL"):
        ragged.copy_to_external(ctypes.c_void_p(0))


def test_layouts_must_fit() -> None:
    with pytest.raises(errors.ArgumentValueError, match="'HW' names 2 dimensions, the samples have 3"):
        TensorListCPU(np.zeros((1, 2, 3, 4)), layout="HW")
    batch = TensorListCPU(np.zeros((1, 2, 3)), layout="HW").with_layout("WC")
    assert batch.layout() == "WC"
    assert batch.as_tensor().layout() == "NWC"


@pytest.mark.parametrize("data", [np.array(["a"]), np.array([None]), np.zeros(2, np.complex64)])
def test_other_dtypes_are_refused(data: Any) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="not supported"):
        TensorListCPU(data)


def test_a_representation_shows_some_of_the_data() -> None:
    text = repr(TensorListCPU(np.arange(2 * 1000).reshape(2, 1000), layout="W"))
    assert "999" in text
    assert "2 samples of DALIDataType.INT64" in text
    assert len(text) < 400
