"""Calls of operators on arrays of any shape."""

from __future__ import annotations

import numpy as np

from tests.parity.drawing import ALL, INTEGERS, Draw, Type
from tests.parity.machine import case

#: Types that DALI's reductions accept.
REDUCED = (*INTEGERS, "float32")
LETTERS = "HWCD"


def draw_axes(draw: Draw, ndim: int, *, negative: bool = True, least: int = 0) -> list[int]:
    axes = draw.some(range(ndim), least)
    return [axis - ndim if negative and draw.flag() else axis for axis in axes]


@case("copy")
def copy(draw: Draw) -> None:
    draw.arrays(draw.integer(0, 3), layout=None)


@case("shapes")
def shapes(draw: Draw) -> None:
    draw.arrays(draw.integer(0, 4))
    draw.maybe("dtype", lambda: Type(draw.one("INT32", "INT64", "UINT32", "UINT64", "FLOAT", "FLOAT64")))


@case("get_property")
def get_property(draw: Draw) -> None:
    draw.arrays(2, layout=draw.one("HW", "XY"))
    draw.give(key=draw.one("layout", "source_info"))


@case("cast")
def cast(draw: Draw) -> None:
    draw.arrays(dtypes=ALL, low=-300, high=70_000)
    draw.give(dtype=Type(draw.one("UINT8", "INT8", "UINT16", "INT32", "INT64", "BOOL", "FLOAT", "FLOAT16", "FLOAT64")))


@case("cast_like")
def cast_like(draw: Draw) -> None:
    draw.arrays(dtypes=ALL, layout=None, low=-300, high=400)
    draw.arrays(1)


@case("cat")
def cat(draw: Draw) -> None:
    ndim, dtype = draw.integer(1, 4), draw.one(*ALL)
    layout, axis = draw.one(None, LETTERS[:ndim]), draw.integer(0, ndim - 1)
    first = draw.arrays(ndim, [dtype], layout=layout, empty=False)  # DALI drops samples without elements
    for _ in range(draw.integer(0, 3)):
        samples = []
        for sample in first:
            shape = list(sample.shape)
            shape[axis] = draw.integer(0, 4)
            samples.append(draw.noise(shape, dtype))
        draw.call.inputs.append((samples, layout))
    if layout and draw.flag():
        draw.give(axis_name=layout[axis])
    else:
        draw.give(axis=axis - ndim if draw.flag() else axis)


@case("stack")
def stack(draw: Draw) -> None:
    ndim, dtype = draw.integer(0, 3), draw.one(*ALL)
    layout = LETTERS[:ndim] if ndim and draw.flag() else None
    first = draw.arrays(ndim, [dtype], layout=layout)
    for _ in range(draw.integer(0, 3)):
        draw.call.inputs.append(([draw.noise(sample.shape, dtype) for sample in first], layout))
    draw.maybe("axis", lambda: draw.integer(-ndim, ndim))
    if layout or not ndim:
        draw.maybe("axis_name", lambda: "F")


@case("reshape")
def reshape(draw: Draw) -> None:
    draw.count = draw.integer(1, 2)
    samples = draw.arrays(3, layout=None, same=[-1], empty=False)  # DALI refuses extents of 0
    height, width, depth = samples[0].shape
    shape = draw.one([height * width, depth], [height, -1], [-1], [depth, 1, width, height], [height, width, depth])
    way = draw.one("shape", "per sample", "input", "rel_shape", "rel_shape per sample", "src_dims", "both", "layout")
    ndim = len(shape)
    if way == "shape":
        draw.give(shape=shape)
    elif way == "per sample":
        draw.per_sample("shape", [shape] * draw.count, np.int32)
    elif way == "input":
        draw.call.inputs.append(([np.array(shape, np.int64)] * draw.count, None))
        draw.call.on_cpu = (1,)
    elif way.startswith("rel_shape"):
        factors, ndim = draw.one(([1, 1, 1], 3), ([1, -1], 2), ([1, 1, 1, -1], 4), ([-1, 1, 1], 3))
        if way == "rel_shape":
            draw.give(rel_shape=factors)
        else:
            draw.per_sample("rel_shape", [factors] * draw.count)
    elif way == "src_dims":
        order = [*draw.some(range(3), 3), *draw.one([], [-1])]
        draw.give(src_dims=order)
        ndim = len(order)
    elif way == "both":
        draw.give(src_dims=[2, -1, 0], rel_shape=[1, -1, 1])
        ndim = 3
    else:
        ndim = 3
        draw.give(layout="CHW")
    if way in ("shape", "rel_shape", "layout"):  # with other arguments DALI fails if the number of dimensions changes
        draw.call.inputs[0] = (samples, draw.one("HWC", None))
    if way != "layout":
        draw.maybe("layout", lambda: "ABCD"[:ndim])


