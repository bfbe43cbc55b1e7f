"""This project's goals on a GPU, and whether a document of results shows that it reaches them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.throughput import REFERENCE
from benchmarks.gpu.training import EAGER, REPLAY, quartiles, shares_of_blocks
from benchmarks.rivals.ours import PLACEMENTS
from benchmarks.targets import Figure

CPU_SHARE = 0.5
"""Upper bound of our CPU time per sample, as a fraction of that of NVIDIA's loader."""

AUTO_SHARES = {256: 0.99, 64: 0.985, 32: 0.98}
"""Lower bound of the training's speed with ``placement="auto"`` and a CUDA graph, relative to resident batches."""

CORES_SHARE = 0.98
"""The same for ``placement="cores"``, with any batch size."""

BEHIND = 0.02
"""Upper bound of the difference between the share of the best other placement and that of ``"auto"``."""

TAKING, TAKING_SIZE = 0.3, 64
"""Upper bound of the milliseconds of the training's thread for taking a batch, and the batch's size."""

RATES_BY_SIZE = {16: 0.6, 1024: 0.95}
"""Lower bound of the rate with batches of other sizes, relative to batches of 256."""

AUTO, CORES = "ours, process, auto", "ours, process, cores"
OTHERS = ("nvidia-proxy", "torch-best")

KIND_TITLES = {"bytes": "encoded bytes", "paths": "file paths", "decoded": "decoded images", "reader": "own reader"}


@dataclass(frozen=True)
class Goal:
    """One row of the table.

    Attributes:
        title: Description of the comparison.
        bound: Value to reach.
        figure: Measured value; None if it wasn't measured.
        below: Whether the bound is an upper one.
        note: Reason for a missing figure, or a remark.
    """

    title: str
    bound: float
    figure: Figure | None
    below: bool = False
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the median reaches the bound; None if nothing was measured."""
        if self.figure is None:
            return None
        return self.figure.median <= self.bound if self.below else self.figure.median >= self.bound

    def __str__(self) -> str:
        bound = f"{'<=' if self.below else '>='} {self.bound:g}"
        if self.figure is None:
            return f"  {self.title:<60}{bound:>9}{'-':>10}  {self.note}"
        spread = f"{self.figure.low:.2f}..{self.figure.high:.2f}"
        answer = "yes" if self.reached else "NO"
        return f"  {self.title:<60}{bound:>9}{self.figure.median:>10.3f}  {spread:<14}{answer:<5}{self.note}".rstrip()


def goals(document: dict[str, Any]) -> list[Goal]:
    """Find all goals in a document of results."""
    return [*_rates(document), *_cores(document), *_sizes(document), *_shares(document), *_taking(document)]


def summary(document: dict[str, Any]) -> str:
    """Return the rates of all rivals, and a line for each goal."""
    lines = [f"{'images/s (median of the rounds)':<34}{'rate':>10}{'cores':>8}{'GPU GiB':>9}  ours is"]
    for kind, result in document["kinds"].items():
        for name, entry in result["rivals"].items():
            memory = result["gpu_memory_MiB"].get(name)
            shown = f"{memory / 1024:.1f}" if memory is not None else "-"
            ratio = f"{entry['reference_ratio']:.2f} x" if "reference_ratio" in entry else ""
            title = f"{KIND_TITLES.get(kind, kind)}: {name}"
            lines.append(f"  {title:<32}{entry['rate']:>10,.0f}{_cores_of(entry):>8.1f}{shown:>9}  {ratio}".rstrip())
    lines += ["", f"{'goal':<62}{'must be':>9}{'measured':>10}  {'range':<14}reached"]
    lines += [str(goal) for goal in goals(document)]
    return "\n".join(lines)


def as_json(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the goals for the document."""
    return [
        {
            "title": goal.title,
            "bound": goal.bound,
            "below": goal.below,
            "measured": None if goal.figure is None else round(goal.figure.median, 4),
            "range": None if goal.figure is None else [round(goal.figure.low, 4), round(goal.figure.high, 4)],
            "reached": goal.reached,
            "note": goal.note,
        }
        for goal in goals(document)
    ]


def _rates(document: dict[str, Any]) -> Iterator[Goal]:
    for title, bound, kind, name in (
        ("encoded bytes / DALI's proxy", 2.0, "bytes", "nvidia-proxy"),
        ("encoded bytes / the decoder alone", 0.95, "bytes", "decoder"),
        ("file paths / DALI's proxy", 1.15, "paths", "nvidia-proxy"),
        ("decoded images / DALI's proxy", 4.0, "decoded", "nvidia-proxy"),
        ("  or: decoded images / workers' own decoding", 1.0, "decoded", "decode-only"),
        ("own reader / DALI's pipeline", 1.0, "reader", "nvidia-dali"),
        ("encoded bytes / torch at its best", 1.0, "bytes", "torch-best"),
    ):
        figure, note = None, _why(document, kind, name)
        entry = document["kinds"].get(kind, {}).get("rivals", {}).get(name, {})
        if "reference_ratio" in entry:
            figure, note = Figure(entry["reference_ratio"], *entry["reference_ratio_range"]), ""
        yield Goal(title, bound, figure, note=note)


