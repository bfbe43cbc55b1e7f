from __future__ import annotations

import copy
import ctypes
import importlib
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy.pipeline._kernels.samples import Samples, contiguous_strides
from pipeline import errors, types
from pipeline.tensors import TensorCPU, TensorListCPU

DTYPES = [dtype for dtype in types.DALIDataType if types.NO_TYPE < dtype <= types.BOOL]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_pass_through_unchanged(dtype: types.DALIDataType) -> None:
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


def test_tensor_accepts_any_numeric_object() -> None:
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
    separate = TensorListCPU([np.zeros((0, 3)), np.ones((2, 3))], contiguous=False)
    assert separate.data_ptr() == separate[0].data_ptr()
    scalars = TensorListCPU(np.arange(3))
    assert (scalars.ndim, scalars.shape(), int(np.asarray(scalars[2]))) == (0, [(), (), ()], 2)
    equal = TensorListCPU([np.zeros(2), np.ones(2)])
    assert equal.is_dense_tensor()
    assert equal.as_tensor().shape() == [2, 2]


def test_samples_are_found_by_their_position() -> None:
    batch = TensorListCPU(np.arange(3))
    assert isinstance(batch.at(1), np.ndarray)
    assert [int(batch.at(index)) for index in (0, np.int64(2), -3)] == [0, 2, 0]
    for index in (3, -4):
        for find in (batch.at, batch.__getitem__):
            with pytest.raises(errors.SampleIndexError, match=f"index {index} is out of range for a batch of 3"):
                find(index)
    for wrong in ("a", slice(0, 1), 1.0):
        with pytest.raises(TypeError):
            batch[wrong]  # type: ignore[index]


def test_batch_of_tensors_has_their_layout() -> None:
    tensors = [TensorCPU(np.zeros((rows, 3)), "HW") for rows in (1, 2)]
    assert TensorListCPU(tensors).layout() == "HW"
    assert TensorListCPU(tensors, layout="AB").layout() == "AB"
    with pytest.raises(errors.InputTypeError, match="one layout"):
        TensorListCPU([tensors[0], TensorCPU(np.zeros((2, 3)), "WH")])
    with pytest.raises(errors.InputError, match="not from int"):
        TensorListCPU(3)


def test_numpy_torch_and_this_package_share_memory() -> None:
    for dtype in DTYPES:
        data = np.arange(6).reshape(2, 3).astype(types.to_numpy_type(dtype))
        tensor = TensorCPU(data)
        assert tensor.__array_interface__["data"][0] == data.ctypes.data
        for other in (np.from_dlpack(tensor), np.asarray(tensor), TensorCPU(torch.from_dlpack(tensor)).as_array()):
            assert other.ctypes.data == data.ctypes.data
            assert other.dtype == data.dtype
        assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    assert TensorCPU(b"ab").as_array().tolist() == [97, 98]
    assert TensorCPU(torch.ones(2, requires_grad=True).detach()).shape() == [2]


def test_capsule_is_used_once() -> None:
    data = np.arange(3)
    capsule = data.__dlpack__()
    assert TensorCPU(capsule, "W").data_ptr() == data.ctypes.data
    with pytest.raises(errors.InputError, match="used_dltensor"):
        TensorCPU(capsule)


def described(name: str) -> Any:
    """Return what DALI, or this package, says of the same tensors."""
    package = importlib.import_module(name)
    tensors, known = package.tensors, importlib.import_module(f"{name}.types")
    one = tensors.TensorCPU(np.arange(6, dtype=np.int16).reshape(2, 3), "HW")
    dense = tensors.TensorListCPU(np.arange(12, dtype=np.float32).reshape(2, 2, 3), "HW")
    ragged = tensors.TensorListCPU([tensors.TensorCPU(np.zeros((rows, 3), np.uint8), "HW") for rows in (0, 2)])
    scalars = tensors.TensorListCPU(np.arange(3))
    target = np.zeros((2, 2, 3), np.float32)
    dense.copy_to_external(ctypes.c_void_p(target.ctypes.data))
    told = [(batch.shape(), batch.layout(), len(batch), batch.is_dense_tensor()) for batch in (dense, ragged, scalars)]
    return (
        told,
        (one.shape(), one.layout(), one.source_info(), tuple(one.__dlpack_device__()), np.asarray(one).tolist()),
        (dense.as_tensor().shape(), dense.as_tensor().layout(), dense.at(1).tolist(), np.asarray(dense[-1]).tolist()),
        (one.dtype == known.INT16, dense.dtype == known.FLOAT, ragged[0].dtype == known.UINT8, scalars[2].shape()),
        target.tolist(),
        [sample.shape() for sample in ragged],
        torch.from_dlpack(one).tolist(),
    )