@case("reinterpret")
def reinterpret(draw: Draw) -> None:
    draw.count = draw.integer(1, 2)
    samples = [draw.noise((draw.integer(1, 3), draw.integer(1, 3), 8), "uint8") for _ in range(draw.count)]
    draw.call.inputs.append((samples, draw.one("HWC", None)))
    dtype = draw.one("INT8", "UINT16", "FLOAT", "INT64", "BOOL")
    draw.give(dtype=Type(dtype))
    if dtype == "BOOL":
        samples[:] = [sample % 2 for sample in samples]
    if dtype == "FLOAT":  # no signalling NaN
        samples[:] = [draw.noise((1, 2, 2), "float32").view(np.uint8) for _ in samples]
    way = draw.one("", "shape", "input", "rel_shape", "src_dims", "layout")
    if way == "shape":
        draw.give(shape=[-1])
    elif way == "input":
        draw.call.inputs = [(samples, None), ([np.array([-1, 1], np.int32)] * draw.count, None)]
        draw.call.on_cpu = (1,)
    elif way == "rel_shape":
        draw.give(rel_shape=[1, -1])
    elif way == "src_dims":
        draw.give(src_dims=[1, 0, 2])
    elif way == "layout":
        draw.give(layout="ABC")


@case("squeeze")
def squeeze(draw: Draw) -> None:
    ones = draw.some(range(4))
    layout = draw.one("FHWC", None)
    samples = []
    dtype = draw.one(*ALL)
    for _ in range(draw.count):
        samples.append(draw.noise([1 if axis in ones else draw.integer(1, 4) for axis in range(4)], dtype))
    draw.call.inputs.append((samples, layout))
    if layout and draw.flag():
        draw.give(axis_names="".join(layout[axis] for axis in ones))
    else:
        draw.give(axes=ones)


@case("expand_dims")
def expand_dims(draw: Draw) -> None:
    ndim, new = draw.integer(0, 3), draw.integer(1, 3)
    layout = "HWC"[:ndim] or None
    draw.arrays(ndim, layout=draw.one(layout, None))
    axes = draw.some(range(ndim + new), new)[:new]
    draw.give(axes=axes)
    if draw.call.inputs[0][1] or not ndim:
        draw.maybe("new_axis_names", lambda: "XYZ"[: len(axes)])


@case("element_extract")
def element_extract(draw: Draw) -> None:
    draw.arrays(draw.integer(2, 4), least=3)
    frames = draw.some(range(3))
    draw.give(element_map=frames if len(frames) > 1 else frames[0])


@case("one_hot")
def one_hot(draw: Draw) -> None:
    ndim = draw.integer(0, 2)
    layout = "HW"[:ndim] or None
    draw.arrays(ndim, (*INTEGERS, "float32", "float64"), layout=layout, low=0, high=6)
    draw.give(num_classes=draw.integer(0, 5))
    draw.maybe("axis", lambda: draw.integer(-1, ndim))
    draw.maybe("axis_name", lambda: "C")
    draw.maybe("on_value", lambda: draw.real(0, 100))
    draw.maybe("off_value", lambda: draw.real(0, 100))
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT8", "INT32", "INT64", "FLOAT", "FLOAT64")))


@case("zeros", "ones")
def plain(draw: Draw) -> None:
    ndim = draw.integer(1, 3)
    draw.argument("shape", lambda: draw.shape(ndim), np.int32, always=True)
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT64", "FLOAT", "FLOAT16", "BOOL")))
    draw.maybe("layout", lambda: "HWC"[:ndim])


@case("full")
def full(draw: Draw) -> None:
    width = draw.integer(1, 4)
    draw.arrays(1, same=[-1], empty=False, least=width, most=width)
    draw.argument("shape", lambda: (draw.integer(1, 3), draw.integer(1, 3), width), np.int32, always=True)
    draw.maybe("layout", lambda: "HWC")


@case("zeros_like", "ones_like", "full_like")
def like(draw: Draw, operator: str) -> None:
    ndim = draw.integer(0, 3)
    draw.arrays(ndim, layout="HWC"[:ndim] if ndim and draw.flag() else None)
    if operator == "full_like":
        draw.arrays(0, ("uint8", "int32", "float32"))
    else:
        draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT64", "FLOAT", "FLOAT16")))


@case("constant")
def constant(draw: Draw) -> None:
    shape = draw.one(None, [2, 3], [6], [1, 6])
    values = [draw.real(-300, 300) for _ in range(draw.one(1, 6) if shape else draw.integer(1, 4))]
    if draw.flag():
        draw.give(fdata=values if draw.flag() or len(values) > 1 else values[0])
    else:
        draw.give(idata=[int(value) for value in values])
    if shape:
        draw.give(shape=shape)
        draw.maybe("layout", lambda: "HW"[: len(shape)])
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT8", "INT64", "FLOAT", "FLOAT16", "BOOL")))


