"""Diagrams of boxes and arrows, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._graph.layout import BOX_HEIGHT, Layout, Point, arrange

_INK, _SOFT, _PAPER = "#1f2937", "#4b5563", "#f8fafc"
_FONTS = "system-ui, Roboto, Helvetica, Arial, sans-serif"
_CHARACTER = 7.4  # mean width in pixels, at 13 pixels


@dataclass(frozen=True)
class Box:
    """A box of a diagram.

    Attributes:
        text: its text.
        small: a second line in small type; empty for none.
        tooltip: text that browsers show when one points at it.
        outline: color of its outline; empty for none.
        fill: color of its area.
        radius: radius of its corners.
    """

    text: str
    small: str = ""
    tooltip: str = ""
    outline: str = ""
    fill: str = "#ffffff"
    radius: float = 8.0

    @property
    def width(self) -> float:
        """Width in pixels."""
        return max(60.0, 22 + _CHARACTER * max(len(self.text), 0.9 * len(self.small)))


@dataclass(frozen=True)
class Arrow:
    """An arrow of a diagram.

    Attributes:
        source: index of the box where it begins.
        target: index of the box where it ends; larger than `source`.
        label: its name; a labeled arrow is dashed.
    """

    source: int
    target: int
    label: str = ""


@dataclass(frozen=True)
class Diagram:
    """Boxes in layers from top to bottom, and arrows between them."""

    boxes: Sequence[Box]
    arrows: Sequence[Arrow]

    @cached_property
    def layout(self) -> Layout:
        """Positions of the boxes and arrows. Arrows without a label are straight where possible."""
        return arrange(
            [box.width for box in self.boxes],
            [(arrow.source, arrow.target) for arrow in self.arrows],
            [0.01 if arrow.label else 1.0 for arrow in self.arrows],
        )

    @property
    def paths(self) -> list[str]:
        """The arrows' paths, in the language of SVG."""
        return [_path(points) for points in self.layout.routes]

    def svg(self) -> str:
        """Return the diagram as SVG. It has a light background, so that it is legible on light and dark pages."""
        width, height = round(self.layout.width), round(self.layout.height)
        arrows = zip(self.arrows, self.layout.routes, self.paths, strict=True)
        labels = zip(self.arrows, self.layout.routes, strict=True)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                f'viewBox="0 0 {width} {height}" role="img" font-family="{_FONTS}" text-anchor="middle">',
                f'<rect width="{width}" height="{height}" rx="10" fill="{_PAPER}"/>',
                *(_draw_arrow(*each) for each in arrows),
                *(_draw_box(box, *at) for box, at in zip(self.boxes, self.layout.boxes, strict=True)),
                *(_draw_label(arrow.label, *points[-2:]) for arrow, points in labels if arrow.label),
                "</svg>\n",
            ]
        )


def _draw_box(box: Box, center: float, top: float) -> str:
    at, middle = f'x="{center:.1f}"', top + BOX_HEIGHT / 2
    outline = f' stroke="{box.outline}" stroke-width="1.3"' if box.outline else ""
    base = middle - 2 if box.small else middle + 4.5
    small = f'<text {at} y="{middle + 13:.1f}" font-size="11.5" fill="{_SOFT}">{escape(box.small)}</text>'
    text = f'<text {at} y="{base:.1f}" font-size="13" fill="{_INK}">{escape(box.text)}</text>'
    return (
        f"<g><title>{escape(box.tooltip or box.text)}</title>"
        f'<rect x="{center - box.width / 2:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{BOX_HEIGHT:g}" '
        f'rx="{box.radius:g}" fill="{box.fill}"{outline}/>{text}{small if box.small else ""}</g>'
    )


def _draw_arrow(arrow: Arrow, points: Sequence[Point], path: str) -> str:
    x, y = points[-1]
    dash = ' stroke-dasharray="4 3"' if arrow.label else ""
    tip = f"M{x - 3.5:.1f},{y - 7:.1f} L{x:.1f},{y:.1f} L{x + 3.5:.1f},{y - 7:.1f} z"
    return f'<path d="{path}" fill="none" stroke="{_SOFT}"{dash}/><path d="{tip}" fill="{_SOFT}"/>'


def _draw_label(label: str, above: Point, below: Point) -> str:
    at = f'x="{(above[0] + below[0]) / 2:.1f}" y="{(above[1] + below[1]) / 2 + 3:.1f}"'
    halo = f'stroke="{_PAPER}" stroke-width="3" paint-order="stroke"'
    return f'<text {at} font-size="11" fill="{_SOFT}" {halo}>{escape(label)}</text>'


def _path(points: Sequence[Point]) -> str:
    (x, y), *rest = points
    path = f"M{x:.1f},{y:.1f}"
    for number, (to_x, to_y) in enumerate(rest):
        middle = (y + to_y) / 2
        bend = "L" if number % 2 else f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} "  # L: along a lane between boxes
        path += f" {bend}{to_x:.1f},{to_y:.1f}"
        x, y = to_x, to_y
    return path
