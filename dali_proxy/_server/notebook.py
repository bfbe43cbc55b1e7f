"""HTML that notebooks display for the statistics of a server."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dali_proxy._server.counters import Counters

#: Colors of the parts of the loops' time; they are legible on light and dark pages.
_COLORS = {"training": "#2a9d8f", "waiting for workers": "#e9a03b", "waiting for results": "#4f83cc"}
_OPERATORS = 12  # rows of the table


def as_html(stats: Counters, advice: str, report: str) -> str:
    """Return the limit of the speed, advice, a bar of the loops' time, the most expensive operators, and the report."""
    parts = dict(zip(_COLORS, (stats.training, stats.worker_wait, stats.result_wait), strict=True))
    total = sum(parts.values()) or 1.0
    bar = "".join(
        f'<span style="display:inline-block;height:1em;width:{value / total:.1%};background:{_COLORS[name]}"></span>'
        for name, value in parts.items()
    )
    legend = ", ".join(
        f'<span style="color:{_COLORS[name]}">&#9632;</span> {name} {value / total:.0%}'
        for name, value in parts.items()
    )
    rate = stats.samples / max(stats.seconds, 1e-9)
    operators = sorted(stats.operators.items(), key=lambda item: -item[1].seconds)
    most = max((times.seconds for _, times in operators), default=0.0) or 1.0
    rows = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td><td>{_duration(times.seconds)}</td>"
        f"<td style='text-align:left'><span style='display:"
        f"inline-block;height:0.8em;width:{8 * times.seconds / most:.1f}em;background:#4f83cc'></span></td></tr>"
        for name, times in operators[:_OPERATORS]
    )
    head = "<tr><th style='text-align:left'>operator</th><th>processor</th><th></th></tr>"
    table = f"<table>{head}{rows}</table>" if rows else ""
    limit = stats.limited_by or "nothing yet"
    return (
        f"<p><b>limited by: {limit}</b>, {stats.samples:,} samples, {rate:,.0f} samples/s</p>"
        f"<p>{escape(advice)}</p>"
        f'<div style="width:30em;white-space:nowrap">{bar}</div><p>{legend}</p>{table}'
        f"<details><summary>report</summary><pre>{escape(report)}</pre></details>"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.1f} ms"
