"""This project's targets on the CPU, and whether a document of results shows that it reaches them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

REFERENCE = "dali-proxy"
"""The rival with these targets: only ratios that compare it with others count."""


@dataclass(frozen=True)
class Figure:
    """The median of several measurements, and their range."""

    median: float
    low: float
    high: float

    @classmethod
    def from_rounds(cls, rounds: Sequence[float]) -> Figure:
        """Return the median of rounds, and the smallest and largest of them."""
        return cls(statistics.median(rounds), min(rounds), max(rounds))


@dataclass(frozen=True)
class Target:
    """One target.

    Attributes:
        title: Description of the comparison.
        bound: Value that the median must reach, or stay below.
        kind: The kind of input, or ``"costs"``.
        name: The rival to compare with, or the name of the cost.
        unit: The figure's unit; "x" for times as fast.
        below: Whether the bound is an upper one.
    """

    title: str
    bound: float
    kind: str
    name: str
    unit: str = "x"
    below: bool = False

    def reached(self, figure: Figure) -> bool:
        """Return whether a figure reaches the bound."""
        return figure.median < self.bound if self.below else figure.median >= self.bound


TARGETS = (
    Target("own reader / DALI's pipeline", 1.3, "reader", "nvidia-dali"),
    Target("file paths / DALI's proxy", 1.3, "paths", "nvidia-proxy"),
    Target("encoded bytes / DALI's proxy", 1.3, "bytes", "nvidia-proxy"),
    Target("encoded bytes / torch with pillow", 1.8, "bytes", "torch-pillow"),
    Target("encoded bytes / torch at its best", 1.15, "bytes", "torch-best"),
    Target("decoded images / DALI's proxy", 3.0, "decoded", "nvidia-proxy"),
    Target("decoded images / workers' own decoding", 0.9, "decoded", "decode-only"),
    Target("decoded, one worker / its own decoding", 0.9, "decoded-one-worker", "decode-only"),
    Target("60 KB arrays / torch", 1.5, "arrays-60KB", "torch-pillow"),
    Target("60 KB arrays / memcpy", 0.3, "arrays-60KB", "memcpy"),
    Target("562 KB arrays / torch", 1.5, "arrays-562KB", "torch-pillow"),
    Target("562 KB arrays / memcpy", 0.3, "arrays-562KB", "memcpy"),
    Target("CPU time of the server for a batch of 64", 1.0, "costs", "server_ms_per_batch", "ms", below=True),
    Target("from `with DALIServer` to the first batch", 1.5, "costs", "first_batch_seconds", "s", below=True),
    Target("first start of workers, torch's time / ours", 1.0, "costs", "workers_start_ratio"),
    Target("later starts of workers, torch's time / ours", 1.0, "costs", "workers_start_later_ratio"),
)


def figure_of(document: dict[str, Any], kind: str, name: str) -> Figure | None:
    """Find a figure in a document of results.

    Args:
        document: Document that ``report.as_json`` creates.
        kind: A kind of input, or ``"costs"``.
        name: A rival, or one of the costs.

    Returns:
        The figure; None if it wasn't measured.
    """
    if kind == "costs":
        rounds = document.get("costs", {}).get(name)
        return Figure.from_rounds(rounds) if rounds else None
    entry = document["kinds"].get(kind, {}).get("rivals", {}).get(name, {})
    if document["reference"] != REFERENCE or "reference_ratio" not in entry:
        return None
    return Figure(entry["reference_ratio"], *entry["reference_ratio_range"])


def summary(document: dict[str, Any]) -> str:
    """Return a line for each target: the bound, the measured value, and whether that is enough."""
    lines = [f"{'target':<44}{'must be':>10}{'measured':>11}  {'range':<18}reached"]
    for target in TARGETS:
        figure = figure_of(document, target.kind, target.name)
        bound = f"{'<' if target.below else '>='} {target.bound:g} {target.unit}"
        if figure is None:
            lines.append(f"  {target.title:<42}{bound:>10}{'-':>11}")
            continue
        measured, spread = f"{figure.median:.2f} {target.unit}", f"{figure.low:.2f}..{figure.high:.2f}"
        answer = "yes" if target.reached(figure) else "NO"
        lines.append(f"  {target.title:<42}{bound:>10}{measured:>11}  {spread:<18}{answer}")
    return "\n".join(lines)
