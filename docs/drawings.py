"""Draws the figures of the concepts, and README's: `python -m docs.drawings` writes docs/figures/*.svg.

A drawing has a light background, so that it is legible on light and dark pages.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

__all__ = ["DRAWINGS", "FOLDER"]

FOLDER = Path(__file__).resolve().parent / "figures"
RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
_FILL = {"data": "#dbeafe", "work": "#d1fae5", "gpu": "#ecfccb", "memory": "#fef3c7", "process": "#ffffff"}
_INK, _SOFT = "#1f2937", "#4b5563"


class Drawing:
    """A drawing of boxes and arrows, 760 pixels wide."""

    def __init__(self, height: int, title: str) -> None:
        self._height, self._title = height, title
        self._parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, kind: str, *lines: str) -> None:
        """Add a box; a line that begins with a tab is small. A process has its name at the top."""
        dash = ' stroke-dasharray="5 4"' if kind == "process" else ""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{_FILL[kind]}" '
            f'stroke="{_SOFT}"{dash}/>'
        )
        top = y + 19 if kind == "process" else y + height / 2 + 5 - 8.5 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + 17 * number, line.lstrip("\t"), small=line.startswith("\t"))

    def bar(self, x: int, y: int, width: int, height: int, color: str) -> None:
        """Add a bar of a chart."""
        self._parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{color}"/>')

    def text(self, x: float, y: float, text: str, small: bool = False, anchor: str = "middle") -> None:
        """Add a line of text."""
        style = f'font-size="12" fill="{_SOFT}"' if small else f'font-size="14" fill="{_INK}"'
        self._parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" {style}>{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        """Add an arrow along points."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{_INK}" marker-end="url(#tip)"/>')

    def svg(self) -> str:
        """Return the drawing as SVG."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {self._height}" role="img" '
                f'font-family="system-ui, Roboto, Helvetica, Arial, sans-serif">',
                f"<title>{escape(self._title)}</title>",
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
                f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{_INK}"/></marker></defs>',
                f'<rect width="760" height="{self._height}" rx="10" fill="#f8fafc"/>',
                *self._parts,
                "</svg>\n",
            ]
        )


def _processes() -> Drawing:
    drawing = Drawing(300, "A sample's way from the dataset to the training loop")
    for x, name in ((15, "worker process 0"), (15, "worker process 1")):
        y = 20 if name.endswith("0") else 165
        drawing.box(x, y, 190, 120, "process", name)
        drawing.box(x + 15, y + 32, 160, 34, "data", "your Dataset")
        drawing.box(x + 15, y + 74, 160, 34, "work", "server.proxy")
    drawing.box(245, 90, 110, 120, "memory", "shared", "memory", "\traw samples")
    drawing.box(395, 20, 190, 160, "process", "server process")
    drawing.box(410, 52, 160, 74, "work", "pipeline", "\tdecode, crop, resize, ...", "\ta batch at a time")
    drawing.box(410, 134, 160, 34, "memory", "result slots")
    drawing.box(395, 200, 350, 85, "process", "training process")
    drawing.box(410, 232, 150, 40, "work", "DataLoader")
    drawing.box(595, 232, 135, 40, "data", "your loop")
    drawing.arrow((205, 110), (245, 120))
    drawing.arrow((205, 240), (245, 190))
    drawing.arrow((355, 110), (410, 90))
    drawing.arrow((490, 126), (490, 134))
    drawing.arrow((490, 168), (490, 232))
    drawing.text(600, 192, "tensors, without a copy on the CPU", small=True)
    drawing.arrow((560, 252), (595, 252))
    drawing.arrow((190, 275), (300, 275), (300, 252), (410, 252))
    drawing.text(305, 294, "placeholders", small=True)
    return drawing


def _overlap() -> Drawing:
    drawing = Drawing(250, "Workers, server and training work on different batches at the same time")
    rows = (("worker 0", 30, "data"), ("worker 1", 70, "data"), ("server", 120, "work"), ("training", 180, "gpu"))
    for name, y, _ in rows:
        drawing.text(90, y + 21, name, anchor="end")
    for batch in range(6):
        worker = batch % 2
        drawing.box(110 + 100 * (batch // 2) + 50 * worker, 30 + 40 * worker, 92, 30, "data", str(batch))
        drawing.box(210 + 70 * batch, 120, 64, 34, "work", str(batch))
        drawing.box(285 + 76 * batch, 180, 70, 34, "gpu", str(batch))
    drawing.arrow((110, 232), (740, 232))
    drawing.text(715, 226, "time", small=True)
    return drawing


def _placeholders() -> Drawing:
    drawing = Drawing(190, "A placeholder becomes a batch of placeholders and then a tensor")
    drawing.box(15, 40, 150, 60, "data", "bytes, array, ...", "\tin __getitem__")
    drawing.box(205, 40, 130, 60, "work", "SampleRef", "\tof one sample")
    drawing.box(375, 40, 150, 60, "work", "BatchRef", "\tof a batch")
    drawing.box(565, 40, 180, 60, "gpu", "tensor, or a list", "\tin your loop")
    for x, y, text in ((185, 0, "server.proxy"), (355, 0, "collate_fn"), (545, 0, "next(loader)")):
        drawing.text(x, 25 + y, text, small=True)
    for x in (165, 335, 525):
        drawing.arrow((x, 70), (x + 40, 70))
    drawing.box(15, 125, 510, 40, "process", "worker")
    drawing.box(565, 125, 180, 40, "process", "training process")
    return drawing


def _placements() -> Drawing:
    drawing = Drawing(425, "Where decoding and the GPU operators run, by placement")
    drawing.text(270, 24, "server process")
    drawing.text(620, 24, "training process")
    rows: tuple[tuple[str, tuple[tuple[str, str, str], ...], tuple[tuple[str, str, str], ...]], ...] = (
        ('"server"', (("gpu", "decode", "GPU"), ("gpu", "operators", "GPU")), ()),
        ('"engine"', (("work", "read", "CPU cores"),), (("gpu", "decode", "GPU"), ("gpu", "operators", "GPU"))),
        ('"cores"', (("work", "decode", "CPU cores"), ("work", "operators", "CPU cores")), (("gpu", "copy", "GPU"),)),
        ('"consumer"', (("work", "decode", "CPU cores"),), (("gpu", "operators", "GPU"),)),
    )
    for number, (name, server, training) in enumerate(rows):
        y = 40 + 95 * number
        drawing.text(12, y + 42, name, anchor="start")
        more = 140 * max(len(training) - 1, 0)
        drawing.box(110, y, 330 - more, 80, "process")
        drawing.box(480 - more, y, 270 + more, 80, "process")
        for index, (kind, what, where) in enumerate(server):
            drawing.box(125 + 160 * index, y + 15, 135, 50, kind, what, f"\t{where}")
        if len(server) == 2:
            drawing.arrow((260, y + 40), (285, y + 40))
        begin = 420 if len(server) == 2 else 260
        for index, (kind, what, where) in enumerate(training):
            x = 495 - more + 140 * index
            drawing.arrow((begin, y + 40), (x, y + 40))
            drawing.box(x, y + 15, 110, 50, kind, what, f"\t{where}")
            begin = x + 110
        drawing.arrow((begin, y + 40), (630, y + 40))
        drawing.box(630, y + 15, 105, 50, "data", "your loop")
    return drawing


def _speed() -> Drawing:
    drawing = Drawing(214, "Images per second from encoded JPEGs")
    names = {
        "dali-proxy": "dali-proxy",
        "nvidia-proxy": "NVIDIA DALI's proxy",
        "torch-best": "torch at its best",
        "torch-pillow": "torch and pillow",
    }
    for left, title, results in (
        (15, "2 CPU cores", "2026-11-22-cpu-2-cores"),
        (390, "an H100, 16 cores", "2026-11-22-nvidia-h100-80gb-hbm3-gpu"),
    ):
        document = json.loads((RESULTS / f"{results}.json").read_text(encoding="utf-8"))
        rates = {name: result["rate"] for name, result in document["kinds"]["bytes"]["rivals"].items()}
        drawing.text(left + 175, 32, f"images per second: {title}")
        for number, name in enumerate(each for each in names if each in rates):
            y, width = 48 + 40 * number, round(150 * rates[name] / rates["dali-proxy"])
            drawing.text(left + 125, y + 19, names[name], small=True, anchor="end")
            drawing.bar(left + 135, y, width, 28, "#2563eb" if number == 0 else "#94a3b8")
            drawing.text(left + 143 + width, y + 19, f"{rates[name]:,.0f}", small=True, anchor="start")
    return drawing


DRAWINGS = {
    "processes": _processes,
    "overlap": _overlap,
    "placeholders": _placeholders,
    "placements": _placements,
    "speed": _speed,
}


if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
