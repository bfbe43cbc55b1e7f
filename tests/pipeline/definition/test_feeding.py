"""The types of data that may be fed, from the CPU and from a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._external_source.device import stream_handle
from pipeline import Pipeline, errors, fn, types
from pipeline.tensors import TensorCPU, TensorListCPU

DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
#: Arguments for a capsule of DLPack 1.0, which NumPy has from 2.1 on.
VERSION: dict[str, Any] = {} if np.lib.NumpyVersion(np.__version__) < "2.1.0" else {"max_version": (1, 0)}


class Array:
    """An object that only has `__array__`."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._data


class Exchanged:
    """An object that only supports DLPack."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._data.__dlpack_device__()


def torch_tensor(data: Any) -> Any:
    import torch

    return torch.from_numpy(data.copy())


KINDS: dict[str, Any] = {
    "array": lambda data: data,
    "list of arrays": list,
    "tuple of arrays": tuple,
    "strided array": lambda data: np.repeat(data, 2, axis=2)[:, :, ::2],
    "torch tensor": torch_tensor,
    "torch tensor that requires a gradient": lambda data: torch_tensor(data).requires_grad_(),
    "list of torch tensors": lambda data: [torch_tensor(sample) for sample in data],
    "__array__": Array,
    "list with __array__": lambda data: [Array(sample) for sample in data],
    "DLPack": Exchanged,
    "list with DLPack": lambda data: [Exchanged(sample) for sample in data],
    "DLPack capsule": lambda data: data.__dlpack__(),
    "list of DLPack capsules": lambda data: [sample.__dlpack__(**VERSION) for sample in data],
    "TensorListCPU": TensorListCPU,
    "ragged TensorListCPU": lambda data: TensorListCPU(list(data)),
    "list of TensorCPU": lambda data: [TensorCPU(sample) for sample in data],
    "TensorCPU": TensorCPU,
    "mixed list": lambda data: [data[0], *map(torch_tensor, data[1:])],
}


def pipe_with_input(**arguments: Any) -> Pipeline:
    device_id = 0 if "device" in arguments else None
    with Pipeline(batch_size=2, num_threads=1, device_id=device_id, prefetch_queue_depth=2) as pipe:
        pipe.set_outputs(fn.external_source(name="x", **arguments) + 1)
    return pipe


@pytest.mark.parametrize("kind", KINDS)
def test_data_of_all_kinds_on_the_cpu(kind: str) -> None:
    pipe = pipe_with_input()
    for data in (DATA, DATA[:1]):
        (out,) = pipe.run(x=KINDS[kind](data))
        np.testing.assert_array_equal(out.as_array(), data + 1)
        assert out.dtype == types.FLOAT
    pipe.close()


def test_layouts_come_from_the_call_the_data_or_the_operator() -> None:
    pipe = pipe_with_input()
    pipe.feed_input("x", DATA, layout="HW")
    pipe.feed_input("x", TensorListCPU(DATA, "AB"))
    pipe.feed_input("x", TensorListCPU(DATA, "AB"), layout="HW")
    pipe.feed_input("x", [TensorCPU(sample, "XY") for sample in DATA])
    pipe.feed_input("x", TensorCPU(DATA, "NFC"))
    pipe.feed_input("x", DATA)
    assert [pipe.run()[0].layout() for _ in range(6)] == ["HW", "AB", "HW", "XY", "FC", ""]
    with pytest.raises(errors.PipelineError, match="the layout 'HWC' names 3 dimensions, but the samples have 2"):
        pipe.feed_input("x", DATA, layout="HWC")
    pipe.close()
    pipe = pipe_with_input(layout="HW")
    assert pipe.run(x=DATA)[0].layout() == "HW"
    pipe.close()


def test_streams_are_named_in_many_ways() -> None:
    import ctypes

    class Torch:
        cuda_stream = 5

    class CuPy:
        ptr = 6

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, 7)

    assert [stream_handle(each) for each in (Torch(), CuPy(), Protocol(), 0, -1)] == [5, 6, 7, 0, -1]
    assert stream_handle(ctypes.c_void_p(8)) == 8
    for wrong in ("stream", True, 1.5):
        with pytest.raises(errors.ArgumentTypeError, match="cuda_stream must be"):
            stream_handle(wrong)


@pytest.mark.gpu
class TestGpu:
    """Data on a GPU, written on a stream that is still busy when the data is fed."""

    @pytest.fixture
    def busy(self) -> Any:
        """Return a stream, and a function that writes data on it late."""
        import cupy

        stream = cupy.cuda.Stream(non_blocking=True)
        wait = cupy.RawKernel(
            'extern "C" __global__ void wait(long long cycles)'
            "{ long long start = clock64(); while (clock64() - start < cycles); }",
            "wait",
        )
        target = cupy.zeros(DATA.shape, np.float32)
        cupy.cuda.Device().synchronize()

        def make(number: int) -> Any:
            with stream:
                wait((1,), (1,), (np.int64(200_000_000),))  # a tenth of a second
                target[...] = cupy.asarray(DATA) * number
            return target

        return stream, make

    @pytest.mark.parametrize("device", ["gpu", "cpu"])
    @pytest.mark.parametrize("use_copy_kernel", [False, True])
    @pytest.mark.parametrize("how", ["object", "handle", "current"])
    def test_data_is_read_after_the_stream_produced_it(
        self, busy: Any, how: str, use_copy_kernel: bool, device: str
    ) -> None:
        stream, make = busy
        pipe = pipe_with_input(device=device)
        for number in range(1, 4):
            data = make(number)
            named = {"object": stream, "handle": stream.ptr, "current": None}[how]
            if how == "current":
                with stream:
                    pipe.feed_input("x", data, use_copy_kernel=use_copy_kernel)
            else:
                pipe.feed_input("x", data, cuda_stream=named, use_copy_kernel=use_copy_kernel)
            with stream:
                data[...] = -1  # later work of the stream follows the copy
        for number in range(1, 4):
            np.testing.assert_array_equal(np.asarray(pipe.run()[0].as_cpu()), DATA * number + 1)
        pipe.close()

    def test_default_stream_and_the_internal_one(self, busy: Any) -> None:
        import cupy

        stream, make = busy
        pipe = pipe_with_input(device="gpu")
        data_on_gpu = cupy.asarray(DATA)
        pipe.feed_input("x", data_on_gpu, cuda_stream=0)
        data_on_gpu[...] = -1  # on the default stream
        data = make(2)
        stream.synchronize()
        pipe.feed_input("x", data, cuda_stream=-1)
        with cupy.cuda.Stream(non_blocking=True) as other:  # no stream waits for it: the copy is done
            data[...] = -1
            other.synchronize()
        for number in (1, 2):
            np.testing.assert_array_equal(np.asarray(pipe.run()[0].as_cpu()), DATA * number + 1)
        pipe.close()

    @pytest.mark.parametrize("no_copy", [False, True])
    def test_data_of_all_kinds(self, no_copy: bool) -> None:
        import cupy

        from pipeline.tensors import TensorListGPU

        pipe = pipe_with_input(device="gpu", no_copy=no_copy)
        array = cupy.asarray(DATA)
        kinds = [
            array,
            list(array),
            [array[0][:, :2], array[1]],
            Exchanged(array),
            TensorListGPU(array),
            list(TensorListGPU(array)),
            DATA,
        ]
        for data in kinds:
            out = pipe.run(x=data)[0].as_cpu()
            for sample, expected in zip(out, DATA, strict=True):
                fed_sample = np.asarray(sample)
                np.testing.assert_array_equal(fed_sample, expected[:, : fed_sample.shape[1]] + 1)
        pipe.close()

    def test_input_returned_as_output_is_not_overwritten_while_it_is_read(self) -> None:
        import cupy
        import torch

        from pipeline.tensors.interop import to_torch_tensor

        pipe = Pipeline(batch_size=len(DATA), num_threads=1, device_id=0)
        pipe.set_outputs(fn.external_source(name="x", device="gpu"))
        reader = torch.cuda.Stream()
        read = []
        for number in range(8):
            pipe.feed_input("x", cupy.full((len(DATA), 1 << 20), number, np.float32))
            (batch,) = pipe.run()
            with torch.cuda.stream(reader):
                tensor = to_torch_tensor(batch, copy=False)
                torch.cuda._sleep(20_000_000)  # the reader is late; the next batch is not
                read.append(tensor[:, ::4096].clone())
                del tensor, batch
        reader.synchronize()
        assert [sorted(set(each.flatten().tolist())) for each in read] == [[float(number)] for number in range(8)]
        pipe.close()

    def test_source_returns_data_on_a_gpu(self) -> None:
        import cupy

        with Pipeline(batch_size=2, num_threads=1, device_id=0) as pipe:
            array = cupy.zeros(DATA.shape, np.int32)

            def source(iteration: int) -> Any:
                array[...] = iteration
                return array

            pipe.set_outputs(fn.external_source(source, device="gpu") + 1)
        for iteration in range(5):
            assert np.unique(np.asarray(pipe.run()[0].as_cpu())).tolist() == [iteration + 1]
        pipe.close()
