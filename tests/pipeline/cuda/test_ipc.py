"""Device memory shared by two processes."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from dali_proxy.pipeline._cuda.ipc import BufferHandle, ExportedBuffer, ImportedBuffer
from tests.environment import with_project
from tests.waiting import wait_until

ROUNDS, ELEMENTS = 20, 1 << 20

# The reader: it opens the handle, and in each round issues a check of the data, and says when it has issued it.
_READER = """
import pickle, sys
import cupy
from dali_proxy.pipeline._cuda.ipc import ImportedBuffer

handle, elements = pickle.load(sys.stdin.buffer)
stream = cupy.cuda.Stream(non_blocking=True)
with ImportedBuffer(handle) as buffer, stream:
    memory = cupy.cuda.UnownedMemory(buffer.pointer, buffer.nbytes, buffer, 0)
    values = cupy.ndarray((elements,), cupy.int32, cupy.cuda.MemoryPointer(memory, 0))
    print("open", flush=True)
    for line in sys.stdin:
        for _ in range(20):  # long enough that a writer that doesn't wait would notice
            low, high = values.min(), values.max()
        buffer.record_free(stream.ptr)
        print("issued", flush=True)
        print(int(low), int(high), flush=True)
    stream.synchronize()
print("closed", flush=True)
"""


def test_handles_are_plain_values() -> None:
    handle = BufferHandle("0000:1b:00.0", 16, b"m" * 64, b"f" * 64)
    assert pickle.loads(pickle.dumps(handle)) == handle
    assert BufferHandle.unpack(handle.pack(), 16) == handle
    with pytest.raises(ValueError, match="128 bytes"):
        BufferHandle.unpack(bytes(128), 16)


def test_cupy_has_the_calls() -> None:
    runtime = pytest.importorskip("cupy").cuda.runtime
    names = ["ipcGetMemHandle", "ipcOpenMemHandle", "ipcCloseMemHandle", "ipcGetEventHandle", "ipcOpenEventHandle"]
    names += ["eventCreateWithFlags", "eventRecord", "eventDestroy", "eventQuery", "eventInterprocess"]
    names += ["deviceGetPCIBusId", "deviceGetByPCIBusId"]
    assert [name for name in names if not hasattr(runtime, name)] == []


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
@pytest.mark.timeout(90)
def test_processes_take_turns() -> None:
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with (
        ExportedBuffer(0, 4 * ELEMENTS) as buffer,
        subprocess.Popen(
            [sys.executable, "-c", _READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=with_project()
        ) as reader,
    ):
        assert reader.stdin is not None
        assert reader.stdout is not None
        try:
            pickle.dump((buffer.handle, ELEMENTS), reader.stdin)
            reader.stdin.flush()
            assert reader.stdout.readline() == b"open\n"
            memory = cupy.cuda.UnownedMemory(buffer.pointer, buffer.nbytes, buffer, 0)
            values = cupy.ndarray((ELEMENTS,), cupy.int32, cupy.cuda.MemoryPointer(memory, 0))
            for number in range(ROUNDS):
                with stream:
                    values.fill(number)
                stream.synchronize()
                reader.stdin.write(b"go\n")
                reader.stdin.flush()
                assert reader.stdout.readline() == b"issued\n"
                wait_until(lambda: not buffer.is_used())
                with stream:
                    values.fill(-1)  # only after the reader's work
                stream.synchronize()
                assert reader.stdout.readline() == f"{number} {number}\n".encode()
            reader.stdin.close()
            assert reader.stdout.readline() == b"closed\n"
        finally:
            reader.kill()


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
def test_invalid_handle_is_an_error() -> None:
    import cupy

    from dali_proxy.pipeline._cuda.errors import CudaError

    with pytest.raises(CudaError, match="cudaIpcOpenMemHandle"):
        ImportedBuffer(BufferHandle(cupy.cuda.runtime.deviceGetPCIBusId(0), 16, bytes(64), bytes(64)))


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
def test_device_that_this_process_does_not_see_is_an_error() -> None:
    from dali_proxy.pipeline._cuda.errors import CudaError

    with pytest.raises(CudaError, match=r"GPU 0000:ff:1f\.0 \(see CUDA_VISIBLE_DEVICES\)"):
        ImportedBuffer(BufferHandle("0000:ff:1f.0", 16, bytes(64), bytes(64)))


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
def test_close_may_be_called_twice() -> None:
    buffer = ExportedBuffer(0, 1 << 16)
    buffer.close()
    buffer.close()
    assert buffer.pointer == 0
