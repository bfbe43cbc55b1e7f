"""The state that forked children inherit."""

from __future__ import annotations

import gc
import os

from pipeline._concurrency.forking import keep_in_child


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
