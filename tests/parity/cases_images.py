"""Calls of operators on images: colours, noise, windows, resizing."""

from __future__ import annotations

import numpy as np

from tests.parity.drawing import INTEGERS, Draw, Type
from tests.parity.machine import case

COLOR_LAYOUTS = ("HWC", "FHWC", "DHWC")
COLOR_DTYPES = ("uint8", "int16", "int32", "float32")
CROP_LAYOUTS = ("HWC", "CHW", "DHWC", "CDHW", "FHWC", "FCHW", "CFHW")  # DALI knows five, and fails
RESIZE_LAYOUTS = ("HWC", "FHWC", "CHW", "FCHW", "CFHW", "DHWC", "CDHW", "FDHWC", "FCDHW", "CFDHW")
INTERPOLATIONS = ("NN", "LINEAR", "CUBIC", "LANCZOS3", "TRIANGULAR", "GAUSSIAN")


def filters(draw: Draw, *, nearest: bool) -> None:
    """Draw the filters of a resize, with or without the nearest-pixel filter."""
    region = bool({"roi_end", "max_size"} & draw.call.names)  # with `max_size`, rounding may adapt the region
    draw.maybe("interp_type", lambda: Type(f"INTERP_{draw.one(*INTERPOLATIONS[not nearest :])}"))
    if region and draw.call.constants.get("interp_type") == Type("INTERP_NN"):
        draw.call.ties = 0.35  # a row of three
    else:  # DALI shifts regions if only one axis uses the nearest pixel
        others = INTERPOLATIONS[region or not nearest :]
        for name in ("min_filter", "mag_filter"):
            draw.maybe(name, lambda: Type(f"INTERP_{draw.one(*others)}"))
    if Type("INTERP_GAUSSIAN") in draw.call.constants.values():
        draw.call.ends = 0.04


def color_images(draw: Draw, channels: tuple[int, ...] = (3,)) -> None:
    dtype = draw.one(*COLOR_DTYPES)
    high = {"uint8": 255, "int16": 3000, "int32": 3000, "float32": 1}[dtype]
    draw.images(COLOR_LAYOUTS, (dtype,), channels=channels, high=high)
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT16", "FLOAT")))


@case("brightness")
def brightness(draw: Draw) -> None:
    color_images(draw, (1, 3))
    draw.argument("brightness", lambda: draw.real(0, 3))
    draw.argument("brightness_shift", lambda: draw.real(-1, 1))


@case("contrast")
def contrast(draw: Draw) -> None:
    color_images(draw, (1, 3))
    draw.argument("contrast", lambda: draw.real(0, 3))
    draw.argument("contrast_center", lambda: draw.real(0, 200))


@case("brightness_contrast")
def brightness_contrast(draw: Draw) -> None:
    brightness(draw)
    draw.argument("contrast", lambda: draw.real(0, 3))
    draw.argument("contrast_center", lambda: draw.real(0, 200))


@case("hue", "saturation", "hsv", "color_twist")
def color_twist(draw: Draw, operator: str) -> None:
    color_images(draw)
    if operator != "hsv":
        draw.maybe("image_type", lambda: Type(draw.one("RGB", "BGR")))
    if operator != "saturation":
        draw.argument("hue", lambda: draw.real(-360, 360), always=operator == "hue")
    if operator != "hue":
        draw.argument("saturation", lambda: draw.real(0, 3))
    if operator == "hsv":
        draw.argument("value", lambda: draw.real(0, 3))
    if operator == "color_twist":
        draw.argument("brightness", lambda: draw.real(0, 3))
        draw.argument("contrast", lambda: draw.real(0, 3))


@case("color_space_conversion")
def color_space_conversion(draw: Draw) -> None:
    source = draw.one("RGB", "BGR", "GRAY", "YCbCr")
    target = draw.one(*{"RGB", "BGR", "GRAY", "YCbCr"} - {source}.union({"BGR"} if source == "GRAY" else set()))
    draw.images(("HWC", "FHWC", "DHWC", "FDHWC"), channels=(1 if source == "GRAY" else 3,))
    draw.give(image_type=Type(source), output_type=Type(target))


