"""Tests of the allocator settings of the server's process."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.environment import with_project
from tests.preloaded import run_python

PROGRAM = """
import ctypes, resource, sys, threading

if sys.argv[1] == "kept":
    from dali_proxy._host.allocator import keep_freed_memory
    keep_freed_memory()

def work():
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        blocks = [libc.malloc(1 << 20) for _ in range(8)]
        for block in blocks:
            ctypes.memset(block, 1, 1 << 20)
        for block in blocks:
            libc.free(block)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begin)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_of_threads_is_used_again_without_page_faults(tmp_path: Path) -> None:
    run = run_python("-c", PROGRAM, "kept", cwd=tmp_path, env=with_project())
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 10_000  # the blocks have 2,048 pages: each is cleared once, not 50 times
