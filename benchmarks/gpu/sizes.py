"""Our rates and memory for batches of 16 to 1024 images, images of 256 pixels to 4K, float16 and channels last."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from benchmarks.child import Caller, RivalError
from benchmarks.gpu.session import Session
from benchmarks.gpu_memory import memory_in_use
from benchmarks.measurement import WARM_UP, measure
from benchmarks.rivals.ours import Ours
from benchmarks.workload import READER_KIND, Setup, prepare_images

START = 30.0
"""Seconds that a stream may take to open."""

PREFETCHED = 2
"""Number of batches that torch's loader requests from each worker."""

FILLS = 3
"""How often all batches in flight pass before the clock starts: the memory of the first ones isn't pinned yet."""

LARGE_FILES = 64
"""Number of images to create of each larger size."""


@dataclass(frozen=True)
class Variant:
    """One deviation from the usual setup.

    Attributes:
        title: Label.
        series: Curve that it belongs to: "batch size", "image width", or "" for none.
        x: X coordinate on that curve.
        changes: Fields of `Setup`.
        width: Width of the images, if it isn't the usual one.
    """

    title: str
    series: str = ""
    x: int = 0
    changes: dict[str, Any] = field(default_factory=dict)
    width: int = 0


def _batch(size: int) -> Variant:
    return Variant(f"batches of {size}", "batch size", size, {"kind": "bytes", "batch_size": size})


def _wide(width: int, batch_size: int) -> Variant:
    title = f"{width} x {width * 3 // 4} pixels, batches of {batch_size}"
    return Variant(title, "image width", width, {"kind": READER_KIND, "batch_size": batch_size}, width)


VARIANTS = (
    *(_batch(size) for size in (16, 64, 256, 1024)),
    *(_wide(width, size) for width, size in ((256, 256), (1024, 128), (1920, 64), (3840, 32))),
    Variant("float16, NCHW", changes={"kind": READER_KIND, "dtype": "float16"}),
    Variant("float16, NHWC", changes={"kind": READER_KIND, "dtype": "float16", "layout": "HWC"}),
    Variant("float32, NHWC", changes={"kind": READER_KIND, "layout": "HWC"}),
)
TINY = (_batch(4), _wide(256, 4))
"""For a quick test of the program."""


@dataclass(frozen=True)
class Point:
    """The measurement of one variant.

    Attributes:
        title: Title of the variant.
        series: Series of the variant.
        x: X coordinate of the variant.
        rate: Samples per second.
        cpu_cores: Cores that all processes used.
        gpu_memory: Growth of the GPU memory in use since before the stream was opened, in MiB; None without nvidia-smi.
    """

    title: str
    series: str
    x: int
    rate: float
    cpu_cores: float
    gpu_memory: float | None

    def __str__(self) -> str:
        memory = "" if self.gpu_memory is None else f"  {self.gpu_memory / 1024:5.1f} GiB of GPU memory"
        return f"  {self.title:<40}{self.rate:>10,.0f} img/s  {self.cpu_cores:5.1f} cores{memory}"


def measure_sizes(session: Session, variants: Sequence[Variant] = VARIANTS) -> list[Point]:
    """Measure variants in one process, and replace the process if it hangs.

    Returns:
        The points of all variants that there was time for.
    """
    points: list[Point] = []
    helper: Caller | None = None
    # Other users of the GPU, this session's own processes among them, held their memory before.
    before = None if session.setup.device_id is None else memory_in_use(session.setup.device_id)
    try:
        for variant in variants:
            what = f"sizes, {variant.title}"
            if not session.budget.allows(what):
                continue
            session.say(what)
            with session.guarded(what):
                setup = _setup(session, variant)
                helper = helper or Caller("sizes", rate_of, Ours(), grace=START)
                try:
                    helper.begin(setup, session.seconds)
                    rate, cores, memory = helper.end(session.seconds)
                except RivalError as error:
                    if not error.reported:  # it hangs, or has ended
                        helper.close()
                        helper = None
                    raise
                used = None if before is None or memory is None else memory - before
                point = Point(variant.title, variant.series, variant.x, rate, cores, used)
                print(point, flush=True)
                points.append(point)
    finally:
        if helper is not None:
            helper.close()
    return points


def rate_of(rival: Any, setup: Setup, seconds: float) -> tuple[float, float, float | None]:
    """Measure one stream: samples per second, cores, and MiB in use on the GPU."""
    in_flight = 0 if setup.kind == READER_KIND else PREFETCHED * setup.workers
    with closing(rival.stream(setup)) as stream:
        found = measure(stream, seconds, warm_up=max(WARM_UP, FILLS * in_flight))
        memory = None if setup.device_id is None else memory_in_use(setup.device_id)
    _free_gpu()
    return found.rate, found.cpu_seconds / found.seconds, memory


def as_json(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the points for the document."""
    return [asdict(point) for point in points]


def _free_gpu() -> None:
    """Release what this process's memory pools keep, so that the next measurement doesn't count it."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


def _setup(session: Session, variant: Variant) -> Setup:
    changes = dict(variant.changes)
    if variant.width:
        files = min(LARGE_FILES, len(session.setup.files))
        changes["folder"] = prepare_images(files, (variant.width, variant.width))
    return session.of_kind(**changes)
