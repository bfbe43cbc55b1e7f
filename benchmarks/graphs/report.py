"""Format the results as a table and as JSON, and draw them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu.session import without_paths
from benchmarks.graphs.graphs import GRAPHS
from benchmarks.graphs.session import Result
from benchmarks.operators.session import OURS, THEIRS
from benchmarks.plots import COLORS, missing_matplotlib, title_of
from benchmarks.targets import Figure

HEAD = (
    f"{'graph':<48}{'batch':>6}{'ours/s':>10} {'range':<16}{'DALI/s':>10} {'range':<16}{'ratio':>6} {'range':<13}"
    f"{'CPU ms':>8}{'DALI':>8}{'ratio':>7}{'cores':>7}{'DALI':>6}"
)


def line(result: Result) -> str:
    """Return the line of a graph: rates, processor time per sample and cores of both libraries, and the ratios."""
    text = f"{GRAPHS[result.graph].title:<48}{result.batch_size:>6}"
    for side in (OURS, THEIRS):
        rate = result.rate(side)
        text += f"{'-':>10} {'':<16}" if rate is None else f"{rate.median:>10,.0f} {_range(rate, ',.0f'):<16}"
    speed, cpu = result.speed, result.cpu_ratio
    text += f"{'-':>6} {'':<13}" if speed is None else f"{speed.median:>6.2f} {_range(speed, '.2f'):<13}"
    times = [f"{result.cpu_ms(side):.3f}" if side in result.rounds else "-" for side in (OURS, THEIRS)]
    cores = [f"{result.cores(side):.1f}" if side in result.rounds else "-" for side in (OURS, THEIRS)]
    text += (
        f"{times[0]:>8}{times[1]:>8}{'-' if cpu is None else format(cpu.median, '.2f'):>7}{cores[0]:>7}{cores[1]:>6}"
    )
    failures = [f"  {side} failed: {reason.strip().splitlines()[-1]}" for side, reason in result.failures.items()]
    return "\n".join([text, *failures])


def as_json(result: Result) -> dict[str, Any]:
    """Return the measurements of a graph, whose fields ``results/README.md`` explains."""
    entry: dict[str, Any] = {"graph": result.graph, "batch_size": result.batch_size}
    entry["rounds"] = {
        side: [{key: round(value, 4) for key, value in asdict(one).items()} for one in rounds]
        for side, rounds in result.rounds.items()
    }
    for name, figure in (("speed", result.speed), ("cpu_ratio", result.cpu_ratio)):
        if figure is not None:
            entry[name] = round(figure.median, 3)
            entry[f"{name}_range"] = [round(figure.low, 3), round(figure.high, 3)]
    if result.failures:
        entry["failures"] = {side: without_paths(reason) for side, reason in result.failures.items()}
    return entry


def plot(document: dict[str, Any], path: Path) -> str:
    """Draw our speed relative to DALI's: medians as bars, ranges as lines.

    Args:
        document: document of the results.
        path: PNG to write.

    Returns:
        A message for the user.
    """
    rows = [entry for entry in document["graphs"] if "speed" in entry]
    if not rows:
        return "Nothing to draw: no ratios."
    if (missing := missing_matplotlib()) is not None:
        return missing
    from matplotlib.figure import Figure as Canvas

    names = list(dict.fromkeys(entry["graph"] for entry in rows))
    sizes = sorted({entry["batch_size"] for entry in rows})
    canvas = Canvas(figsize=(9, 1.6 + (0.2 + 0.16 * len(sizes)) * len(names)), layout="constrained")
    axes = canvas.subplots()
    height = 0.8 / len(sizes)
    for number, size in enumerate(sizes):
        of_size = [entry for entry in rows if entry["batch_size"] == size]
        positions = [names.index(entry["graph"]) + height * (number - (len(sizes) - 1) / 2) for entry in of_size]
        widths = [entry["speed"] - 1 for entry in of_size]
        axes.barh(positions, widths, left=1, height=height, color=COLORS[number], label=f"batches of {size}")
        for position, entry in zip(positions, of_size, strict=True):
            axes.plot(entry["speed_range"], [position, position], color="black", linewidth=1)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), [GRAPHS[name].title for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("throughput of dali-proxy / throughput of NVIDIA DALI\nbar: median, line: range of the rounds")
    axes.set_title(title_of(document), fontsize=10)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8)
    canvas.savefig(path, dpi=120)
    return f"Saved {path.name}."


def _range(figure: Figure, form: str) -> str:
    return f"{figure.low:{form}}..{figure.high:{form}}"
