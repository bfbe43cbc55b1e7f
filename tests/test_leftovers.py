"""The check for leftovers finds each kind of leftover, and nothing else."""

from __future__ import annotations

import gc
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from tests import leftovers
from tests.leftovers import Snapshot, end_processes, forget_what_stays, wait_until_nothing_is_left

SLEEPER = "import time; time.sleep(50)"
PARENT_OF_AN_ORPHAN = f"""
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", {SLEEPER!r}], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)
"""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.05)


@pytest.mark.usefixtures("impatient")
def test_child_is_found_and_ended() -> None:
    before = Snapshot.take()
    child = subprocess.Popen([sys.executable, "-c", SLEEPER])
    try:
        (left,) = wait_until_nothing_is_left(before)
        assert left.startswith(f"process {child.pid} (state ")
        assert SLEEPER in left
        end_processes(before)
        assert wait_until_nothing_is_left(before) == []
    finally:
        child.kill()
        child.wait()


@pytest.mark.usefixtures("impatient")
def test_zombie_is_found() -> None:
    before = Snapshot.take()
    child = subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()  # returns when the child ends
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    (left,) = wait_until_nothing_is_left(before)
    assert left.startswith(f"process {child.pid} (state Z)")
    child.wait()
    child.stdout.close()
    assert wait_until_nothing_is_left(before) == []


@pytest.mark.usefixtures("impatient")
def test_orphan_is_found_and_ended() -> None:
    before = Snapshot.take()
    parent = subprocess.run([sys.executable, "-c", PARENT_OF_AN_ORPHAN], capture_output=True, check=True)
    (left,) = wait_until_nothing_is_left(before)
    assert left.startswith(f"process {int(parent.stdout)} ")
    end_processes(before)
    assert wait_until_nothing_is_left(before) == []


@pytest.mark.usefixtures("impatient")
def test_forked_orphan_is_found_and_ended() -> None:
    before = Snapshot.take()
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        orphan = os.fork()
        if orphan == 0:
            threading.Event().wait(50)
        else:
            os.write(writer, str(orphan).encode())
        os._exit(0)
    os.waitpid(parent, 0)
    orphan = int(os.read(reader, 16))
    (left,) = wait_until_nothing_is_left(before)
    assert left.startswith(f"process {orphan} ")
    end_processes(before)
    assert wait_until_nothing_is_left(before) == []
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_helpers_of_multiprocessing_are_not_leftovers(method: str) -> None:
    process = multiprocessing.get_context(method).Process(target=int)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    process.close()


@pytest.mark.usefixtures("impatient")
def test_descriptors_are_found() -> None:
    before = Snapshot.take()
    left, right = socket.socketpair()
    memory = os.memfd_create("frames")
    words = wait_until_nothing_is_left(before)
    assert len(words) == 3
    assert f"descriptor {memory}: /memfd:frames (deleted)" in words
    left.close()
    right.close()
    os.close(memory)
    assert wait_until_nothing_is_left(before) == []


def test_garbage_is_collected_first() -> None:
    before = Snapshot.take()
    circle: list[object] = list(socket.socketpair())
    circle.append(circle)
    gc.collect()  # so that no automatic collection happens before the test waits for the warning
    del circle
    with pytest.warns(ResourceWarning):
        assert wait_until_nothing_is_left(before) == []


def test_garbage_that_seemed_to_stay_is_collected_too() -> None:
    before = Snapshot.take()
    circle: list[object] = list(socket.socketpair())
    circle.append(circle)
    forget_what_stays()
    del circle
    gc.collect()
    assert len(before.leftovers(Snapshot.take())) == 2, "the collector doesn't look at it any more"
    with pytest.warns(ResourceWarning):
        assert wait_until_nothing_is_left(before) == []


@pytest.mark.usefixtures("impatient")
def test_thread_is_found() -> None:
    before = Snapshot.take()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, args=(50,), name="idler")
    thread.start()
    assert wait_until_nothing_is_left(before) == ["thread idler"]
    stop.set()
    thread.join()
    assert wait_until_nothing_is_left(before) == []


@pytest.mark.usefixtures("impatient")
def test_shared_memory_and_folder_are_found() -> None:
    before = Snapshot.take()
    memory = SharedMemory(create=True, size=64)
    folder = Path(tempfile.mkdtemp(prefix="dali-proxy-"))
    assert wait_until_nothing_is_left(before) == [f"shared memory /dev/shm/{memory.name}", f"folder {folder}"]
    memory.close()
    memory.unlink()
    folder.rmdir()
    assert wait_until_nothing_is_left(before) == []


def test_shared_memory_of_others_is_ignored() -> None:
    memory = SharedMemory(create=True, size=64)
    try:
        assert not leftovers._mapped_by_others(f"/dev/shm/{memory.name}", {})
        program = (
            "import sys; from multiprocessing.shared_memory import SharedMemory; "
            f"memory = SharedMemory({memory.name!r}); print(flush=True); sys.stdin.read(); memory.close()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as other:
            assert other.stdout is not None
            other.stdout.readline()
            assert leftovers._mapped_by_others(f"/dev/shm/{memory.name}", {})
            other.communicate()
    finally:
        memory.close()
        try:
            memory.unlink()
        except FileNotFoundError:  # before Python 3.13, the other process's tracker may have removed it first
            pass