def _cores(document: dict[str, Any]) -> Iterator[Goal]:
    for kind, name in (("bytes", "nvidia-proxy"), ("paths", "nvidia-proxy"), ("reader", "nvidia-dali")):
        rivals = document["kinds"].get(kind, {}).get("rivals", {})
        title = f"CPU time of an image, {KIND_TITLES[kind]} / DALI's"
        if REFERENCE not in rivals or name not in rivals:
            yield Goal(title, CPU_SHARE, None, below=True, note=_why(document, kind, name))
            continue
        pairs = zip(rivals[REFERENCE]["rounds"], rivals[name]["rounds"], strict=True)
        ratios = [_cpu_per_sample(ours) / max(_cpu_per_sample(theirs), 1e-9) for ours, theirs in pairs]
        cores = f"{_cores_of(rivals[REFERENCE]):.1f} cores beside {_cores_of(rivals[name]):.1f}"
        yield Goal(title, CPU_SHARE, Figure.from_rounds(ratios), below=True, note=cores)


def _sizes(document: dict[str, Any]) -> Iterator[Goal]:
    rates = {point["x"]: point["rate"] for point in document.get("sizes", ()) if point["series"] == "batch size"}
    for size, bound in RATES_BY_SIZE.items():
        title = f"images/s with batches of {size} / of 256"
        if size in rates and 256 in rates:
            yield Goal(title, bound, Figure.from_rounds([rates[size] / rates[256]]), note=f"{rates[size]:,.0f} img/s")
        else:
            yield Goal(title, bound, None, note="not measured")


def _shares(document: dict[str, Any]) -> Iterator[Goal]:
    for size, bound in AUTO_SHARES.items():
        yield _share(document, f'batch {size}, CUDA graph: "auto"', bound, _trained(document, AUTO, size, REPLAY))
        yield _share(
            document, f'batch {size}, CUDA graph: "cores"', CORES_SHARE, _trained(document, CORES, size, REPLAY)
        )
        yield _compared(document, size, REPLAY)
        yield _compared(document, size, EAGER)


def _share(document: dict[str, Any], title: str, bound: float, trained: dict[str, Any] | None) -> Goal:
    """Return the goal for the share of one loader."""
    title = f"training's share, {title}"
    if trained is None:
        return Goal(title, bound, None, note=_why_untrained(document))
    blocks = shares_of_blocks(trained["rates"], trained["resident"])
    note = f"{statistics.median(trained['rates']):,.0f} img/s"
    return Goal(title, bound, Figure(statistics.median(blocks), *quartiles(blocks)), note=note)


def _compared(document: dict[str, Any], size: int, launches: str) -> Goal:
    """Return the goal for ``"auto"`` beside our other placements, or, if training is eager, beside the rivals."""
    eager = launches == EAGER
    beside = OTHERS if eager else [f"ours, process, {place}" for place in PLACEMENTS if place != "auto"]
    auto = _trained(document, AUTO, size, launches)
    others = [found for name in beside if (found := _trained(document, name, size, launches))]
    title = f'batch {size}, eager: "auto" / best rival' if eager else f'batch {size}, CUDA graph: best other - "auto"'
    title, bound = f"training's share, {title}", 1.0 if eager else BEHIND
    if auto is None or not others:
        return Goal(title, bound, None, below=not eager, note=_why_untrained(document))
    best = max(others, key=lambda found: float(found["share"]))
    figure = auto["share"] / best["share"] if eager else best["share"] - auto["share"]
    return Goal(title, bound, Figure.from_rounds([figure]), below=not eager, note=best["loader"])


def _taking(document: dict[str, Any]) -> Iterator[Goal]:
    for launches in (EAGER, REPLAY):
        title = f"ms of the training's thread for a batch of {TAKING_SIZE}, {launches}"
        auto = _trained(document, AUTO, TAKING_SIZE, launches) or {}
        figure = Figure.from_rounds([auto["taking"]]) if "taking" in auto else None
        yield Goal(title, TAKING, figure, below=True, note="" if figure else _why_untrained(document))


def _trained(document: dict[str, Any], loader: str, batch_size: int, launches: str) -> dict[str, Any] | None:
    """Return the measurement of training from a loader, or None."""
    wanted = {"loader": loader, "batch_size": batch_size, "launches": launches}
    shares: list[dict[str, Any]] = document.get("training", {}).get("shares", [])
    return next((one for one in shares if wanted.items() <= one.items()), None)


def _why_untrained(document: dict[str, Any]) -> str:
    return str(document.get("training", {}).get("missing") or "not measured")


def _cpu_per_sample(measured: dict[str, float]) -> float:
    return measured["cpu_seconds"] / measured["samples"]


def _cores_of(entry: dict[str, Any]) -> float:
    return statistics.median(one["cpu_seconds"] / one["seconds"] for one in entry["rounds"])


def _why(document: dict[str, Any], kind: str, name: str) -> str:
    result = document["kinds"].get(kind)
    if result is None:
        return "not measured"
    return str(result["failures"].get(name) or result["failures"].get(REFERENCE) or "not measured")
