"""Diagrams of boxes and arrows, and their layout."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree

from dali_proxy.pipeline._graph.diagram import Arrow, Box, Diagram
from dali_proxy.pipeline._graph.layout import BOX_HEIGHT, arrange


def test_boxes_do_not_overlap_and_lie_below_their_sources() -> None:
    widths = [60.0 + 13 * (number % 5) for number in range(40)]
    arrows = [(source, target) for target in range(40) for source in {target // 2, target // 3, 0} if source < target]
    layout = arrange(widths, arrows, [1.0] * len(arrows))
    for source, target in arrows:
        assert layout.boxes[source][1] + BOX_HEIGHT < layout.boxes[target][1]
    for (one, (x, y)), (other, (to_x, to_y)) in itertools.combinations(enumerate(layout.boxes), 2):
        assert y != to_y or abs(x - to_x) > (widths[one] + widths[other]) / 2
    for (x, y), width in zip(layout.boxes, widths, strict=True):
        assert 0 < x - width / 2 < x + width / 2 < layout.width
        assert 0 < y < y + BOX_HEIGHT < layout.height


def test_arrows_go_around_the_boxes_of_other_layers() -> None:
    widths = [80.0] * 6
    layout = arrange(widths, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)], [1.0] * 6)
    bends = layout.routes[-1][1:-1]
    assert len(bends) == 8, "two points in each of four layers"
    assert all(abs(x - layout.boxes[number][0]) > 40 for x, _ in bends for number in (1, 2, 3, 4))


def test_arrows_cross_only_where_they_must() -> None:
    layout = arrange([60.0] * 6, [(0, 5), (1, 4), (2, 3)], [1.0] * 3)
    starts, ends = ([route[end][0] for route in layout.routes] for end in (0, -1))
    assert starts == sorted(starts)
    assert ends == sorted(ends), "the order of the second layer follows that of the first"
    assert starts == ends, "and the arrows are straight"


def test_sources_lie_next_to_the_box_that_reads_them() -> None:
    layout = arrange([60.0] * 4, [(0, 1), (1, 3), (2, 3)], [1.0] * 3)
    assert layout.boxes[2][1] == layout.boxes[1][1]


def test_heavier_arrows_are_straighter() -> None:
    layout = arrange([60.0] * 3, [(0, 2), (1, 2)], [1.0, 0.001])
    assert abs(layout.boxes[0][0] - layout.boxes[2][0]) < 1


def test_empty_diagram_is_svg() -> None:
    assert xml.etree.ElementTree.fromstring(Diagram((), ()).svg()).tag.endswith("svg")


def test_svg_has_texts_tooltips_and_labels_escaped() -> None:
    boxes = [Box("a <b>", "1 & 2", tooltip="first"), Box("c", outline="", fill="none")]
    root = xml.etree.ElementTree.fromstring(Diagram(boxes, [Arrow(0, 1, 'called "x"')]).svg())
    texts = [text.strip() for text in root.itertext() if text.strip()]
    assert texts == ["first", "a <b>", "1 & 2", "c", "c", 'called "x"']