@case("gaussian_blur")
def gaussian_blur(draw: Draw) -> None:
    layout, samples = draw.images(
        ("HWC", "CHW", "FHWC", "DHWC", "HW", "FCHW", "CDHW", "FDHWC"),
        ("uint8", "int16", "uint16", "int32", "float32"),
        named=True,
        least=9,
    )
    axes = sum(letter in "DHW" for letter in layout)
    per_axis = draw.flag()
    way = draw.one("sigma", "window", "both")
    if way != "window":
        draw.argument("sigma", lambda: [draw.real(0.5, 2.5) for _ in range(axes if per_axis else 1)], always=True)
    if way != "sigma":
        windows = (3, 5, 7)
        draw.argument(
            "window_size", lambda: [draw.one(*windows) for _ in range(axes if per_axis else 1)], np.int32, always=True
        )
    if samples[0].dtype != np.float32:
        draw.maybe("dtype", lambda: Type("FLOAT"))


@case("laplacian")
def laplacian(draw: Draw) -> None:
    layout, samples = draw.images(
        ("HWC", "CHW", "FHWC", "DHWC", "HW", "FCHW", "CDHW", "FDHWC"),
        ("uint8", "int16", "uint16", "int32", "float32"),
        named=True,
        least=9,
    )
    axes = sum(letter in "DHW" for letter in layout)
    per_axis = draw.flag()

    def widths(*choices: int) -> list[int]:
        return [draw.one(*choices) for _ in range(axes if per_axis else 1)]

    draw.argument("window_size", lambda: widths(3, 5, 7), np.int32)
    draw.argument("smoothing_size", lambda: widths(1, 3, 5), np.int32)
    if draw.flag():
        draw.argument("scale", lambda: [draw.real(-2, 2) for _ in range(axes if per_axis else 1)], always=True)
    else:
        draw.give(normalized_kernel=True)
    if samples[0].dtype != np.float32:
        draw.maybe("dtype", lambda: Type("FLOAT"))


def crop_window(draw: Draw, layout: str, most: int) -> None:
    depth = "D" in layout
    if draw.flag():
        draw.argument("crop", lambda: [draw.integer(1, most) for _ in range(2 + depth)], always=True)
    else:
        for letter in "dhw" if depth else "hw":
            draw.argument(f"crop_{letter}", lambda: draw.integer(1, most), always=True)
    for letter in "xyz" if depth else "xy":
        draw.argument(f"crop_pos_{letter}", lambda: draw.real(0, 1))
    draw.maybe("rounding", lambda: draw.one("round", "truncate"))


@case("crop")
def crop(draw: Draw) -> None:
    layout, _ = draw.images(CROP_LAYOUTS, (*INTEGERS, "float32"), least=4, low=0)
    policy = draw.one("error", "pad", "trim_to_shape")
    crop_window(draw, layout, 4 if policy == "error" else 9)
    draw.give(out_of_bounds_policy=policy)
    draw.maybe("fill_values", lambda: draw.real(0, 20))
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "FLOAT", "FLOAT16")))


@case("crop_mirror_normalize")
def crop_mirror_normalize(draw: Draw) -> None:
    layouts = (*CROP_LAYOUTS, "FDHWC", "FCDHW", "CFDHW")
    layout, samples = draw.images(layouts, ("uint8", "int16", "float32"), least=4, most=9, named=True)
    channels = samples[0].shape[layout.index("C")]
    policy = draw.one("error", "pad", "trim_to_shape")
    crop_window(draw, layout, 4 if policy == "error" else 9)
    draw.give(out_of_bounds_policy=policy)
    draw.maybe("fill_values", lambda: draw.real(0, 20))
    draw.argument("mirror", lambda: draw.integer(0, 1), np.int32)
    length = draw.one(1, channels)
    draw.argument("mean", lambda: [draw.real(0, 99) for _ in range(length)])
    draw.argument("std", lambda: [draw.real(1, 99) for _ in range(length)])
    draw.maybe("scale", lambda: draw.real(1, 60))
    draw.maybe("shift", lambda: draw.real(0, 99))
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT8", "FLOAT", "FLOAT16")))
    orders = ("HWC", "CHW", "FHWC", "FCHW", "CFHW", "DHWC", "CDHW", "FDHWC", "FCDHW", "CFDHW")
    orders = [order for order in orders if sorted(order) == sorted(layout)]
    if len(layout) == 3:
        draw.maybe("output_layout", lambda: draw.one(*orders))
    else:
        draw.give(output_layout=draw.one(*orders))  # DALI refuses the default, CHW
    draw.maybe("pad_output", draw.flag)