def mistakes(name: str) -> list[type[BaseException] | None]:
    tensors = importlib.import_module(f"{name}.tensors")
    cpu, batch = tensors.TensorCPU, tensors.TensorListCPU
    ragged = batch([cpu(np.zeros((rows, 3))) for rows in (1, 2)])
    calls: list[Callable[[], Any]] = [
        lambda: cpu(np.zeros(2), "HW"),
        lambda: cpu(None),
        lambda: batch(np.float32(2)),
        lambda: batch([cpu(np.zeros(2)), cpu(np.zeros(2, np.int8))]),
        lambda: batch([cpu(np.zeros(2)), cpu(np.zeros((2, 2)))]),
        lambda: batch([cpu(np.zeros(2), "A"), cpu(np.zeros(2), "B")]),
        lambda: ragged.as_array(),
        lambda: ragged.as_tensor(),
        lambda: ragged[2],
        lambda: len(ragged[0]),
        lambda: ragged[0][0],
    ]
    return [raised(call) for call in calls]


def raised(call: Callable[[], Any]) -> type[BaseException] | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the tests compare its type
        return type(error)
    return None


@pytest.mark.parity
def test_tensors_equal_those_of_dali() -> None:
    assert described("pipeline") == described("nvidia.dali")
    for number, (ours, theirs) in enumerate(zip(mistakes("pipeline"), mistakes("nvidia.dali"), strict=True)):
        assert theirs is not None
        assert issubclass(ours or object, theirs), (number, ours, theirs)


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
    with pytest.raises(errors.ArgumentValueError, match="'HW' names 2 dimensions, but the samples have 3"):
        TensorListCPU(np.zeros((1, 2, 3, 4)), layout="HW")
    batch = TensorListCPU(np.zeros((1, 2, 3)), layout="HW").with_layout("WC")
    assert batch.layout() == "WC"
    assert batch.as_tensor().layout() == "NWC"


@pytest.mark.parametrize("data", [np.array(["a"]), np.array([None]), np.zeros(2, np.complex64)])
def test_other_dtypes_are_refused(data: Any) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="not supported"):
        TensorListCPU(data)


def test_representation_shows_some_of_the_data() -> None:
    batch = TensorListCPU(np.arange(2 * 1000).reshape(2, 1000), layout="W")
    assert "1999" in str(batch)
    assert "num_samples=2" in repr(batch)
    assert len(repr(batch)) < 200


def tables_agree(batch: TensorListCPU) -> None:
    """What a batch says as a whole is what its samples say one by one."""
    samples, table = [np.asarray(sample) for sample in batch.samples], batch.table()
    assert table.pointers.tolist() == [sample.ctypes.data for sample in samples]
    assert table.shapes.tolist() == [list(sample.shape) for sample in samples] == [list(s) for s in batch.shape()]
    assert table.sizes.tolist() == [sample.nbytes for sample in samples]
    assert table.dtype == samples[0].dtype
    assert batch.nbytes == table.nbytes == sum(sample.nbytes for sample in samples)
    assert len(batch) == len(table) == len(samples)
    assert batch.is_dense_tensor() == (len({sample.shape for sample in samples}) == 1)
    assert batch.table() is table


def test_table_of_a_batch_has_the_addresses_of_samples():
    tables_agree(TensorListCPU(np.arange(12, dtype=np.int16).reshape(3, 2, 2)[::-1]))
    tables_agree(TensorListCPU([np.zeros((2, 3)), np.ones((4, 3)).T[:3, :2]]))
    tables_agree(TensorListCPU([np.array(1.5), np.array(2.5)]))


