"""Count the Python calls that a batch takes on its way: ``python -m benchmarks.sample_path --help``.

The dataset, the server (as a thread), and the loop all run in this process, without workers, so that one profiler sees
the whole way of a batch of JPEGs: through the proxy, the pipeline on the CPU, and back into tensors. Each call of a
Python function counts, by its file. It is a hop if the project's code that called it is in another file. The loop waits
after each batch until no thread has anything left to do. Of all batches, the one with the fewest calls is shown, so
that other load on the machine has no influence.
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
from typing import Any

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

PAUSE = 0.01
"""Seconds after each measured batch, in which all threads come to rest."""

Jpeg = npt.NDArray[np.uint8]


class Profile:
    """Counts calls of Python functions on all threads that start after it, and on this one.

    Attributes:
        counts: calls by code object; None to count nothing.
        hops: calls of functions of the project from another file of it, by code object.
    """

    def __init__(self) -> None:
        self.counts: Counter[CodeType] | None = None
        self.hops: Counter[CodeType] = Counter()
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (counts := self.counts) is not None:
            code = frame.f_code
            counts[code] += 1
            if code.co_filename.startswith(ROOTS):
                caller = frame.f_back
                while caller is not None and not caller.f_code.co_filename.startswith(ROOTS):
                    caller = caller.f_back
                self.hops[code] += caller is None or caller.f_code.co_filename != code.co_filename


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


def count(batch_size: int, batches: int) -> tuple[Counter[CodeType], int]:
    """Return the calls of all functions, and the hops, for the batch with the fewest calls, in the steady state."""
    profile = Profile()
    found: list[tuple[Counter[CodeType], Counter[CodeType]]] = []
    with dali_proxy.DALIServer(make_pipeline(batch_size), mode="thread") as server:
        loader = dali_proxy.DataLoader(server, Jpegs(jpeg(), server.proxy), batch_size)
        loop = iter(loader)
        for _ in range(WARM_UP):
            next(loop)
        time.sleep(PAUSE)
        for _ in range(batches):
            found.append((Counter(), Counter()))
            profile.counts, profile.hops = found[-1]
            next(loop)
            time.sleep(PAUSE)
            profile.counts = None
        del loop
    sys.setprofile(None)
    threading.setprofile(None)
    calls, hops = min(found, key=lambda each: each[0].total())
    return calls, hops.total()


def place_of(code: CodeType) -> str:
    """Return the file of a function; for a file of the project, from its package on."""
    for root in ROOTS:
        if code.co_filename.startswith(root):
            return str(Path(code.co_filename).relative_to(Path(root).parent))
    return code.co_filename


def main() -> None:
    """Measure and print."""
    options = parser().parse_args()
    counts, hops = count(options.batch_size, options.batches)
    ours = {code: calls for code, calls in counts.items() if code.co_filename.startswith(ROOTS)}
    files = {code.co_filename for code in ours}
    print(f"a batch of {options.batch_size}: {sum(ours.values())} calls of {len(ours)} functions in {len(files)} files")
    print(f"{hops} of these calls come from another file")
    others = sum(counts.values()) - sum(ours.values())
    print(f"and {others} calls of the standard library, torch and others")
    if options.functions:
        for code, calls in sorted(counts.items(), key=lambda item: (place_of(item[0]), item[0].co_firstlineno)):
            print(f"{calls:5}  {place_of(code)}:{code.co_firstlineno} {getattr(code, 'co_qualname', code.co_name)}")


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.sample_path",
        description="Print the number of Python calls, functions, files and hops that a batch of JPEGs takes.",
    )
    made.add_argument("--batch-size", type=int, default=2, help="JPEGs in a batch (default: %(default)s)")
    made.add_argument("--batches", type=int, default=100, help="measured batches (default: %(default)s)")
    made.add_argument("--functions", action="store_true", help="list the functions, with calls per batch")
    return made


if __name__ == "__main__":
    main()
