"""Calls of operators on boxes, masks and regions."""

from __future__ import annotations

import numpy as np

from tests.parity.drawing import Draw, Type
from tests.parity.machine import case


def boxes(draw: Draw, most: int = 5) -> list[np.ndarray]:
    """Add an input of boxes, left, top, right, bottom, with coordinates that are multiples of 1 / 8."""
    samples = []
    for _ in range(draw.count):
        count = draw.integer(0, most)
        low = draw.noise((count, 2), "int32", 0, 4)
        high = low + draw.noise((count, 2), "int32", 1, 4)
        samples.append((np.concatenate([low, high], axis=1) / 8).astype(np.float32))
    draw.call.inputs.append((samples, None))
    return samples


@case("bbox_paste")
def bbox_paste(draw: Draw) -> None:
    boxes(draw)
    draw.argument("ratio", lambda: draw.real(1, 3), always=True)
    draw.argument("paste_x", lambda: draw.real(0, 1))
    draw.argument("paste_y", lambda: draw.real(0, 1))
    draw.maybe("ltrb", draw.flag)


@case("bbox_rotate")
def bbox_rotate(draw: Draw) -> None:
    samples = boxes(draw)
    if draw.flag():
        draw.call.inputs.append(([draw.noise((len(sample),), "int32", 1, 9) for sample in samples], None))
    draw.argument("angle", lambda: draw.real(-180, 180) + 0.01, always=True)
    layout = draw.one("HW", "WH", "HWC")
    draw.argument(
        "input_shape", lambda: [draw.integer(50, 90) for _ in "HW"] + [3] * (len(layout) > 2), np.int32, always=True
    )
    draw.give(shape_layout=layout)
    if draw.flag():
        draw.argument("size", lambda: [draw.integer(50, 90), draw.integer(50, 90)], always=True)
    else:
        draw.maybe("keep_size", draw.flag)
    draw.maybe("bbox_layout", lambda: draw.one("xyXY", "xyWH"))
    draw.maybe("bbox_normalized", draw.flag)
    draw.maybe("mode", lambda: draw.one("expand", "fixed", "halfway"))
    draw.maybe("remove_threshold", lambda: draw.real(0, 0.875))


@case("box_encoder")
def box_encoder(draw: Draw) -> None:
    samples = boxes(draw)
    draw.call.inputs.append(([draw.noise((len(sample),), "int32", 1, 9) for sample in samples], None))
    anchors = [[x, y, x + draw.real(0.125, 0.5), y + draw.real(0.125, 0.5)] for x in (0, 0.25, 0.5) for y in (0, 0.5)]
    draw.give(anchors=[edge for anchor in anchors for edge in anchor])
    draw.maybe("criteria", lambda: draw.real(0, 1))
    draw.maybe("offset", draw.flag)
    draw.maybe("scale", lambda: draw.real(1, 300))
    draw.maybe("means", lambda: [draw.real(-1, 1) for _ in range(4)])
    draw.maybe("stds", lambda: [draw.real(0.5, 2) for _ in range(4)])


@case("segmentation.select_masks")
def select_masks(draw: Draw) -> None:
    inputs: tuple[list[np.ndarray], ...] = ([], [], [])
    dtype = draw.one("float32", "int64", "uint8")
    for _ in range(draw.count):
        masks = draw.some(range(6))
        lengths = [draw.integer(3, 6) for _ in masks]
        ends = np.cumsum(lengths)
        polygons = np.stack([masks, ends - lengths, ends], axis=1).astype(np.int32)
        chosen = np.array(draw.some(masks), np.int32)
        for column, value in zip(inputs, (chosen, polygons, draw.noise((sum(lengths), 2), dtype)), strict=True):
            column.append(value)
    draw.call.inputs += [(column, None) for column in inputs]
    draw.maybe("reindex_masks", draw.flag)


@case("multi_paste")
def multi_paste(draw: Draw) -> None:
    draw.images(dtypes=("uint8", "int16", "int32", "float32"), channels=(3,), least=4, most=8)
    images = draw.call.inputs[0][0]
    by_number = draw.flag()
    if not by_number:
        for _ in range(draw.integer(0, 2)):
            shapes = [(draw.integer(4, 8), draw.integer(4, 8), 3) for _ in images]
            draw.call.inputs.append(([draw.noise(shape, images[0].dtype) for shape in shapes], "HWC"))
    counts = [len(draw.call.inputs)] * draw.count
    if by_number:
        counts = [draw.integer(1, 3)] * draw.count
        numbers = [[draw.integer(0, draw.count - 1) for _ in range(count)] for count in counts]
        draw.per_sample("in_ids", numbers, np.int32)
    for name, relative, most in (("in_anchors", 0.25, 1), ("shapes", 0.5, 3), ("out_anchors", 0.25, 2)):
        way = draw.one("none", "pixels", "fractions")
        if way == "pixels":
            draw.per_sample(name, [[[draw.integer(0, most) for _ in "yx"] for _ in range(n)] for n in counts], np.int32)
        elif way == "fractions":
            rows = [[[draw.real(0, relative) for _ in "yx"] for _ in range(count)] for count in counts]
            draw.per_sample(f"{name}_rel", rows)
    draw.argument("output_size", lambda: [draw.integer(14, 20), draw.integer(14, 20)], np.int32, always=True)
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT16", "INT32", "FLOAT")))
