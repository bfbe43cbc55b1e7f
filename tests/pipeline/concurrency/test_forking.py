"""The state that forked children inherit."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

from dali_proxy.pipeline._concurrency.forking import keep_in_child
from tests.environment import with_project

TWO_FORKS = """
import faulthandler, os, threading
from dali_proxy.pipeline._concurrency.forking import no_forks
import concurrent.futures.thread

def fork():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)

faulthandler.dump_traceback_later(30, exit=True)
forking = threading.Event()
os.register_at_fork(before=forking.set)
with no_forks:
    other = threading.Thread(target=fork)
    other.start()
    forking.wait()
    threading.Event().wait(0.2)  # the other thread acquires locks until it waits for `no_forks`
    fork()
other.join()
"""


class Writer:
    """Prints a message when it is destroyed, as a CUDA stream would with an error."""

    def __init__(self, ends: int) -> None:
        self.ends = ends

    def __del__(self) -> None:
        os.write(self.ends, b"destroyed")


def test_child_keeps_objects_that_its_parent_drops() -> None:
    reader, writer = os.pipe()
    made = [Writer(writer), Writer(writer)]
    keep_in_child(made[0])
    child = os.fork()
    if not child:
        made.pop(0)
        gc.collect()
        os.write(writer, b"end of the child ")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.read(reader, 100) == b"end of the child "
    made.clear()
    gc.collect()
    assert os.read(reader, 100) == b"destroyed" * 2
    os.close(reader)
    os.close(writer)


def test_holder_of_no_forks_may_fork_while_another_thread_does() -> None:
    run = subprocess.run(
        [sys.executable, "-c", TWO_FORKS], env=with_project(), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
