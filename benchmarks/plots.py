"""Plots of the results: ratios as bars, scaling as curves. matplotlib is in the extra ``bench``."""

from __future__ import annotations

import importlib.util
import statistics
from pathlib import Path
from typing import Any

from benchmarks.report import TITLES
from benchmarks.targets import REFERENCE, TARGETS

COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")


def plot_ratios(document: dict[str, Any], path: Path) -> str:
    """Draw the reference's speed relative to each rival: medians as bars, ranges as lines, targets as marks.

    Args:
        document: Document that ``report.as_json`` creates.
        path: PNG to write.

    Returns:
        A message for the user.
    """
    targets = {(target.kind, target.name): target.bound for target in TARGETS if document["reference"] == REFERENCE}
    rows = [
        (kind, name, entry["reference_ratio"], entry["reference_ratio_range"])
        for kind, result in document["kinds"].items()
        for name, entry in result["rivals"].items()
        if "reference_ratio" in entry
    ]
    if not rows:
        return "Nothing to draw: no ratios."
    if (missing := missing_matplotlib()) is not None:
        return missing
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.6 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots()
    kinds = list(document["kinds"])
    for place, (kind, name, ratio, (low, high)) in enumerate(rows):
        axes.barh(place, ratio - 1, left=1, height=0.7, color=COLORS[kinds.index(kind) % len(COLORS)], alpha=0.75)
        axes.plot([low, high], [place, place], color="black", linewidth=1.5, solid_capstyle="butt")
        # In a separate column, without marks.
        axes.text(1.01, place, f"{ratio:.2f}", transform=axes.get_yaxis_transform(), va="center", fontsize=9)
        if (kind, name) in targets:
            mark = targets[kind, name]
            axes.plot([mark, mark], [place - 0.42, place + 0.42], color="black", linestyle=":", linewidth=2)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    least = min(min(low for *_, (low, _) in rows), 1.0)
    most = max(max(high for *_, (_, high) in rows), 1.0, *targets.values())
    axes.set_xlim(least / 1.2, most * 1.2)
    ticks = [tick for tick in (0.1, 0.2, 0.3, 0.5, 1, 1.5, 2, 3, 5, 10, 20, 50) if least / 1.2 <= tick <= most * 1.2]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [f"{TITLES[kind]}  /  {name}" for kind, name, *_ in rows])
    axes.invert_yaxis()
    axes.set_xlabel(
        f"throughput of {document['reference']} / throughput of the other (logarithmic)\n"
        "bar: median, line: range of the rounds, dotted: target"
    )
    axes.set_title(title_of(document), fontsize=10)
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=120)
    return f"Saved {path.name}."


def plot_scaling(document: dict[str, Any], path: Path) -> str:
    """Draw the curves of ``benchmarks.scaling``: throughput by the varied parameter, and cost per sample over time.

    Args:
        document: Document that ``benchmarks.scaling`` creates.
        path: PNG to write.

    Returns:
        A message for the user.
    """
    if (missing := missing_matplotlib()) is not None:
        return missing
    from matplotlib.figure import Figure

    series = [*document["throughput"].items(), *document["cost_per_sample"].items()]
    columns = min(len(series), 3)
    lines = -(-len(series) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * lines + 0.5), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False).flatten()
    for axes in grid[len(series) :]:
        axes.set_visible(False)
    for axes, (name, points) in zip(grid, series, strict=False):
        is_cost = name in document["cost_per_sample"]
        if is_cost:
            _curve(axes, [(point["x"], point["us"]) for point in points], "dali-proxy", 0)
        names = [] if is_cost else sorted({rival for point in points for rival in point["rates"]})
        scale = (lambda point: point["x"] / 1e6) if name == "sample size" else (lambda point: 1.0)
        for number, rival in enumerate(names):
            found = [
                (point["x"], [rate * scale(point) for rate in point["rates"][rival]])
                for point in points
                if rival in point["rates"]
            ]
            _curve(axes, found, rival, number)
        x = [point["x"] for point in points]
        if name in ("sample size", "batch size", "dataset length"):
            axes.set_xscale("log")
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        if name in ("threads", "workers") or len(x) <= 6:
            axes.set_xticks(x, [_short(value) for value in x])
            axes.minorticks_off()
        if name == "sample size":
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        axes.set_xlabel({"sample size": "bytes of a sample", "batch": "batches done", "epoch": "epoch"}.get(name, name))
        axes.set_ylabel("CPU µs / sample" if is_cost else "MB/s" if name == "sample size" else "samples/s")
        axes.grid(alpha=0.3)
        if axes.get_lines():
            axes.legend(fontsize=8)
    figure.suptitle(title_of(document), fontsize=10)
    figure.savefig(path, dpi=120)
    return f"Saved {path.name}."


def _curve(axes: Any, points: list[tuple[float, list[float]]], label: str, number: int) -> None:
    x = [place for place, _ in points]
    color = COLORS[number % len(COLORS)]
    axes.plot(x, [statistics.median(rounds) for _, rounds in points], "o-", color=color, label=label, markersize=4)
    axes.fill_between(
        x, [min(rounds) for _, rounds in points], [max(rounds) for _, rounds in points], color=color, alpha=0.2
    )


def _short(value: float) -> str:
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def title_of(document: dict[str, Any]) -> str:
    """Return the device, its cores and the date, for the title of a plot."""
    machine = document["machine"]
    device = ", ".join(machine["gpus"]) or machine["processor"]
    return f"{device}, {machine['cores']} cores, {document['date']}"


def missing_matplotlib() -> str | None:
    """Return why nothing can be drawn, or None if matplotlib is installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return "No plot: matplotlib is not installed (extra: bench)."
    return None
