"""One picture of everything that was measured: rates, goals, training, sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.gpu.goals import BEST_SHARES, KIND_TITLES
from benchmarks.gpu.training import EAGER
from benchmarks.plots import COLORS, missing_matplotlib, title_of

RIVAL_COLORS = {
    "dali-proxy": COLORS[0], "nvidia-proxy": COLORS[1], "nvidia-dali": COLORS[1], "torch-best": COLORS[2],
    "decode-only": "#999999", "decoder": "#999999",
}  # fmt: skip


def plot_all(document: dict[str, Any], path: Path) -> str:
    """Draws the rates of all rivals, the training's shares, and our rates by size.

    Args:
        document: As ``benchmarks.gpu`` makes it.
        path: The PNG to write.

    Returns:
        What was done, for the user.
    """
    if (reason := missing_matplotlib()) is not None:
        return reason
    drawn = [
        draw
        for draw, there in (
            (_draw_rates, document["kinds"]),
            (_draw_training, document.get("training", {}).get("shares")),
            (_draw_sizes, document.get("sizes")),
        )
        if there
    ]
    if not drawn:
        return "Nothing to draw."
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6 * len(drawn), 5.2), layout="constrained")
    for axes, draw in zip(figure.subplots(1, len(drawn), squeeze=False)[0], drawn, strict=True):
        draw(axes, document)
    figure.suptitle(title_of(document), fontsize=10)
    figure.savefig(path, dpi=120)
    return f"Saved {path.name}."


def _draw_rates(axes: Any, document: dict[str, Any]) -> None:
    place, ticks, labels = 0.0, [], []
    for kind, result in document["kinds"].items():
        for name, entry in result["rivals"].items():
            rates = [one["samples"] / one["seconds"] for one in entry["rounds"]]
            axes.barh(place, entry["rate"], height=0.8, color=RIVAL_COLORS.get(name, COLORS[4]), alpha=0.8)
            axes.plot([min(rates), max(rates)], [place, place], color="black", linewidth=1.2)
            axes.text(max(rates), place, f"  {entry['rate']:,.0f}", va="center", fontsize=7)
            ticks.append(place)
            labels.append(f"{KIND_TITLES.get(kind, kind)}: {name}")
            place += 1
        place += 0.6
    axes.set_yticks(ticks, labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.18 * axes.get_xlim()[1])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    axes.set_xlabel(f"images/s, batches of {document['setup']['batch_size']}; line: range of the rounds")
    axes.set_title("Throughput", fontsize=10)
    axes.grid(axis="x", alpha=0.3)


def _draw_training(axes: Any, document: dict[str, Any]) -> None:
    shares = document["training"]["shares"]
    ways = sorted({(one["batch_size"], one["launches"]) for one in shares}, key=lambda way: (-way[0], way[1] != EAGER))
    names = list(dict.fromkeys(one["loader"] for one in shares))
    height = 0.8 / len(ways)
    for number, (size, launches) in enumerate(ways):
        color = COLORS[number % len(COLORS)]
        for one in shares:
            if (one["batch_size"], one["launches"]) == (size, launches):
                place = names.index(one["loader"]) + (number - (len(ways) - 1) / 2) * height
                axes.barh(place, one["share"], height=height * 0.9, color=color, alpha=0.8)
                axes.text(0.02, place, f"{one['share']:.1%}", va="center", fontsize=6, color="white")
        axes.barh(0, 0, color=color, label=f"batch {size}" + ("" if launches == EAGER else f", {launches}"))
        if size in BEST_SHARES:
            axes.axvline(BEST_SHARES[size], color=color, linestyle=":", linewidth=1.5)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15)
    axes.set_xlabel("share of the speed with resident batches; dotted: goal")
    axes.set_title(f"Training {document['training']['network']} beside it", fontsize=10)
    axes.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    axes.grid(axis="x", alpha=0.3)


def _draw_sizes(axes: Any, document: dict[str, Any]) -> None:
    curves: dict[str, list[tuple[int, float]]] = {}
    for point in document["sizes"]:
        if point["series"]:
            curves.setdefault(point["series"], []).append((point["x"], point["rate"]))
    for number, (name, points) in enumerate(curves.items()):
        axes.plot(*zip(*sorted(points), strict=True), "o-", color=COLORS[number], label=f"by {name}", markersize=4)
        for x, rate in points:
            axes.annotate(f"{x}", (x, rate), textcoords="offset points", xytext=(3, 5), fontsize=7)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("pictures in a batch, or their width in pixels")
    axes.set_ylabel("images/s")
    axes.set_title("Ours by size", fontsize=10)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
