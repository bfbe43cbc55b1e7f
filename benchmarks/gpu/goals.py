"""This project's goals on a GPU, and whether a document of results shows that it reaches them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.throughput import REFERENCE
from benchmarks.gpu.training import EAGER, REPLAY, REPLAYED, quartiles, shares_of_blocks
from benchmarks.targets import Figure

CPU_SHARE = 0.5
"""Upper bound of our CPU time per sample, as a fraction of that of NVIDIA's loader."""

BEST_SHARES = {256: 0.98, 64: 0.985, 32: 0.96}
"""Lower bound of the training's speed with our best mode, relative to the training alone, by batch size."""

SERVER_SHARES = {256: 0.90, 64: 0.90, 32: 0.95}
"""The same with the server in a separate process on the training's GPU, without MPS."""

AUTO_SHARES = {256: 0.99, 64: 0.985, 32: 0.98}
"""The same with ``placement="auto"`` and a CUDA graph."""

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
    return [*_rates(document), *_cores(document), *_shares(document)]


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


def _shares(document: dict[str, Any]) -> Iterator[Goal]:
    shares = document.get("training", {}).get("shares", [])
    why = document.get("training", {}).get("missing") or "not measured"
    for title, bounds, launches, belongs in (
        ("our best mode", BEST_SHARES, EAGER, _is_ours),
        ("server in its process", SERVER_SHARES, EAGER, _is_server),
        ("our best mode, CUDA graph", BEST_SHARES, REPLAY, _is_ours),
        ("server in its process, CUDA graph", SERVER_SHARES, REPLAY, _is_server),
        ('placement="auto", CUDA graph', AUTO_SHARES, REPLAY, _is_auto),
    ):
        for batch_size, bound in bounds.items():
            if launches == REPLAY and batch_size not in REPLAYED:
                continue
            of_size = [one for one in shares if one["batch_size"] == batch_size and one["launches"] == launches]
            found = [one for one in of_size if belongs(one["loader"])]
            name = f"training's share, batch {batch_size}: {title}"
            if not found:
                yield Goal(name, bound, None, note=why)
                continue
            best = max(found, key=lambda one: one["share"])
            rate = f"{statistics.median(best['rates']):,.0f} img/s"
            blocks = shares_of_blocks(best["rates"], best["resident"])
            figure = Figure(statistics.median(blocks), *quartiles(blocks))
            yield Goal(name, bound, figure, note=f"{best['loader']}, {rate}")


def _is_ours(name: str) -> bool:
    return name.startswith("ours")


def _is_server(name: str) -> bool:
    return name in ("ours, process", "ours, process, server", "ours, process, cores")


def _is_auto(name: str) -> bool:
    return name == "ours, process, auto"


def _cpu_per_sample(measured: dict[str, float]) -> float:
    return measured["cpu_seconds"] / measured["samples"]


def _cores_of(entry: dict[str, Any]) -> float:
    return statistics.median(one["cpu_seconds"] / one["seconds"] for one in entry["rounds"])


def _why(document: dict[str, Any], kind: str, name: str) -> str:
    result = document["kinds"].get(kind)
    if result is None:
        return "not measured"
    return str(result["failures"].get(name) or result["failures"].get(REFERENCE) or "not measured")