@case("lookup_table")
def lookup_table(draw: Draw) -> None:
    draw.arrays(draw.integer(0, 3), INTEGERS, low=-3, high=12)
    keys = draw.some(range(10), 0)
    draw.maybe("default_value", lambda: draw.real(-10, 300))
    if keys:
        draw.give(keys=keys, values=[draw.real(-10, 300) for _ in keys])
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT16", "FLOAT", "FLOAT16", "INT64")))


@case("permute_batch")
def permute_batch(draw: Draw) -> None:
    draw.count = draw.integer(1, 4)
    draw.arrays(draw.integer(0, 3))
    indices = [draw.integer(0, draw.count - 1) for _ in range(draw.count)]
    if draw.flag():
        draw.give(indices=indices)
    else:
        draw.per_sample("indices", indices, np.int32)


@case("reductions.sum", "reductions.mean", "reductions.mean_square", "reductions.rms")
def reduction(draw: Draw, operator: str) -> None:
    samples = _reduced(draw, low=-20, high=20)
    dtype = samples[0].dtype
    if dtype.kind != "f" and operator != "reductions.sum":
        draw.maybe("dtype", lambda: Type("FLOAT"))
    elif dtype.kind != "f":
        draw.maybe("dtype", lambda: Type("UINT64" if dtype.kind == "u" else "INT64"))


@case("reductions.min", "reductions.max")
def extreme(draw: Draw) -> None:
    _reduced(draw)


@case("reductions.variance", "reductions.std_dev")
def deviation(draw: Draw) -> None:
    ndim = draw.integer(1, 4)
    layout = draw.one(None, LETTERS[:ndim])
    samples = draw.arrays(ndim, REDUCED, layout=layout, least=2, low=0, high=50)
    if draw.flag():
        draw.call.inputs.append((draw.real(0, 9), None))  # DALI accepts one number for the whole sample only
    else:
        axes = draw.some(range(ndim))
        if layout and draw.flag():
            draw.give(axis_names="".join(layout[axis] for axis in axes))
        else:
            draw.give(axes=axes)
        shapes = [[1 if axis in axes else extent for axis, extent in enumerate(x.shape)] for x in samples]
        draw.call.inputs.append(([draw.noise(shape, "float32", 0, 50) for shape in shapes], None))
    draw.maybe("ddof", lambda: draw.integer(0, 1))
    draw.maybe("keep_dims", draw.flag)


def _reduced(draw: Draw, low: float = -100, high: float = 200) -> list[np.ndarray]:
    ndim = draw.integer(1, 4)
    layout = draw.one(None, LETTERS[:ndim])
    samples = draw.arrays(ndim, REDUCED, layout=layout, least=2, low=low, high=high)
    if layout and draw.flag():
        draw.give(axis_names="".join(draw.some(layout)))
    else:
        draw.maybe("axes", lambda: draw_axes(draw, ndim))
    draw.maybe("keep_dims", draw.flag)
    return samples


@case("normalize")
def normalize(draw: Draw) -> None:
    ndim = draw.integer(1, 4)
    layout = draw.one(None, LETTERS[:ndim])
    axes = draw.some(range(ndim))
    samples = draw.arrays(
        ndim,
        ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32"),
        layout=layout,
        same=[axis for axis in range(ndim) if axis not in axes],
        least=2,
        low=0,
        high=50,
    )
    whole = draw.flag()  # one value for the whole batch
    mean, stddev = (draw.one(None, "number", *([] if whole else ["samples"])) for _ in range(2))
    tensors = "samples" in (mean, stddev)
    if tensors or None in (mean, stddev):
        if layout and draw.flag():
            draw.give(axis_names="".join(layout[axis] for axis in axes))
        else:
            draw.give(axes=axes)
    for name, way, low in (("mean", mean, 0.0), ("stddev", stddev, 0.5)):
        if way == "number":
            draw.give(**{name: draw.real(low, 9)})
        elif way == "samples":
            shapes = [[1 if axis in axes else extent for axis, extent in enumerate(x.shape)] for x in samples]
            draw.per_sample(name, [draw.noise(shape, "float32", low, 9) for shape in shapes])
    if whole:
        draw.give(batch=True)
    draw.maybe("ddof", lambda: draw.integer(0, 1))
    draw.maybe("epsilon", lambda: draw.real(0.5, 3))
    draw.maybe("scale", lambda: draw.real(0.5, 30))
    draw.maybe("shift", lambda: draw.real(-10, 128))
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT8", "INT16", "INT32", "FLOAT")))


@case("sequence_rearrange")
def sequence_rearrange(draw: Draw) -> None:
    ndim = draw.integer(2, 4)
    samples = draw.arrays(ndim, layout=draw.one(None, "FHWC"[:ndim]), least=2)
    length = draw.integer(1, 4)
    frames = min(map(len, samples))
    draw.argument("new_order", lambda: [draw.integer(0, frames - 1) for _ in range(length)], np.int32, always=True)
