"""Calls of operators that move elements: flips, borders, rotations, transforms."""

from __future__ import annotations

import numpy as np

from tests.parity.drawing import ALL, INTEGERS, Draw, Type
from tests.parity.machine import case

MOVED = tuple(dtype for dtype in ALL if dtype not in ("bool", "float64"))  # DALI's pad and erase refuse these


@case("flip")
def flip(draw: Draw) -> None:
    draw.images(("HWC", "FHWC", "DHWC", "CHW", "FCHW", "CDHW", "FDHWC", "FCDHW"), (*INTEGERS, "float32"), low=0)
    for name in ("horizontal", "vertical", "depthwise"):
        draw.argument(name, lambda: draw.integer(0, 1), np.int32)


@case("transpose")
def transpose(draw: Draw) -> None:
    ndim = draw.integer(1, 4)
    layout = draw.one(None, "FHWC"[:ndim])
    draw.arrays(ndim, layout=layout)
    draw.maybe("perm", lambda: draw.some(range(ndim), ndim))
    draw.maybe("transpose_layout", draw.flag)
    draw.maybe("output_layout", lambda: "ABCD"[:ndim])


@case("pad")
def pad(draw: Draw) -> None:
    ndim = draw.integer(1, 4)
    layout = draw.one(None, "FHWC"[:ndim])
    draw.arrays(ndim, MOVED, layout=layout)
    axes = draw.some(range(ndim))
    if layout and draw.flag():
        draw.give(axis_names="".join(layout[axis] for axis in axes))
    else:
        draw.argument("axes", lambda: axes, np.int32, always=True)
    draw.argument("shape", lambda: [draw.integer(-1, 8) for _ in axes], np.int32)
    draw.argument("align", lambda: [draw.integer(1, 4) for _ in axes], np.int32)
    draw.argument("fill_value", lambda: draw.real(0, 100))


@case("paste")
def paste(draw: Draw) -> None:
    _, samples = draw.images(channels=(1, 3, 4))
    channels = samples[0].shape[2]
    draw.argument("ratio", lambda: draw.real(1, 3), always=True)
    draw.argument("paste_x", lambda: draw.real(0, 1))
    draw.argument("paste_y", lambda: draw.real(0, 1))
    draw.argument("min_canvas_size", lambda: draw.real(0, 30))
    draw.give(fill_value=draw.one([7], [1, 2, 3, 4][:channels]), n_channels=channels)


@case("erase")
def erase(draw: Draw) -> None:
    layout, samples = draw.images(("HWC", "CHW", "FHWC"), MOVED, least=4, high=100, named=True)
    letters = draw.some("HW")
    if draw.flag():
        draw.give(axis_names="".join(letters))
    else:
        draw.give(axes=[layout.index(letter) for letter in letters])
    regions = draw.integer(1, 3)
    way = draw.one("pixels", "all", "anchor", "shape")
    fractions = {"anchor": way in ("all", "anchor"), "shape": way in ("all", "shape")}
    if way == "all":
        draw.give(normalized=True)
    elif way != "pixels":
        draw.give(normalized_anchor=fractions["anchor"], normalized_shape=fractions["shape"])
    for name, part in fractions.items():
        draw.argument(
            name, lambda far=1 if part else 8: [draw.real(0, far) for _ in range(regions * len(letters))], always=True
        )
    channels = samples[0].shape[layout.index("C")]
    draw.argument("fill_value", lambda: draw.one([draw.real(0, 90)], [draw.real(0, 90) for _ in range(channels)]))
    draw.maybe("centered_anchor", draw.flag)
    if "fill_value" in draw.call.per_sample:  # all samples need the same number
        draw.per_sample("fill_value", [[draw.real(0, 90)] * channels for _ in range(draw.count)])


def interpolated(draw: Draw) -> str:
    layouts = ("HWC", "FHWC", "DHWC", "FDHWC")
    layout, samples = draw.images(layouts, ("uint8", "int16", "int32", "float32"), least=3)
    draw.maybe("interp_type", lambda: Type(draw.one("INTERP_LINEAR", "INTERP_NN")))
    if draw.call.constants.get("interp_type") == Type("INTERP_NN"):
        draw.call.ties = 0.12  # the central pixel of 3 x 3
    draw.maybe("fill_value", lambda: draw.real(0, 99))
    if samples[0].dtype != np.float32:
        draw.maybe("dtype", lambda: Type("FLOAT"))
    return layout


@case("rotate")
def rotate(draw: Draw) -> None:
    layout = interpolated(draw)
    volume = "D" in layout
    draw.argument("angle", lambda: draw.real(-200, 200) + 0.3, always=True)
    if volume:
        draw.argument("axis", lambda: [draw.real(0.5, 2), draw.real(-2, 2), draw.real(-1, 1)], always=True)
    way = draw.one("", "size", "keep_size")
    if way == "size":
        draw.give(size=[draw.integer(1, 12) for _ in range(2 + volume)])
    elif way:
        draw.give(keep_size=True)


