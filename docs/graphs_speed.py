"""Writes the tables of graphs in docs/performance.md, from the last results of `python -m benchmarks.graphs`.

    python -m docs.graphs_speed

Results are files ``benchmarks/results/<date>-<device>-graphs.json``; there is a table for the CPU and one for the GPU.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.graphs.graphs import GRAPHS
from benchmarks.graphs.session import Result
from benchmarks.measurement import Measurement
from benchmarks.operators.session import OURS, THEIRS
from benchmarks.targets import Figure

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
_TABLES = re.compile(r"(?<=<!-- graphs: python -m docs\.graphs_speed -->\n).*?(?=<!-- end of graphs -->)", re.DOTALL)
_HEAD = """
| graph | batch | ours, samples/s | DALI | ratio | CPU time per sample, ours / DALI's | cores, ours / DALI |
| --- | ---: | ---: | ---: | --- | --- | --- |
"""


def tables(results: Path = RESULTS) -> str:
    """Return the tables of the last results, as Markdown."""
    paths = sorted(results.glob("*-graphs.json"), key=lambda path: path.name[:10])
    last = {"-cpu-" in path.name: path for path in paths}
    text = "".join(_table(json.loads(last[on_cpu].read_text())) for on_cpu in sorted(last, reverse=True))
    return text or "\nThere are no results yet.\n"


def with_tables(text: str, results: Path = RESULTS) -> str:
    """Return the text of docs/performance.md with the present tables in it."""
    return _TABLES.sub(lambda match: tables(results) + "\n", text)


def _table(document: dict[str, Any]) -> str:
    machine = document["machine"]
    device = machine["gpus"][0] if "--device cuda" in document["command"] else machine["processor"]
    source = f"\n{device}, {machine['cores']} cores, {document['date']}: `{document['command']}`.\n"
    return source + _HEAD + "".join(map(_row, document["graphs"]))


def _row(entry: dict[str, Any]) -> str:
    rounds = {side: [Measurement(**one) for one in measured] for side, measured in entry["rounds"].items()}
    result = Result(entry["graph"], entry["batch_size"], rounds)
    cells = [GRAPHS[result.graph].title, str(result.batch_size)]
    rates = [result.rate(side) for side in (OURS, THEIRS)]
    cells += ["-" if rate is None else f"{rate.median:,.0f}" for rate in rates]
    cells += [_figure(result.speed), _figure(result.cpu_ratio)]
    cells.append(" / ".join("-" if rate is None else f"{result.cores(side):.1f}"
                            for side, rate in zip((OURS, THEIRS), rates, strict=True)))  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def _figure(figure: Figure | None) -> str:
    return "-" if figure is None else f"{figure.median:.2f} ({figure.low:.2f} to {figure.high:.2f})"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