@case("slice")
def slice_(draw: Draw) -> None:
    ndim = draw.integer(2, 4)
    layout = {2: "HW", 3: "HWC", 4: "FHWC"}[ndim]
    draw.arrays(ndim, ("uint8", "int32", "float32"), layout=layout, least=4, low=0)
    axes = draw.some([layout.index("W"), layout.index("H")])
    way = draw.one("axes", "names", "default")
    if way == "axes":
        draw.argument("axes", lambda: axes, np.int32, always=True)
    elif way == "names":
        draw.give(axis_names="".join(layout[axis] for axis in axes))
    count = 2 if way == "default" else len(axes)
    policy = draw.one("error", "pad", "trim_to_shape", "edge", "reflect_101", "wrap")
    policy = policy if policy in ("error", "pad", "trim_to_shape") else "pad"
    far = 4 if policy == "error" else 7
    draw.give(out_of_bounds_policy=policy)
    draw.maybe("fill_values", lambda: draw.real(0, 20))
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "FLOAT", "FLOAT16")))
    if draw.one("inputs", "arguments", "arguments") == "inputs":
        normalized = draw.flag()
        reach = (0.25, 0.5) if normalized else (1, 2)
        for _ in range(2):
            batch = [np.array([draw.one(*reach) for _ in range(count)], np.float32) for _ in range(draw.count)]
            draw.call.inputs.append((batch, None))
        draw.give(normalized_anchor=normalized, normalized_shape=normalized)
        draw.call.on_cpu = (1, 2)
        return
    begin, end = draw.one("", "start", "rel_start"), draw.one("end", "rel_end", "shape", "rel_shape")
    if begin == "start":
        draw.argument("start", lambda: [draw.integer(0, 2) for _ in range(count)], np.int32, always=True)
    elif begin == "rel_start":
        draw.argument("rel_start", lambda: [draw.real(0, 0.5) for _ in range(count)], always=True)
    if end in ("end", "shape"):
        low, high = (3, far) if end == "end" else (0, far - 2)
        draw.argument(end, lambda: [draw.integer(low, high) for _ in range(count)], np.int32, always=True)
    else:
        low_part, high_part = (0.5, 1) if end == "rel_end" else (0, 0.5)
        draw.argument(end, lambda: [draw.real(low_part, high_part) for _ in range(count)], always=True)


def resize_arguments(draw: Draw, layout: str, *, nearest: bool) -> None:
    depth = "D" in layout
    way = draw.one("size", "axes", "shorter", "longer")
    if way == "size":
        draw.argument("size", lambda: [draw.integer(1, 14) * draw.one(1, 1, -1) for _ in range(2 + depth)], always=True)
    elif way == "axes":
        for letter in draw.some("xyz" if depth else "xy"):
            draw.argument(f"resize_{letter}", lambda: draw.integer(1, 14), always=True)
    else:
        draw.argument(f"resize_{way}", lambda: draw.integer(1, 14), always=True)
    if way in ("size", "axes"):
        draw.maybe("mode", lambda: draw.one("default", "stretch", "not_larger", "not_smaller"))
    draw.maybe("max_size", lambda: draw.integer(5, 12))
    draw.maybe("subpixel_scale", draw.flag)
    if draw.flag():
        relative = draw.flag()
        draw.argument(
            "roi_start", lambda: [draw.real(0, 0.25 if relative else 2) for _ in range(2 + depth)], always=True
        )
        draw.argument(
            "roi_end", lambda: [draw.real(0.75, 1) * (1 if relative else 4) for _ in range(2 + depth)], always=True
        )
        draw.give(roi_relative=relative)
    filters(draw, nearest=nearest)
    draw.maybe("antialias", draw.flag)
    draw.maybe("dtype", lambda: Type("FLOAT"))


@case("resize")
def resize(draw: Draw) -> None:
    layout, _ = draw.images(RESIZE_LAYOUTS, ("uint8", "int16", "uint16", "float32"), least=3)
    resize_arguments(draw, layout, nearest=True)
    draw.maybe("save_attrs", lambda: True)  # DALI fails if the value is False