@case("warp_affine")
def warp_affine(draw: Draw) -> None:
    layout = interpolated(draw)
    ndim = 2 + ("D" in layout)

    def matrix() -> np.ndarray:
        return np.eye(ndim, ndim + 1) + draw.noise((ndim, ndim + 1), "float64", -0.4, 0.4)

    if draw.flag():
        frames = draw.frames()
        if frames and draw.flag():
            draw.call.inputs.append(([np.array([matrix() for _ in range(count)], "f4") for count in frames], "F**"))
        else:
            draw.call.inputs.append(([matrix().astype(np.float32) for _ in range(draw.count)], None))
        draw.call.on_cpu = (1,)
    else:
        draw.argument("matrix", lambda: matrix().ravel().tolist(), always=True)
        fold(draw, "matrix", ndim + 1)
    draw.maybe("inverse_map", draw.flag)
    draw.maybe("size", lambda: [draw.integer(1, 12) for _ in range(ndim)])


def fold(draw: Draw, name: str, width: int) -> None:
    """Form rows from an argument that has values for each sample: a constant is a flat list."""
    if name in draw.call.per_sample:
        values = draw.call.per_sample[name]
        draw.call.per_sample[name] = [each.reshape(*each.shape[:-1], -1, width) for each in values]


def matrices(draw: Draw, ndim: int, frames: list[int] | None) -> None:
    """Add an input of transforms, one for each sample or frame."""
    counts = [()] * draw.count if frames is None else [(count,) for count in frames]
    samples = [draw.noise((*count, ndim, ndim + 1), "float32", -2, 2) for count in counts]
    draw.call.inputs.append((samples, "F**" if frames else None))


def base(draw: Draw, ndim: int) -> None:
    """Add initial transforms, or none."""
    way = draw.one("none", "samples", "frames")
    if draw.flag():
        draw.free_frames()
    if way != "none":
        matrices(draw, ndim, draw.free_frames() if way == "frames" else None)
        draw.maybe("reverse_order", draw.flag)


def center(draw: Draw, ndim: int) -> None:
    draw.argument("center", lambda: [draw.real(-9, 9) for _ in range(ndim)])


@case("transforms.translation")
def translation(draw: Draw) -> None:
    ndim = draw.integer(2, 3)
    base(draw, ndim)
    draw.argument("offset", lambda: [draw.real(-9, 9) for _ in range(ndim)], always=True)


@case("transforms.rotation")
def rotation(draw: Draw) -> None:
    ndim = draw.integer(2, 3)
    base(draw, ndim)
    draw.argument("angle", lambda: draw.real(-200, 200), always=True)
    if ndim == 3:
        draw.argument("axis", lambda: [draw.real(0.5, 2), draw.real(-2, 2), draw.real(-1, 1)], always=True)
    center(draw, ndim)


@case("transforms.scale")
def scale(draw: Draw) -> None:
    ndim = draw.integer(2, 3)
    base(draw, ndim)
    single = draw.flag()
    draw.argument("scale", lambda: [draw.real(0.5, 3) for _ in range(1 if single else ndim)], always=True)
    if single and not draw.call.inputs:
        draw.give(ndim=ndim)
    center(draw, ndim)


@case("transforms.shear")
def shear(draw: Draw) -> None:
    ndim = draw.integer(2, 3)
    base(draw, ndim)
    name, far = draw.one(("shear", 2), ("angles", 60))
    draw.argument(name, lambda: [draw.real(-far, far) for _ in range(2 if ndim == 2 else 6)], always=True)
    if ndim == 3:
        fold(draw, name, 2)
    center(draw, ndim)


@case("transforms.crop")
def crop(draw: Draw) -> None:
    ndim = draw.integer(2, 3)
    base(draw, ndim)
    for number, name in enumerate(("from_start", "from_end", "to_start", "to_end")):
        low = number % 2 * 2
        draw.argument(name, lambda low=low: [draw.real(low, low + 1) for _ in range(ndim)], always=True)
    draw.maybe("absolute", draw.flag)


@case("transforms.combine")
def combine(draw: Draw) -> None:
    ndim = draw.integer(2, 3)
    for _ in range(draw.integer(2, 4)):
        matrices(draw, ndim, draw.free_frames() if draw.flag() else None)
    draw.maybe("reverse_order", draw.flag)


