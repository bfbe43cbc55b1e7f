"""Count the Python calls that a batch takes on its way: ``python -m benchmarks.sample_path --help``.

The dataset, the server (as a thread), and the loop all run in this process, without workers, so that one profiler sees
the whole way of a batch of JPEGs: through the proxy, the pipeline on the CPU, and back into tensors. Each call of a
Python function counts, by its file. It is a hop if the project's code that called it is in another file. The loop waits
after each batch until no thread has anything left to do. Of all batches, the one with the fewest calls is shown, so
that other load on the machine has no influence. The steps of the way are in docs/architecture.md.
"""

from __future__ import annotations

import argparse
import io
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch.utils.data import Dataset

import dali_proxy
import pipeline
from dali_proxy._demo.data import photograph_paths
from pipeline import fn, types

ROOTS = tuple(str(Path(package.__file__ or "").parent) for package in (dali_proxy, pipeline))
"""The folders of the packages whose files count as the project's."""

WARM_UP = 120
"""Batches before the measurement, in which the number in flight adapts and caches fill."""

MOST_CALLERS = 100
"""Depth of the tree of calls."""

PAUSE = 0.01
"""Seconds after each measured batch, in which all threads come to rest."""

Jpeg = npt.NDArray[np.uint8]


class Call(NamedTuple):
    """A call of a Python function.

    Attributes:
        code: the function.
        thread: ID of the thread.
        callers: the files of the project's functions that it was called from, the nearest one first; only that one,
            unless all are recorded.
    """

    code: CodeType
    thread: int
    callers: list[str]

    @property
    def is_ours(self) -> bool:
        """Whether the function is the project's."""
        return self.code.co_filename.startswith(ROOTS)

    @property
    def is_hop(self) -> bool:
        """Whether the project's code that called the project's function is in another file."""
        return self.is_ours and self.callers[:1] != [self.code.co_filename]


class Profile:
    """Records calls of Python functions on all threads that start after it, and on this one.

    Args:
        most_callers: number of callers to record for each call. The search takes time, in which threads may get ahead.

    Attributes:
        calls: the calls, in order; None to record nothing.
    """

    def __init__(self, most_callers: int = 1) -> None:
        self.calls: list[Call] | None = None
        self._most_callers = most_callers
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (calls := self.calls) is not None:
            callers: list[str] = []
            caller = frame.f_back if frame.f_code.co_filename.startswith(ROOTS) else None
            while caller is not None and len(callers) < self._most_callers:
                if caller.f_code.co_filename.startswith(ROOTS):
                    callers.append(caller.f_code.co_filename)
                caller = caller.f_back
            calls.append(Call(frame.f_code, threading.get_ident(), callers))


class Jpegs(Dataset[Any]):
    """Passes the same JPEG to the server each time."""

    def __init__(self, jpeg: Jpeg, proxy: Callable[[Jpeg], Any]) -> None:
        self.jpeg, self.proxy = jpeg, proxy

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> Any:
        return self.proxy(self.jpeg)


def jpeg() -> Jpeg:
    """Return a small photograph as a JPEG."""
    file = io.BytesIO()
    (path,) = photograph_paths(1).values()
    Image.open(path).convert("RGB").resize((128, 96)).save(file, "jpeg")
    return np.frombuffer(file.getvalue(), np.uint8)


def make_pipeline(batch_size: int) -> pipeline.Pipeline:
    """Return a pipeline of three operators on the CPU, as for training."""
    pipe = pipeline.Pipeline(batch_size=batch_size, num_threads=2, device_id=None, seed=1)
    with pipe:
        images = fn.decoders.image_random_crop(fn.external_source(name="images"))
        images = fn.resize(images, size=(64, 64))
        mirror = fn.random.coin_flip()
        pipe.set_outputs(
            fn.crop_mirror_normalize(images, mirror=mirror, mean=[124, 116, 104], std=[58, 57, 57], dtype=types.FLOAT)
        )
    return pipe


def calls_of_a_batch(batch_size: int, batches: int, most_callers: int = 1) -> list[Call]:
    """Return the calls for the batch with the fewest calls, in the steady state."""
    profile = Profile(most_callers)
    found: list[list[Call]] = []
    with dali_proxy.DALIServer(make_pipeline(batch_size), mode="thread") as server:
        loader = dali_proxy.DataLoader(server, Jpegs(jpeg(), server.proxy), batch_size)
        loop = iter(loader)
        for _ in range(WARM_UP):
            next(loop)
        time.sleep(PAUSE)
        for _ in range(batches):
            profile.calls = []
            next(loop)
            time.sleep(PAUSE)
            found.append(profile.calls)
            profile.calls = None
        del loop
    sys.setprofile(None)
    threading.setprofile(None)
    return min(found, key=len)


def place_of(code: CodeType) -> str:
    """Return the file of a function; for a file of the project, from its package on."""
    for root in ROOTS:
        if code.co_filename.startswith(root):
            return str(Path(code.co_filename).relative_to(Path(root).parent))
    return code.co_filename


def described(code: CodeType) -> str:
    """Return the place of a function and its name."""
    return f"{place_of(code)}:{code.co_firstlineno} {getattr(code, 'co_qualname', code.co_name)}"


def main() -> None:
    """Measure and print."""
    options = parser().parse_args()
    calls = calls_of_a_batch(options.batch_size, options.batches, MOST_CALLERS if options.tree else 1)
    ours = [call for call in calls if call.is_ours]
    functions, files = {call.code for call in ours}, {call.code.co_filename for call in ours}
    print(f"a batch of {options.batch_size}: {len(ours)} calls of {len(functions)} functions in {len(files)} files")
    print(f"{sum(call.is_hop for call in ours)} of these calls come from another file")
    print(f"and {len(calls) - len(ours)} calls of the standard library, torch and others")
    if options.functions:
        counts = Counter(call.code for call in calls)
        for code, count in sorted(counts.items(), key=lambda item: (place_of(item[0]), item[0].co_firstlineno)):
            print(f"{count:5}  {described(code)}")
    if options.tree:
        for thread in dict.fromkeys(call.thread for call in ours):
            print("\na thread")
            for call in ours:
                if call.thread == thread:
                    print(f"{'  ' * len(call.callers)}  {described(call.code)}")


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.sample_path",
        description="Print the number of Python calls, functions, files and hops that a batch of JPEGs takes.",
    )
    made.add_argument("--batch-size", type=int, default=2, help="JPEGs in a batch (default: %(default)s)")
    made.add_argument("--batches", type=int, default=100, help="measured batches (default: %(default)s)")
    made.add_argument("--functions", action="store_true", help="list the functions, with calls per batch")
    made.add_argument("--tree", action="store_true", help="list the calls of the project in order, by thread and depth")
    return made


if __name__ == "__main__":
    main()
