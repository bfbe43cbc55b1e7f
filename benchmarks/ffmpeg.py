"""Help for the FFmpeg of PyAV's wheel: other packages find it, and its AV1 encoder changes no priority."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ffmpeg_found(folder: str) -> Iterator[None]:
    """Let processes that start now find FFmpeg's libraries, by their usual names, in PyAV's wheel.

    Args:
        folder: Folder for links to them, which must exist as long as the processes.
    """
    spec = importlib.util.find_spec("av")
    before = os.environ.get("LD_LIBRARY_PATH")
    if spec is not None and spec.origin is not None:
        libraries = Path(spec.origin).parent.parent / "av.libs"
        for path in libraries.glob("lib*.so.*"):
            named = re.fullmatch(r"(lib(?:av|sw)\w+)-\w+(\.so\.\d+)[.\d]*", path.name)
            if named:
                (Path(folder) / (named[1] + named[2])).symlink_to(path)
        found = [folder, str(libraries), *([before] if before else [])]
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(found)
    try:
        yield
    finally:
        if before is not None:
            os.environ["LD_LIBRARY_PATH"] = before
        else:
            os.environ.pop("LD_LIBRARY_PATH", None)


@contextmanager
def usual_scheduling() -> Iterator[None]:
    """Give this thread its scheduling policy back after the block, which encodes videos.

    SVT-AV1 gives the thread that opens an encoder the highest real-time priority, if it may, as for root. Processes
    that it forks later would inherit that, and a few that compute would let nothing else run on their cores.
    """
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)