def points(draw: Draw, coordinates: int) -> None:
    """Add an input of points with the given number of coordinates."""
    samples = [draw.noise((draw.integer(1, 5), coordinates), "float32", -2, 2) for _ in range(draw.count)]
    draw.call.inputs.append((samples, None))


@case("bb_flip")
def bb_flip(draw: Draw) -> None:
    points(draw, 4)
    for name in ("horizontal", "vertical"):
        draw.argument(name, lambda: draw.integer(0, 1), np.int32)
    draw.maybe("ltrb", draw.flag)


@case("coord_flip")
def coord_flip(draw: Draw) -> None:
    ndim = draw.integer(1, 3)
    points(draw, ndim)
    for letter in "xyz"[:ndim]:
        draw.argument(f"flip_{letter}", lambda: draw.integer(0, 1), np.int32)
        draw.argument(f"center_{letter}", lambda: draw.real(-2, 2))
    if ndim > 1:
        draw.maybe("layout", lambda: "".join(draw.some("xyz"[:ndim], ndim)))


@case("coord_transform")
def coord_transform(draw: Draw) -> None:
    rows, columns = draw.integer(1, 3), draw.integer(1, 3)
    points(draw, columns)
    if draw.flag():
        draw.free_frames()
    way = draw.one("M", "T", "M and T", "MT")
    if way == "MT":
        draw.argument("MT", lambda: [draw.real(-2, 2) for _ in range(rows * (columns + 1))], always=True)
    if "M" in way.split():
        draw.argument("M", lambda: [draw.real(-2, 2) for _ in range(rows * columns)], always=True)
    if "T" in way.split():
        count = rows if way != "T" else columns
        draw.argument("T", lambda: [draw.real(-2, 2) for _ in range(count)], always=True)
    fold(draw, "MT", columns + 1)
    fold(draw, "M", columns)
    draw.maybe("dtype", lambda: Type("FLOAT"))


@case("grid_mask")
def grid_mask(draw: Draw) -> None:
    draw.images(dtypes=("uint8", "int16", "float32"))  # DALI ignores the layout
    draw.argument("tile", lambda: draw.integer(2, 9), np.int32)
    draw.argument("ratio", lambda: draw.real(0.2, 0.8))
    draw.argument("angle", lambda: draw.real(-3, 3) + 0.01)
    draw.argument("shift_x", lambda: draw.real(-5, 5) + 0.01)
    draw.argument("shift_y", lambda: draw.real(-5, 5) + 0.02)


@case("water", "sphere")
def displacement(draw: Draw, operator: str) -> None:
    draw.images(dtypes=("uint8", "float32"), least=2)
    for kind, most in (("ampl", 5), ("freq", 1), ("phase", 3)):
        for axis in "xy" if operator == "water" else "":
            draw.maybe(f"{kind}_{axis}", lambda most=most: draw.real(0, most) + 0.01)
    if draw.flag():
        draw.per_sample("mask", [draw.integer(0, 1) for _ in range(draw.count)], np.int32)
    draw.maybe("fill_value", lambda: draw.integer(0, 255))
    draw.maybe("interp_type", lambda: Type(draw.one("INTERP_NN", "INTERP_LINEAR")))


@case("experimental.warp_perspective")
def warp_perspective(draw: Draw) -> None:
    layout, samples = draw.images(
        ("HWC", "HW", "FHWC", "CHW", "FCHW"), ("uint8", "uint16", "int16", "float32"), least=2, channels=(1, 2, 3, 4)
    )

    def matrix() -> list[list[float]]:
        x, y = draw.real(-4, 4), draw.real(-4, 4)
        slope, turn = draw.real(-0.25, 0.25), draw.real(0.5, 1.5)
        return [[turn, slope, x], [-slope, 1, y], [slope / 16, 1 / 128, 1]]

    if draw.flag():
        draw.call.inputs.append(([np.array(matrix(), np.float32) for _ in range(draw.count)], None))
    else:
        draw.argument("matrix", matrix, always=True)
        if "matrix" in draw.call.constants:
            draw.give(matrix=[value for row in draw.call.constants["matrix"] for value in row])
    draw.maybe("inverse_map", draw.flag)
    draw.argument("size", lambda: [draw.integer(1, 12), draw.integer(1, 12)])
    draw.maybe("pixel_origin", lambda: draw.one("corner", "center"))
    draw.maybe("interp_type", lambda: Type(f"INTERP_{draw.one('NN', 'LINEAR', 'CUBIC')}"))
    draw.maybe("border_mode", lambda: draw.one("constant", "replicate", "reflect", "reflect_101", "wrap"))
    channels = samples[0].shape[-1] if layout[-1] == "C" else 1  # DALI accepts one value for planes
    draw.maybe("fill_value", lambda: [draw.integer(0, 200) for _ in range(draw.one(1, channels))])
