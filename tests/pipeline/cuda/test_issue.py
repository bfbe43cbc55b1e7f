"""Launches in one call of the driver, which a library that records the calls replaces here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cuda import context
from dali_proxy.pipeline._cuda.launch import pack_scalars
from tests.pipeline.kernels import emulator

# Launches print their grid and arguments; a function with the handle 13 can't be launched.
DRIVER = r"""
#include <stdint.h>
#include <stdio.h>
#include <string.h>
extern "C" {
int cuStreamGetCtx(void*, void** context) { *context = (void*)7; return 0; }
int cuCtxPushCurrent_v2(void* context) { printf("push %ld\n", (long)context); return 0; }
int cuCtxPopCurrent_v2(void**) { puts("pop"); fflush(stdout); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t device, const void* host, size_t bytes, void*) {
    memcpy((void*)device, host, bytes);
    return 0;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned, unsigned, unsigned,
                   void* stream, void**, void** extra) {
    if ((long)function == 13) return 700;
    unsigned char* arguments = (unsigned char*)extra[1];
    printf("launch %ld %u %u %u %u %ld", (long)function, gx, gy, gz, bx, (long)stream);
    for (unsigned i = 0; i < gy; i++) printf(" %s", *(char**)(arguments + 8 * i));  // gy counts the tables here
    for (size_t i = 8 * gy; i < *(size_t*)extra[3]; i++) printf(" %d", arguments[i]);
    puts("");
    return 0;
}
int cuEventRecord(void* event, void*) { printf("record %ld\n", (long)event); return 0; }
int cuGetErrorString(int, const char** text) { *text = "an illegal address"; return 0; }
}
"""

PROGRAM = """
import json, sys
import numpy as np
from dali_proxy.pipeline._cuda import context
from dali_proxy.pipeline._cuda.launch import pack_scalars
device, host = (np.zeros(1024, np.uint8) for _ in range(2))
tables = [np.frombuffer(text, np.uint8) for text in (b"one\\0", b"two\\0", b"three\\0")]
scalars = pack_scalars((np.uint8(1), np.uint16(2)))
launches = [(5, 4, 2, tuple(tables[:2]), b""), (int(sys.argv[1]), 3, 1, (tables[2],), scalars)]
failure = context.native.issue(9, 8, device.ctypes.data, host.ctypes.data, int(sys.argv[2]), launches)
print(json.dumps(failure))
"""

# The second table becomes the text "tqo" by rows, and its address at 264 that of the memory with the index 1.
REPEAT = """
import json, sys
import numpy as np
from dali_proxy.pipeline._cuda import context
device, host, memory = (np.zeros(1024, np.uint8) for _ in range(3))
tables = np.zeros(512, np.uint8)
tables[:4], tables[256:260] = np.frombuffer(b"one\\0two\\0", np.uint8).reshape(2, 4)
tables[264] = 5
rows = [(257, 1, 1, np.frombuffer(b"qo", np.uint8))]
places = np.array([[int(sys.argv[3]), 1]])
launches = [(5, 4, 1, (0,), b""), (int(sys.argv[1]), 3, 1, (256,), b"")]
failure = context.native.repeat(
    9, 8, device.ctypes.data, host.ctypes.data, int(sys.argv[2]),
    tables, rows, places, (1, memory.ctypes.data, *[0] * 100), launches,
)
assert failure or device.view(np.int64)[33] == memory.ctypes.data + 5
print(json.dumps(failure))
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if emulator.COMPILER is None or context.native is None:
        pytest.skip("needs a C++ compiler and the compiled module")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.cpp").write_text(DRIVER)
    command = [emulator.COMPILER, "-shared", "-fPIC", str(folder / "driver.cpp"), "-o", str(folder / "libcuda.so.1")]
    subprocess.run(command, check=True)
    return folder


def issue(
    driver: Path, function: int, size: int = 1024, place: int = 264, *, program: str = PROGRAM
) -> tuple[list[str], Any]:
    """Return the calls of the driver, and the result."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver)}
    command = [sys.executable, "-c", program, str(function), str(size), str(place)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return [], done.stderr.splitlines()[-1]
    *calls, result = done.stdout.splitlines()
    return calls, json.loads(result)


def test_launches_get_their_tables_and_scalars(driver: Path) -> None:
    calls, failure = issue(driver, 6)
    assert failure is None
    assert calls == [
        *("push 7", "launch 5 4 2 1 256 9 one two", "launch 6 3 1 1 256 9 three 1 0 2 0"),
        *("record 8", "pop"),
    ]


def test_failed_launch_is_named_and_the_event_is_recorded(driver: Path) -> None:
    calls, failure = issue(driver, 13)
    assert failure == [1, "an illegal address"]
    assert calls[-2:] == ["record 8", "pop"]


def test_small_staging_buffer_is_an_error(driver: Path) -> None:
    assert issue(driver, 6, size=514) == ([], "ValueError: the staging buffer is too small")


def test_repeated_launches_get_other_rows_and_addresses(driver: Path) -> None:
    calls, failure = issue(driver, 6, program=REPEAT)
    assert failure is None
    assert calls == ["push 7", "launch 5 4 1 1 256 9 one", "launch 6 3 1 1 256 9 tqo", "record 8", "pop"]


def test_failed_repeated_launch_is_named(driver: Path) -> None:
    assert issue(driver, 13, program=REPEAT)[1] == [1, "an illegal address"]


def test_repeated_launches_write_nothing_outside_of_the_staging_buffer(driver: Path) -> None:
    assert issue(driver, 6, size=511, program=REPEAT) == ([], "ValueError: the staging buffer is too small")
    assert issue(driver, 6, place=505, program=REPEAT) == ([], "ValueError: an address outside of the tables")


def test_scalars_are_aligned() -> None:
    packed = pack_scalars((np.uint8(1), np.int32(2), np.uint8(3), np.float64(0)))
    assert packed == bytes([1, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(15)


@pytest.mark.gpu
def test_kernels_on_the_gpu_are_issued_at_once() -> None:
    from dali_proxy.pipeline._cuda.compiler import get_kernel

    assert context.native is not None
    assert get_kernel("join.cu", "join", (("VALUE", "uint8"),), 0).handle
