"""What CUDA made is never destroyed in a forked child."""

from __future__ import annotations

import gc
import os

from pipeline.kernels.streams import keep_in_children


class Made:
    """Says when it is destroyed, as a stream of CuPy's would by an error."""

    def __init__(self, ends: int) -> None:
        self.ends = ends

    def __del__(self) -> None:
        os.write(self.ends, b"destroyed")


def test_a_child_keeps_what_its_parent_made_and_the_parent_does_not() -> None:
    reader, writer = os.pipe()
    made = [Made(writer), Made(writer)]
    keep_in_children(made[0])
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
