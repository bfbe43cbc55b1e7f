"""One plot of all measurements: rates, goals, training, sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.goals import AUTO, AUTO_SHARES, KIND_TITLES
from benchmarks.gpu.training import EAGER, REPLAY
from benchmarks.plots import COLORS, missing_matplotlib, title_of

RIVAL_COLORS = {
    "dali-proxy": COLORS[0], "nvidia-proxy": COLORS[1], "nvidia-dali": COLORS[1], "torch-best": COLORS[2],
    "decode-only": "#999999", "decoder": "#999999",
}  # fmt: skip
BATCH_COLORS = ("#26456e", "#5b8db8", "#b4cfe3")
"""From the largest batches to the smallest; different from the rivals' colors, because they have another meaning."""
MODE_TITLES = {
    "ours, process, server": 'dali-proxy,\nplacement="server"',
    "ours, process, cores": 'dali-proxy,\nplacement="cores"',
    "ours, process, consumer": 'dali-proxy,\nplacement="consumer"',
    "ours, process, auto": 'dali-proxy,\nplacement="auto"',
    "ours, thread": 'dali-proxy,\nmode="thread"',
}
COLUMNS = 2


def plot_all(document: dict[str, Any], path: Path) -> str:
    """Draw the rates of all rivals, the training's shares, and our rates by size, two panels in a row.

    Args:
        document: Document that ``benchmarks.gpu`` creates.
        path: PNG to write.

    Returns:
        A message for the user.
    """
    if (reason := missing_matplotlib()) is not None:
        return reason
    drawn: list[Callable[[Any], None]] = []
    if document["kinds"]:
        drawn.append(partial(_draw_rates, document=document))
    if document.get("training", {}).get("shares"):
        drawn.append(partial(_draw_training, document=document))
    drawn += [partial(_draw_sizes, name=name, points=points) for name, points in _curves(document).items()]
    if not drawn:
        return "Nothing to draw."
    from matplotlib.figure import Figure

    rows = -(-len(drawn) // COLUMNS)
    columns = min(len(drawn), COLUMNS)
    figure = Figure(figsize=(5.6 * columns, 6.4 + 3.2 * (rows - 1)), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, height_ratios=[6.4] + [3.2] * (rows - 1))
    for number, axes in enumerate(grid.flat):
        if number < len(drawn):
            drawn[number](axes)
        else:
            axes.set_axis_off()
    figure.suptitle(title_of(document), fontsize=11)
    figure.savefig(path, dpi=120)
    return f"Saved {path.name}."


def _draw_rates(axes: Any, document: dict[str, Any]) -> None:
    place, ticks, labels = 0.0, [], []
    for kind, result in document["kinds"].items():
        for name, entry in result["rivals"].items():
            rates = [one["samples"] / one["seconds"] for one in entry["rounds"]]
            axes.barh(place, entry["rate"], height=0.8, color=RIVAL_COLORS.get(name, COLORS[4]), alpha=0.8)
            axes.plot([min(rates), max(rates)], [place, place], color="black", linewidth=1.2)
            axes.text(max(rates), place, f"  {entry['rate']:,.0f}", va="center", fontsize=9)
            ticks.append(place)
            labels.append(f"{KIND_TITLES.get(kind, kind)}: {name}")
            place += 1
        place += 0.6
    axes.set_yticks(ticks, labels, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.2 * axes.get_xlim()[1])
    axes.xaxis.set_major_formatter(_in_thousands)
    axes.set_xlabel(f"images/s, batches of {document['setup']['batch_size']} (line: range of the rounds)")
    axes.set_title("Throughput", fontsize=11)
    axes.grid(axis="x", alpha=0.3)


def _draw_training(axes: Any, document: dict[str, Any]) -> None:
    shares = document["training"]["shares"]
    ways = sorted({(one["batch_size"], one["launches"]) for one in shares}, key=lambda way: (-way[0], way[1] != EAGER))
    sizes = list(dict.fromkeys(size for size, _ in ways))
    names = list(dict.fromkeys(one["loader"] for one in shares))
    height = 0.84 / len(ways)
    for number, (size, launches) in enumerate(ways):
        look = {
            "color": BATCH_COLORS[sizes.index(size) % len(BATCH_COLORS)],
            "hatch": None if launches == EAGER else "////",
            "edgecolor": "white",
            "linewidth": 0,
        }
        for one in shares:
            if (one["batch_size"], one["launches"]) == (size, launches):
                place = names.index(one["loader"]) + (number - (len(ways) - 1) / 2) * height
                axes.barh(place, one["share"], height=height * 0.9, **look)
                if size in AUTO_SHARES and (one["loader"], launches) == (AUTO, REPLAY):
                    mark, half = AUTO_SHARES[size], height * 0.45
                    axes.plot([mark, mark], [place - half, place + half], color="#d62728", linewidth=1.5)
                # In a separate column, which no bar reaches.
                axes.text(
                    1.01, place, f"{one['share']:.0%}", transform=axes.get_yaxis_transform(), va="center", fontsize=8
                )
        axes.barh(0, 0, label=f"batch {size}" + ("" if launches == EAGER else f", {launches}"), **look)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), [MODE_TITLES.get(name, name) for name in names], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.05)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("share of the speed with resident batches (red: goal)")
    axes.set_title(f"Training a {document['training']['network']} from each loader", fontsize=11)
    axes.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.38, -0.1))
    axes.grid(axis="x", alpha=0.3)


def _in_thousands(value: float, _: Any) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _curves(document: dict[str, Any]) -> dict[str, list[tuple[int, float]]]:
    """Return our rates by the varied parameter."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for point in document.get("sizes", ()):
        if point["series"]:
            curves.setdefault(point["series"], []).append((point["x"], point["rate"]))
    return {name: sorted(points) for name, points in curves.items()}


def _draw_sizes(axes: Any, name: str, points: list[tuple[int, float]]) -> None:
    places, rates = zip(*points, strict=True)
    axes.plot(places, rates, "o-", color=RIVAL_COLORS["dali-proxy"], markersize=5)
    for place, rate in points:
        axes.annotate(
            f"{rate:,.0f}",
            (place, rate),
            textcoords="offset points",
            xytext=(0, 9),
            ha="center",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(places, [str(place) for place in places])
    axes.minorticks_off()
    axes.margins(x=0.15)
    axes.set_ylim(0, 1.2 * max(rates))
    axes.yaxis.set_major_formatter(_in_thousands)
    axes.set_xlabel(f"{name}{' in pixels' if 'width' in name else ''}")
    axes.set_ylabel("images/s")
    axes.set_title(f"dali-proxy by {name}", fontsize=11)
    axes.grid(alpha=0.3)
