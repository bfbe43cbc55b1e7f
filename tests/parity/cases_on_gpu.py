"""Calls of operators that DALI has only on the GPU: compared between our GPU and our CPU."""

from __future__ import annotations

import numpy as np

from tests.parity.drawing import Draw, Type
from tests.parity.machine import case_on_gpu

LAYOUTS = ("HWC", "HW", "CHW", "FHWC", "FCHW")


@case_on_gpu("experimental.dilate", "experimental.erode")
def morphology(draw: Draw) -> None:
    draw.images(LAYOUTS, ("uint8", "uint16", "int16", "float32"), least=4, channels=(1, 2, 3, 5))
    size = [draw.integer(1, 4), draw.integer(1, 4)]
    draw.argument("mask_size", lambda: size, np.int32, always=True)
    draw.argument("anchor", lambda: [draw.integer(-1, extent - 1) for extent in size], np.int32)
    draw.maybe("border_mode", lambda: draw.one("constant", "replicate", "reflect", "reflect_101", "wrap"))
    draw.maybe("iterations", lambda: draw.integer(0, 2))


@case_on_gpu("experimental.median_blur")
def median_blur(draw: Draw) -> None:
    draw.images(LAYOUTS, ("uint8", "uint16", "int16", "float32"), channels=(1, 2, 3, 5), low=-100)
    draw.argument("window_size", lambda: [draw.one(1, 3, 5, 7), draw.one(1, 3, 5)], np.int32)


@case_on_gpu("experimental.remap")
def remap(draw: Draw) -> None:
    layout, samples = draw.images(("HWC", "FHWC"), ("uint8", "int16", "float32"), channels=(1, 3, 5))
    shapes = []
    for sample in samples:
        frames = [draw.one(1, len(sample))] if layout[0] == "F" else []
        shapes.append([*frames, draw.integer(2, 9), draw.integer(2, 9)])
    for axis in (-2, -3):
        extents = [sample.shape[axis] for sample in samples]
        maps = [draw.noise(shape, "float32", -2, most + 2) for shape, most in zip(shapes, extents, strict=True)]
        draw.call.inputs.append((maps, None))
    draw.maybe("interp", lambda: Type(f"INTERP_{draw.one('NN', 'LINEAR', 'CUBIC', 'LANCZOS3')}"))
    draw.maybe("pixel_origin", lambda: draw.one("corner", "center"))
