"""Conversion of a pipeline's tensors to torch tensors: no copy unless requested, and the right order of streams."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest
import torch

from pipeline import Pipeline, errors, fn
from pipeline.tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU
from pipeline.tensors.interop import feed_ndarray, to_torch_tensor, to_torch_type
from pipeline.types import DALIDataType, to_numpy_type

DATA = np.arange(6, dtype=np.float32).reshape(2, 3)
DTYPES = [kind for kind in DALIDataType if kind in to_torch_type]


def ragged() -> TensorListCPU:
    return TensorListCPU([np.zeros(2, np.float32), np.zeros(3, np.float32)])


def counting(device: str = "cpu") -> Any:
    """Return batches of 1, 2, 3 ... in memory of a buffer pool."""
    seen = [0]

    def source() -> Any:
        seen[0] += 1
        return np.full((2, 128, 256), seen[0], np.float32)

    pipe = Pipeline(batch_size=2, num_threads=1, device_id=0 if device == "gpu" else None)
    with pipe:
        node = fn.external_source(source)
        pipe.set_outputs((node.gpu() if device == "gpu" else node) + 0)
    return pipe


def test_types() -> None:
    numbers = range(DALIDataType.UINT8, DALIDataType.STRING)
    assert {kind for kind in DALIDataType if kind in to_torch_type} == {DALIDataType(each) for each in numbers}
    for kind, torch_type in to_torch_type.items():
        assert torch.from_numpy(np.zeros(1, to_numpy_type(kind))).dtype == torch_type


# to_torch_tensor


@pytest.mark.parametrize("kind", DTYPES, ids=lambda kind: str(kind.name))
@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), ()])
def test_tensors_of_all_dtypes(kind: DALIDataType, copy: bool, shape: tuple[int, ...]) -> None:
    data = np.ones(shape, to_numpy_type(kind))
    made = to_torch_tensor(TensorCPU(data), copy=copy)
    assert made.dtype == to_torch_type[kind]
    assert tuple(made.shape) == shape
    assert made.numpy().tolist() == data.tolist()


def test_copy_is_the_default() -> None:
    tensor = TensorCPU(DATA.copy())
    assert to_torch_tensor(tensor).data_ptr() != tensor.data_ptr()
    assert to_torch_tensor(tensor, copy=True).data_ptr() != tensor.data_ptr()
    shared = to_torch_tensor(tensor, copy=False)
    assert shared.data_ptr() == tensor.data_ptr()
    shared[0, 0] = 9
    assert tensor.as_array()[0, 0] == 9


def test_batches() -> None:
    batch = TensorListCPU(DATA.copy())
    shared = to_torch_tensor(batch, copy=False)
    assert shared.shape == (2, 3)
    assert shared.data_ptr() == batch.data_ptr()
    assert to_torch_tensor(TensorListCPU([DATA[0], DATA[1]])).tolist() == DATA.tolist()
    with pytest.raises(errors.ArgumentMismatchError, match="differ in shape"):
        to_torch_tensor(ragged(), copy=False)


@pytest.mark.parametrize("array", [np.broadcast_to(DATA, (4, 2, 3)), DATA.T, DATA[:, ::-1], DATA[::2]])
@pytest.mark.parametrize("copy", [False, True])
def test_memory_that_cannot_be_shared_is_copied(array: Any, copy: bool) -> None:
    made = to_torch_tensor(TensorCPU(array), copy=copy)
    assert made.is_contiguous()
    assert made.tolist() == array.tolist()
    made.zero_()
    assert DATA.any()


def test_outputs_are_shared_and_stay() -> None:
    pipe = counting()
    held = []
    for number in range(1, 6):
        (output,) = pipe.run()
        shared = to_torch_tensor(output, copy=False)
        sample = to_torch_tensor(output[1], copy=False)
        assert shared.data_ptr() == output.data_ptr()
        assert sample.data_ptr() == shared[1].data_ptr()
        held.append((number, sample))
        del output, shared
    for _ in range(30):
        pipe.run()
    pipe.close()
    gc.collect()
    assert all(sample.eq(number).all() for number, sample in held)


@pytest.mark.parametrize("wrong", [3, "x", None])
def test_objects_without_data_are_refused(wrong: Any) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="a tensor of a pipeline"):
        to_torch_tensor(wrong)


def test_objects_with_dlpack_are_accepted() -> None:
    assert to_torch_tensor(DATA.copy(), copy=False).tolist() == DATA.tolist()


@pytest.mark.parity
def test_tensors_of_dali() -> None:
    tensors = pytest.importorskip("nvidia.dali.tensors")
    theirs = tensors.TensorCPU(DATA)
    assert to_torch_tensor(theirs, copy=False).data_ptr() == theirs.data_ptr()
    assert to_torch_tensor(theirs).data_ptr() != theirs.data_ptr()
    assert to_torch_tensor(tensors.TensorListCPU(DATA), copy=False).tolist() == DATA.tolist()
    assert feed_ndarray(theirs, torch.zeros(2, 3)).tolist() == DATA.tolist()


# feed_ndarray


@pytest.mark.parametrize("source", [TensorCPU(DATA), TensorListCPU(DATA), TensorListCPU([DATA[0], DATA[1]])])
@pytest.mark.parametrize("stream", [None, 0])
def test_feed(source: Any, stream: Any) -> None:
    target = torch.zeros(2, 3)
    assert feed_ndarray(source, target, cuda_stream=stream) is target
    assert target.tolist() == DATA.tolist()


def test_feed_accepts_any_strides() -> None:
    """DALI writes into memory as if it were contiguous."""
    target = torch.zeros(3, 2).T
    feed_ndarray(TensorCPU(DATA), target)
    assert target.tolist() == DATA.tolist()
    wide = torch.zeros(2, 6)
    feed_ndarray(TensorCPU(DATA), wide[:, ::2])
    assert wide[:, 1::2].eq(0).all()


def test_feed_a_parameter() -> None:
    target = torch.zeros(2, 3, requires_grad=True)
    assert feed_ndarray(TensorCPU(DATA), target).tolist() == DATA.tolist()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (TensorCPU(DATA), torch.zeros(3, 2), r"shape \(2, 3\), `arr` \(3, 2\)"),
        (TensorCPU(DATA), torch.zeros(6), "shape"),
        (TensorCPU(DATA), torch.zeros(2, 3, dtype=torch.int32), "torch.float32 vs torch.int32"),
        (ragged(), torch.zeros(2, 3), "differ in shape"),
        (TensorCPU(DATA), DATA, "not into ndarray"),
    ],
)
def test_feed_refuses_wrong_targets(source: Any, target: Any, message: str) -> None:
    with pytest.raises(errors.GraphError, match=message):
        feed_ndarray(source, target)


# On a GPU


@pytest.mark.gpu
def test_gpu_outputs_are_memory_of_torch_and_stay() -> None:
    pipe = counting("gpu")
    held = []
    for number in range(1, 6):
        (output,) = pipe.run()
        assert isinstance(output, TensorListGPU)
        shared = to_torch_tensor(output, copy=False)
        sample = to_torch_tensor(output[1], copy=False)
        assert shared.is_cuda
        assert shared.data_ptr() != output.as_tensor().data_ptr(), "CuPy has allocated the memory of the output"
        assert to_torch_tensor(output).data_ptr() != shared.data_ptr()
        held.append((number, sample))
        del output, shared
    for _ in range(50):
        pipe.run()
    assert all(sample.eq(number).all().item() for number, sample in held)
    pipe.close()


@pytest.mark.gpu
def test_gpu_memory_is_not_reused_while_a_slow_reader_reads() -> None:
    pipe = counting("gpu")
    stream = torch.cuda.Stream()
    sums = []
    for number in range(1, 21):
        (output,) = pipe.run()
        with torch.cuda.stream(stream):
            tensor = to_torch_tensor(output[0], copy=False)
            torch.cuda._sleep(5_000_000)
            sums.append((number, tensor.sum() / tensor.numel()))
        del output, tensor
    stream.synchronize()  # the means are on it, and reading them waits for another stream
    assert [number for number, _ in sums] == [round(float(mean)) for _, mean in sums]
    pipe.close()


@pytest.mark.gpu
@pytest.mark.parametrize("stream", ["none", "torch", "int", "c_void_p", "cupy"])
def test_gpu_feed(stream: str) -> None:
    import cupy

    pipe = counting("gpu")
    side = torch.cuda.Stream()
    streams = {
        "none": None,
        "torch": side,
        "int": side.cuda_stream,
        "c_void_p": ctypes.c_void_p(side.cuda_stream),
        "cupy": cupy.cuda.ExternalStream(side.cuda_stream),
    }
    target = torch.zeros(2, 128, 256, device="cuda")
    torch.cuda.synchronize()
    for number in range(1, 11):
        (output,) = pipe.run()
        assert feed_ndarray(output, target, cuda_stream=streams[stream]) is target
        del output
        if stream != "none":
            torch.cuda.current_stream().wait_stream(side)
        assert target.eq(number).all().item()
        torch.cuda.synchronize()
    on_host = torch.zeros(2, 128, 256)
    feed_ndarray(pipe.run()[0], on_host)
    assert on_host.eq(11).all()
    feed_ndarray(TensorCPU(np.full((2, 128, 256), 7, np.float32)), target)
    assert target.eq(7).all().item()
    with pytest.raises(errors.DeviceError, match="isn't a CUDA stream"):
        feed_ndarray(pipe.run()[0], target, cuda_stream=object())
    pipe.close()


@pytest.mark.gpu
def test_gpu_iterators() -> None:
    from dali_proxy import DALIGenericIterator, DALIRaggedIterator, LastBatchPolicy

    iterator = DALIGenericIterator(counting("gpu"), ["x"], size=99, last_batch_policy=LastBatchPolicy.PARTIAL)
    held = [batch[0]["x"] for batch in iterator]
    assert len(held) == 50
    assert held[-1].shape == (1, 128, 256)
    assert all(tensor.is_cuda and tensor.eq(number).all().item() for number, tensor in enumerate(held, 1))

    pipe = Pipeline(batch_size=2, num_threads=1, device_id=0)
    with pipe:
        samples = [np.full((rows, 400), rows, np.float32) for rows in (1, 2)]
        pipe.set_outputs(fn.external_source(lambda: samples).gpu() + 1)
    for tag in (DALIRaggedIterator.SPARSE_LIST_TAG, DALIRaggedIterator.SPARSE_COO_TAG):
        made = next(DALIRaggedIterator(pipe, ["x"], size=2, output_types=[tag]))[0]["x"]
        if tag == DALIRaggedIterator.SPARSE_LIST_TAG:
            assert [sample.is_cuda and tuple(sample.shape) for sample in made] == [(1, 400), (2, 400)]
            assert [sample.unique().tolist() for sample in made] == [[2], [3]]
        else:
            assert made.is_cuda
            assert made.to_dense().sum().item() == 400 * 2 + 800 * 3


@pytest.mark.gpu
def test_gpu_tensors_from_other_memory() -> None:
    tensor = TensorGPU.from_host(DATA)
    shared = to_torch_tensor(tensor, copy=False)
    assert shared.data_ptr() != tensor.data_ptr()
    assert shared.tolist() == DATA.tolist()
    assert to_torch_tensor(TensorListGPU.from_host(TensorListCPU(DATA)), copy=False).tolist() == DATA.tolist()
