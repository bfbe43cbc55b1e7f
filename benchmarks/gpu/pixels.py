"""Check the pixels of the timed pipelines against the same graph, seeds and samples on the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from benchmarks.child import Caller, RivalError
from benchmarks.gpu.session import Session
from benchmarks.rivals.ours import Ours
from benchmarks.workload import IMAGE_KINDS, MEAN, READER_KIND, STD, Setup

BATCH = 32
BATCHES = 2
MEAN_BOUND = 2.0
"""Allowed mean difference, in 255ths of white: chroma smoothing changes it by 1, a window off by one pixel by 8."""
MAX_BOUND = 64.0
"""Allowed difference of a single value: without chroma smoothing, edges differ by up to 25."""

Variant = tuple[Ours, dict[str, str]]
"""The rivals to check, and the fields of `Setup` to change."""

HALF = {"kind": READER_KIND, "dtype": "float16", "layout": "HWC"}
VARIANTS: tuple[Variant, ...] = (
    *((Ours(), {"kind": kind}) for kind in (*IMAGE_KINDS, READER_KIND)),
    (Ours(), HALF),
    (Ours("decoded on cores", placement="cores"), {"kind": "paths"}),
    (Ours("placed with the consumer", placement="consumer"), {"kind": "paths"}),
)
TINY: tuple[Variant, ...] = ((Ours(), HALF),)
"""For a quick test of the program, even without a GPU."""


@dataclass(frozen=True)
class PixelCheck:
    """Difference between the pixels of one kind of input and the CPU's.

    Attributes:
        name: The kind, and any unusual options.
        mean: Mean difference, in 255ths of white.
        maximum: Largest difference.
    """

    name: str
    mean: float
    maximum: float

    @property
    def good(self) -> bool:
        """Whether both differences are within their bounds."""
        return self.mean <= MEAN_BOUND and self.maximum <= MAX_BOUND

    def __str__(self) -> str:
        answer = "good" if self.good else "WRONG"
        return f"  {self.name:<32}mean {self.mean:7.4f}, largest {self.maximum:6.2f} of 255   {answer}"


def check_pixels(session: Session, variants: Sequence[Variant] = VARIANTS) -> list[PixelCheck]:
    """Compare all variants, each in separate processes.

    Args:
        session: Session whose failures receive the variants that couldn't be compared.
        variants: Variants to compare.

    Returns:
        A check for each variant that could be compared.
    """
    size = min(BATCH, session.setup.batch_size)
    checks = []
    with ExitStack() as stack:  # all run concurrently
        asked: list[tuple[str, Caller, Caller]] = []
        for rival, changes in variants:
            setup = replace(session.setup, batch_size=size, workers=2, threads=2, **changes)
            name = " ".join([*changes.values(), *([] if rival.name == Ours().name else [rival.name])])
            reference = stack.enter_context(Caller(name, first_pixels, Ours(), replace(setup, device_id=None)))
            ours = stack.enter_context(Caller(name, first_pixels, rival, setup))
            for side in (reference, ours):
                side.begin()
            asked.append((name, reference, ours))
        for name, *both in asked:
            session.say(f"pixels: {name}")
            with session.guarded(f"pixels of {name}"):
                checks.append(_compare(name, *(side.end() for side in both)))
        for _, *both in asked:
            for side in both:
                side.let_go()
    return checks


def first_pixels(rival: Any, setup: Setup) -> np.ndarray:
    """Return the first batches of a rival as uint8-like values, float32 ``[N, 224, 224, 3]``."""
    taken = []
    with closing(rival.stream(setup)) as stream:
        for images, _ in itertools.islice(stream, BATCHES):
            taken.append(images.detach().cpu().float().numpy().copy())
    pixels = np.concatenate(taken)
    if setup.layout == "CHW":
        pixels = pixels.transpose(0, 2, 3, 1)
    return pixels * np.array(STD, np.float32) + np.array(MEAN, np.float32)


def as_json(checks: list[PixelCheck]) -> dict[str, Any]:
    """Return the checks and their bounds for the document."""
    found = [{**asdict(check), "good": check.good} for check in checks]
    return {"mean_bound": MEAN_BOUND, "max_bound": MAX_BOUND, "batch": BATCH * BATCHES, "checks": found}


def _compare(name: str, reference: np.ndarray, ours: np.ndarray) -> PixelCheck:
    if reference.shape != ours.shape:
        raise RivalError(f"shape {ours.shape}, not {reference.shape}")
    difference = np.abs(reference - ours)
    if not np.isfinite(difference).all():
        raise RivalError("pixels that are not finite")
    return PixelCheck(name, round(float(difference.mean()), 5), round(float(difference.max()), 3))