@pytest.mark.parametrize("layout", ["", "HW"])
def test_batch_of_a_table_has_its_samples(layout):
    blocks = [np.arange(64, dtype=np.uint8), np.arange(100, 132, dtype=np.uint8)]
    homes, offsets = np.array([1, 0, 0]), np.array([4, 0, 32])
    shapes = np.array([[2, 3], [4, 4], [0, 5]])
    pointers = np.array([block.ctypes.data for block in blocks])[homes] + offsets
    table = Samples(pointers, shapes, contiguous_strides(shapes, 2), np.dtype(np.int16))

    def make():
        return TensorListCPU.from_table(table, blocks, homes)

    for batch in (make(), make().with_layout(layout)):
        assert (len(batch), batch.ndim, batch.nbytes, batch.dtype) == (3, 2, 44, types.INT16)
        assert batch.shape() == [(2, 3), (4, 4), (0, 5)]
        assert not batch.is_dense_tensor()
        tables_agree(batch)
        np.testing.assert_array_equal(batch.at(0), blocks[1][4:16].view(np.int16).reshape(2, 3))
        np.testing.assert_array_equal(batch[1], blocks[0][:32].view(np.int16).reshape(4, 4))
    assert make().with_layout(layout).layout() == layout


def test_batch_of_a_table_keeps_its_memory():
    block = np.full(1 << 16, 7, np.uint8)
    gone = weakref.ref(block)
    table, _ = Samples.packed(block.ctypes.data, np.array([[100], [200]]), np.uint8)
    batch = TensorListCPU.from_table(table, [block])
    del block
    sample = batch.at(1)
    del batch
    assert (sample == 7).all()
    del sample
    assert gone() is None


def test_batches_in_blocks_are_concatenated_without_work_per_sample() -> None:
    def batch(begin: int, counts: list[int]) -> TensorListCPU:
        block = np.arange(begin, begin + sum(counts), dtype=np.uint8)
        shapes = np.array(counts, np.int64)[:, None]
        table, _ = Samples.packed(block.ctypes.data, shapes, np.uint8, alignment=1)
        return TensorListCPU.from_table(table, [block])

    joined = TensorListCPU.concatenate([batch(0, [2, 3]), batch(5, [1]), batch(6, [4, 1])])
    assert joined._samples is None
    assert joined.table().is_contiguous()
    assert [sample.tolist() for sample in joined.samples] == [[0, 1], [2, 3, 4], [5], [6, 7, 8, 9], [10]]


def test_batches_of_rows_are_concatenated_without_work_per_sample() -> None:
    def batch(begin: int, counts: list[int]) -> TensorListCPU:
        rows = np.arange(2 * begin, 2 * (begin + sum(counts)), dtype=np.float32).reshape(-1, 2)
        return TensorListCPU.from_rows(rows, np.array(counts, np.int64))

    joined = TensorListCPU.concatenate([batch(0, [2, 0]), batch(2, [1, 1]), batch(4, [3])])
    assert joined._samples is None
    assert joined.rows() is joined._rows
    assert [sample[:, 1].tolist() for sample in joined.samples] == [[1, 3], [], [5], [7], [9, 11, 13]]


@pytest.mark.parametrize("counts", [[2, 0, 3], [2, 2], [4]])
@pytest.mark.parametrize(
    "read",
    [
        len,
        TensorListCPU.shape,
        TensorListCPU.is_dense_tensor,
        lambda batch: batch.nbytes,
        lambda batch: [each.tolist() for each in batch.samples],
        lambda batch: batch.table().shapes.tolist(),
        lambda batch: [each.tolist() for each in TensorListCPU.concatenate([batch, batch]).samples],
        lambda batch: [each.tolist() for each in copy.copy(batch).samples],
        lambda batch: batch.reinterpret(types.INT32) or [batch.rows() and batch.rows()[0].dtype, batch.samples],
        lambda batch: [batch.data_ptr() and batch.samples, batch.rows() and batch.rows()[0]],
    ],
    ids=["len", "shape", "dense", "nbytes", "samples", "table", "concatenate", "copy", "reinterpret", "data_ptr"],
)
def test_batch_of_rows_is_like_one_of_samples(counts: list[int], read: Callable[[TensorListCPU], Any]) -> None:
    numbers = np.arange(3 * sum(counts), dtype=np.float32).reshape(-1, 3)
    samples = np.split(numbers, np.cumsum(counts)[:-1])
    made = TensorListCPU.from_rows(numbers, np.array(counts, np.int64))
    np.testing.assert_equal(read(made), read(TensorListCPU([each.copy() for each in samples])))