@case("resize_crop_mirror", "fast_resize_crop_mirror")
def resize_crop_mirror(draw: Draw) -> None:
    layout, _ = draw.images(RESIZE_LAYOUTS, ("uint8", "int16", "uint16", "float32"), least=3)
    resize_arguments(draw, layout, nearest=False)  # DALI reads out of bounds if a window leaves the image
    if layout in ("HWC", "DHWC"):  # for other layouts DALI doesn't flip the documented axes
        draw.argument("mirror", lambda: draw.integer(0, 7), np.int32)
    crop_window(draw, layout, 6)


@case("jpeg_compression_distortion")
def jpeg_compression_distortion(draw: Draw) -> None:
    draw.images(("HWC", "FHWC"), channels=(3,), most=40)
    draw.argument("quality", lambda: draw.integer(-5, 110), np.int32)


@case("clahe")
def clahe(draw: Draw) -> None:
    draw.images(most=40)
    draw.give(tiles_x=draw.integer(1, 5), tiles_y=draw.integer(1, 5), clip_limit=draw.real(0, 4))
    draw.maybe("luma_only", draw.flag)


@case("debayer")
def debayer(draw: Draw) -> None:
    layout, dtype = draw.one("HW", "HWC", "FHW", "FHWC"), draw.one("uint8", "uint16")
    samples = []
    for _ in range(draw.count):
        height, width = 2 * draw.integer(2, 6), 2 * draw.integer(2, 6)
        shape = [{"H": height, "W": width, "C": 1, "F": draw.integer(1, 3)}[letter] for letter in layout]
        samples.append(draw.noise(shape, dtype))
    draw.call.inputs.append((samples, layout))
    draw.argument("blue_position", lambda: [draw.integer(0, 1), draw.integer(0, 1)], np.int32, always=True)
    algorithms = ("bilinear_ocv", "edgeaware_ocv", "gray_ocv", "vng_ocv")
    draw.maybe("algorithm", lambda: draw.one(*algorithms[: 3 + (dtype == "uint8" and not draw.gpu)]))


@case("tensor_resize")
def tensor_resize(draw: Draw) -> None:
    ndim = draw.integer(1, 4)
    layout = "ABCD"[:ndim]
    draw.arrays(ndim, ("uint8", "int16", "float32"), layout=layout, least=2, most=9, empty=False, low=0, high=255)
    count = draw.integer(1, min(ndim, 3))
    first = draw.integer(0, ndim - count)  # DALI resizes up to three axes beside each other
    axes = list(range(first, first + count))
    if draw.flag():
        draw.give(axis_names="".join(layout[axis] for axis in axes))
    elif count < ndim or draw.flag():
        draw.give(axes=[axis - ndim * draw.integer(0, 1) for axis in axes])
    regions = first >= ndim - 2  # of further axes, DALI ignores regions if all samples keep their extents
    if draw.flag():
        draw.argument("sizes", lambda: [0.0 if draw.nothing() else draw.real(1, 14) for _ in axes], always=True)
        uniform = ("not_larger", "not_smaller") if ndim <= 3 else ()  # these modes also scale the other axes
        mode = draw.one("default", "stretch", *uniform)
        draw.give(mode=mode)
        regions &= ndim <= 2 or mode not in uniform
        if draw.flag():
            draw.give(max_size=[draw.real(2, 12) for _ in axes])
    else:
        draw.argument("scales", lambda: [draw.real(0.5, 3) for _ in axes], always=True)
    draw.maybe("size_rounding", lambda: draw.one("round", "truncate", "ceil"))
    draw.argument("alignment", lambda: [draw.real(0, 1) for _ in axes])
    draw.maybe("subpixel_scale", draw.flag) if regions else draw.give(subpixel_scale=False)
    if regions and draw.flag():
        draw.argument("roi_start", lambda: [draw.real(0, 0.25) for _ in axes], always=True)
        draw.argument("roi_end", lambda: [draw.real(0.5, 1) for _ in axes], always=True)
        draw.give(roi_relative=True)
    draw.maybe("antialias", draw.flag)
    filters(draw, nearest=False)
    draw.maybe("dtype", lambda: Type("FLOAT"))
