"""Calls of OpenCV, torch, SciPy and soxr that do the work of an operator, for one sample on one thread.

Each function gets the sample's inputs and arguments. It returns the result in the operator's layout, or raises
`NotImplementedError` if the library has no such call for the dtype or the layout. Where a library has no call for
volumes or frames, it works on one slice or frame after the other, as its users do.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import scipy
import soxr
import torch
from torch.nn import functional

from benchmarks.operators.cases import Type
from dali_proxy.pipeline._audio.mel import mel_filters
from dali_proxy.pipeline._imaging import affine

Array = npt.NDArray[Any]


class Call:
    """A call for one sample: its inputs, its arguments, and the layout of its first input."""

    def __init__(self, inputs: list[Array], arguments: dict[str, Any], layout: str) -> None:
        self.inputs, self.arguments, self.layout = inputs, arguments, layout

    @property
    def data(self) -> Array:
        """The first input."""
        return self.inputs[0]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument; a member of `types` is its name."""
        value = self.arguments.get(name, default)
        return value.name if isinstance(value, Type) else value

    @property
    def nearest(self) -> bool:
        """Whether pixels are copied."""
        return bool(self.get("interp_type") == "INTERP_NN")

    def only(self, *layouts: str) -> None:
        """Raise unless the layout is one of these."""
        if self.layout not in layouts:
            raise NotImplementedError

    def frames(self, work: Callable[[Array], Array]) -> Array:
        """Return the images that `work` makes from an image, or from each frame or slice."""
        if self.layout in ("HWC", "HW"):
            return work(self.data)
        if self.layout == "CHW":
            return np.stack([work(plane) for plane in self.data])
        return np.stack([work(frame) for frame in self.data])


def _like(made: Array, image: Array) -> Array:
    """Return an image with the axis of channels, which OpenCV drops."""
    return made.reshape(*made.shape[:2], -1) if image.ndim == 3 else made


def _torch_planes(call: Call) -> torch.Tensor:
    """Return a view (N, C, ...) of the sample."""
    data = torch.from_numpy(call.data)
    if call.layout == "HWC":
        return data.permute(2, 0, 1)[None]
    if call.layout == "CHW":
        return data[None]
    if call.layout == "FHWC":
        return data.permute(0, 3, 1, 2)
    return data.permute(3, 0, 1, 2)[None]


def _from_planes(made: torch.Tensor, call: Call) -> Array:
    if call.layout == "FHWC":
        return made.permute(0, 2, 3, 1).contiguous().numpy()
    if call.layout == "CHW":
        return made[0].contiguous().numpy()
    return made[0].movedim(0, -1).contiguous().numpy()


def _back(made: torch.Tensor, dtype: np.dtype[Any]) -> torch.Tensor:
    """Round and clamp floats to the dtype."""
    if dtype.kind not in "iu":
        return made
    info = np.iinfo(dtype)
    return made.round_().clamp_(info.min, info.max).to(getattr(torch, dtype.name))


# Geometry


def cv_resize(call: Call) -> Array:
    call.only("HWC", "CHW", "FHWC")
    height, width = call.get("size")
    how = {"INTERP_NN": cv2.INTER_NEAREST_EXACT, None: cv2.INTER_LINEAR, "INTERP_CUBIC": cv2.INTER_CUBIC}
    if call.get("antialias", True) and not call.nearest:
        raise NotImplementedError
    flag = how[call.get("interp_type")]
    return call.frames(lambda image: _like(cv2.resize(image, (width, height), interpolation=flag), image))


def torch_resize(call: Call) -> Array:
    planes, volume = _torch_planes(call), call.layout == "DHWC"
    antialias = call.get("antialias", True)
    modes = {"INTERP_NN": "nearest-exact", None: "trilinear" if volume else "bilinear", "INTERP_CUBIC": "bicubic"}
    mode = modes[call.get("interp_type")]
    if volume and (mode == "bicubic" or (antialias and not call.nearest)):
        raise NotImplementedError
    options: dict[str, Any] = {} if call.nearest else {"align_corners": False}
    if not call.nearest and not volume:
        options["antialias"] = antialias
    native = planes.dtype == torch.float32 or (planes.dtype == torch.uint8 and (call.nearest or not volume))
    made = functional.interpolate(planes if native else planes.float(), tuple(call.get("size")), mode=mode, **options)
    return _from_planes(made if native else _back(made, call.data.dtype), call)


def scipy_resize(call: Call) -> Array:
    call.only("DHWC", "CHW")
    if (call.get("antialias", True) and not call.nearest) or call.get("interp_type") == "INTERP_CUBIC":
        raise NotImplementedError
    data = call.data if call.layout == "CHW" else call.data[..., 0]
    size = (3, *call.get("size")) if call.layout == "CHW" else call.get("size")
    zoom = [to / extent for to, extent in zip(size, data.shape, strict=True)]
    made: Array = scipy.ndimage.zoom(data, zoom, order=0 if call.nearest else 1, mode="nearest", grid_mode=True)
    return made if call.layout == "CHW" else made[..., None]


def _mapping(call: Call) -> Array:
    """Return the matrix from the result to the source, as x, y and perhaps z; pixel k covers [k, k + 1)."""
    spatial = call.data.shape[-4:-1] if call.layout == "DHWC" else call.data.shape[-3:-1]
    ndim = len(spatial)
    if (given := call.get("matrix")) is not None:
        return np.asarray(given, np.float64).reshape(ndim, ndim + 1)
    center = np.array(spatial[::-1]) / 2
    axis = call.get("axis")
    turn = affine.rotation(
        np.float64(-call.get("angle") if axis is not None else call.get("angle")),
        None if axis is None else np.asarray(axis, np.float64),
    )
    return affine.about(turn, center)


def cv_warp(call: Call) -> Array:
    call.only("HWC", "FHWC")
    matrix = _mapping(call)
    matrix[:, 2] += matrix[:, :2].sum(axis=1) * 0.5 - 0.5
    flags = (cv2.INTER_NEAREST if call.nearest else cv2.INTER_LINEAR) | cv2.WARP_INVERSE_MAP
    return call.frames(lambda image: _like(cv2.warpAffine(image, matrix, image.shape[1::-1], flags=flags), image))


def torch_warp(call: Call) -> Array:
    planes, matrix = _torch_planes(call).float(), _mapping(call)
    extents = np.array(planes.shape[:1:-1], np.float64)
    ndim = len(extents)
    # affine_grid has positions from -1 to 1.
    linear = matrix[:, :ndim] * extents[None] / extents[:, None]
    offset = (matrix[:, ndim] + matrix[:, :ndim] @ (extents / 2)) / (extents / 2) - 1
    theta = torch.from_numpy(np.concatenate([linear, offset[:, None]], 1).astype(np.float32))
    grid = functional.affine_grid(theta.expand(len(planes), -1, -1), list(planes.shape), align_corners=False)
    made = functional.grid_sample(planes, grid, "nearest" if call.nearest else "bilinear", align_corners=False)
    return _from_planes(_back(made, call.data.dtype), call)


def scipy_warp(call: Call) -> Array:
    call.only("DHWC")
    matrix = _mapping(call)
    linear = matrix[::-1, 2::-1]
    offset = matrix[::-1, 3] + linear.sum(axis=1) * 0.5 - 0.5
    made: Array = scipy.ndimage.affine_transform(
        call.data[..., 0], linear, offset, order=0 if call.nearest else 1, mode="grid-constant"
    )
    return made[..., None]


def cv_perspective(call: Call) -> Array:
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    matrix = np.linalg.inv(half) @ np.asarray(call.get("matrix")).reshape(3, 3) @ half
    return cv2.warpPerspective(call.data, matrix, call.data.shape[1::-1], flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)


def cv_remap(call: Call) -> Array:
    return cv2.remap(call.data, call.inputs[1], call.inputs[2], cv2.INTER_LINEAR)


# Filters


def cv_gaussian(call: Call) -> Array:
    call.only("HWC", "CHW", "FHWC")
    window, sigma = (call.get("window_size"),) * 2, call.get("sigma")
    return call.frames(lambda image: _like(cv2.GaussianBlur(image, window, sigma), image))


def _gauss(call: Call) -> Array:
    steps = np.arange(call.get("window_size")) - call.get("window_size") // 2
    taps = np.exp(-0.5 * (steps / call.get("sigma")) ** 2)
    return (taps / taps.sum()).astype(np.float32)


def scipy_gaussian(call: Call) -> Array:
    spatial = range(call.data.ndim)[call.layout[0] in "FC" : None if call.layout == "CHW" else -1]
    made = call.data.astype(np.float32)
    for axis in spatial:
        made = scipy.ndimage.correlate1d(made, _gauss(call), axis, mode="mirror")
    return _back(torch.from_numpy(made), call.data.dtype).numpy()


def torch_gaussian(call: Call) -> Array:
    planes, taps = _torch_planes(call).float(), torch.from_numpy(_gauss(call))
    shape = planes.shape
    flat = planes.reshape(-1, 1, *shape[2:])
    half, ndim = len(taps) // 2, flat.ndim - 2
    flat = functional.pad(flat, (half,) * (2 * ndim), mode="reflect")
    convolve = functional.conv3d if ndim == 3 else functional.conv2d
    for axis in range(ndim):
        flat = convolve(flat, taps.reshape(1, 1, *(len(taps) if each == axis else 1 for each in range(ndim))))
    return _from_planes(_back(flat.reshape(shape), call.data.dtype), call)


def cv_laplacian(call: Call) -> Array:
    call.only("HWC", "CHW")
    if call.data.dtype == np.int16:
        raise NotImplementedError
    depth = cv2.CV_32F if call.data.dtype == np.float32 else -1
    return call.frames(lambda image: _like(cv2.Laplacian(image, depth, ksize=3), image))


def cv_filter(call: Call) -> Array:
    call.only("HWC")
    return cv2.filter2D(call.data, -1, call.inputs[1])


def torch_filter(call: Call) -> Array:
    planes, kernel = _torch_planes(call).float(), torch.from_numpy(call.inputs[1])[None, None]
    ndim = kernel.ndim - 2
    margins = (kernel.shape[-1] // 2,) * (2 * ndim)
    made = functional.conv2d(functional.pad(planes.reshape(-1, 1, *planes.shape[2:]), margins, mode="reflect"), kernel)
    return _from_planes(_back(made.reshape(planes.shape), call.data.dtype), call)


# Moving pixels


def _window(call: Call) -> tuple[slice, ...]:
    if (start := call.get("start")) is not None:
        return tuple(slice(low, low + extent) for low, extent in zip(start, call.get("shape"), strict=True))
    crop = call.get("crop") or (call.get("crop_d"), call.get("crop_h"), call.get("crop_w"))
    spatial = [extent for extent, axis in zip(call.data.shape, call.layout, strict=True) if axis in "DHW"]
    cuts = [
        slice(round((extent - size) / 2), round((extent - size) / 2) + size)
        for extent, size in zip(spatial, crop, strict=True)
    ]
    return tuple(cuts if call.layout[0] in "DH" else [slice(None), *cuts])


def numpy_crop(call: Call) -> Array:
    return call.data[_window(call)].copy()


def torch_crop(call: Call) -> Array:
    return torch.from_numpy(call.data)[_window(call)].contiguous().numpy()


def _flipped(call: Call) -> list[int]:
    wanted = {"W": call.get("horizontal", 1), "H": call.get("vertical", 0), "D": call.get("depthwise", 0)}
    return [call.layout.index(axis) for axis, value in wanted.items() if value]


def cv_flip(call: Call) -> Array:
    call.only("HWC", "CHW", "FHWC", "DHWC")
    if call.get("depthwise"):
        raise NotImplementedError
    code = 1 if call.get("horizontal") else 0
    return call.frames(lambda image: _like(cv2.flip(image, code), image))


def torch_flip(call: Call) -> Array:
    return torch.from_numpy(call.data).flip(_flipped(call)).numpy()


def numpy_flip(call: Call) -> Array:
    return np.ascontiguousarray(np.flip(call.data, _flipped(call)))


def numpy_pad(call: Call) -> Array:
    made = np.zeros((*call.get("shape"), call.data.shape[-1]), call.data.dtype)
    made[tuple(map(slice, call.data.shape))] = call.data
    return made


def cv_pad(call: Call) -> Array:
    call.only("HWC")
    height, width = (to - extent for to, extent in zip(call.get("shape"), call.data.shape, strict=False))
    return cv2.copyMakeBorder(call.data, 0, height, 0, width, cv2.BORDER_CONSTANT, value=(0, 0, 0))


def numpy_paste(call: Call) -> Array:
    height, width, channels = call.data.shape
    made = np.zeros((int(height * call.get("ratio")), int(width * call.get("ratio")), channels), call.data.dtype)
    made[:height, :width] = call.data
    return made


def numpy_erase(call: Call) -> Array:
    made = call.data.copy()
    region = zip(call.get("anchor"), call.get("shape"), strict=True)
    made[tuple(slice(int(low), int(low + size)) for low, size in region)] = 0
    return made


def numpy_transpose(call: Call) -> Array:
    return np.ascontiguousarray(call.data.transpose(call.get("perm")))


def torch_transpose(call: Call) -> Array:
    return torch.from_numpy(call.data).permute(call.get("perm")).contiguous().numpy()


def cv_transpose(call: Call) -> Array:
    if call.get("perm") == [2, 0, 1] and call.layout == "HWC":
        made = np.empty((3, *call.data.shape[:2]), call.data.dtype)
        cv2.split(call.data, list(made))
        return made
    if call.get("perm") == [1, 2, 0] and call.layout == "CHW":
        return cv2.merge(list(call.data))
    raise NotImplementedError


def _to_dtype(call: Call) -> np.dtype[Any]:
    return np.dtype({"FLOAT": "float32"}.get(call.get("dtype"), call.get("dtype", "").lower()))


def torch_cast(call: Call) -> Array:
    dtype = _to_dtype(call)
    made = torch.from_numpy(call.data)
    if dtype.kind in "iu" and call.data.dtype.kind == "f":
        return _back(made.clone(), dtype).numpy()
    return made.to(getattr(torch, dtype.name)).numpy()


def cv_cast(call: Call) -> Array:
    if _to_dtype(call) == np.uint8 and call.data.dtype == np.float32:
        return cv2.convertScaleAbs(call.data).reshape(call.data.shape)
    if _to_dtype(call) == np.float32:
        flat = call.data.reshape(call.data.shape[0], -1)
        return cv2.addWeighted(flat, 1, flat, 0, 0, dtype=cv2.CV_32F).reshape(call.data.shape)
    raise NotImplementedError


def torch_cat(call: Call) -> Array:
    return torch.cat(list(map(torch.from_numpy, call.inputs)), call.get("axis")).numpy()


def torch_stack(call: Call) -> Array:
    return torch.stack(list(map(torch.from_numpy, call.inputs))).numpy()


def numpy_stack(call: Call) -> Array:
    return np.stack(call.inputs)


# Values


def _channels(call: Call) -> tuple[Array, Array]:
    return np.array(call.get("mean"), np.float32), 1 / np.array(call.get("std"), np.float32)


def torch_normalize_crop(call: Call) -> Array:
    mean, factor = map(torch.from_numpy, _channels(call))
    window = torch.from_numpy(call.data)[_window(call)]
    moved = window.movedim(-1, -3).flip(-1).float()
    return moved.sub_(mean[:, None, None]).mul_(factor[:, None, None]).contiguous().numpy()


def cv_normalize_crop(call: Call) -> Array:
    call.only("HWC", "FHWC")
    mean, factor = _channels(call)
    window = call.data[_window(call)]
    frames = window[None] if call.layout == "HWC" else window
    made = np.empty((len(frames), 3, *frames.shape[1:3]), np.float32)
    for frame, target in zip(frames, made, strict=True):
        planes = cv2.split(cv2.flip(frame, 1))
        for plane, out, scale, center in zip(planes, target, factor.tolist(), mean.tolist(), strict=True):
            if plane.dtype == np.float32:
                np.multiply(np.subtract(plane, center, out=out), scale, out=out)
            else:
                cv2.addWeighted(plane, scale, plane, 0, -center * scale, out, cv2.CV_32F)
    return made[0] if call.layout == "HWC" else made


def torch_normalize(call: Call) -> Array:
    data = torch.from_numpy(call.data).float()
    if (mean := call.get("mean")) is not None:
        return data.sub(mean).mul_(1 / call.get("stddev")).numpy()
    axes = call.get("axes", tuple(range(data.ndim)))
    std, center = torch.std_mean(data, tuple(axes), correction=0, keepdim=True)
    return data.sub(center).div_(std).numpy()


def cv_normalize(call: Call) -> Array:
    if call.get("mean") is not None or call.layout not in ("HWC", "DHWC"):
        raise NotImplementedError
    whole = "axes" not in call.arguments
    flat = call.data.reshape(call.data.shape[0], -1) if whole else call.data
    mean, std = cv2.meanStdDev(flat)
    made = cv2.subtract(flat, mean[0, 0] if whole else tuple(mean[:, 0]), dtype=cv2.CV_32F)
    if whole:
        return cv2.multiply(made, 1 / std[0, 0]).reshape(call.data.shape)
    return cv2.multiply(made, tuple(1 / std[:, 0]))


def torch_reduce(name: str) -> Callable[[Call], Array]:
    def work(call: Call) -> Array:
        data = torch.from_numpy(call.data)
        axes = tuple(call.get("axes", range(data.ndim)))
        if name == "sum":
            return data.sum(axes).numpy()
        if name == "max":
            return data.amax(axes).numpy()
        return data.mean(axes, dtype=torch.float32).numpy()

    return work


def numpy_reduce(name: str) -> Callable[[Call], Array]:
    def work(call: Call) -> Array:
        axes = tuple(call.get("axes", range(call.data.ndim)))
        if name == "max":
            return np.asarray(call.data.max(axes))
        if name == "sum":
            return np.asarray(call.data.sum(axes))
        return np.asarray(call.data.mean(axes, dtype=np.float32))

    return work


def cv_reduce(name: str) -> Callable[[Call], Array]:
    def work(call: Call) -> Array:
        call.only("HWC")
        whole = "axes" not in call.arguments
        data = call.data.reshape(call.data.shape[0], -1) if whole else call.data
        if name == "max":
            if not whole:
                raise NotImplementedError
            return np.asarray(cv2.minMaxLoc(data)[1])
        found = cv2.sumElems(data) if name == "sum" else cv2.mean(data)
        return np.asarray(found[0] if whole else found[:3], np.float32)

    return work


def _linear(call: Call) -> tuple[float, float]:
    """Return the factor and the offset of brightness_contrast."""
    brightness, contrast = float(call.get("brightness", 1.0)), float(call.get("contrast", 1.0))
    center = call.get("contrast_center", 128.0)
    return brightness * contrast, brightness * (center - center * contrast)


def cv_linear(call: Call) -> Array:
    factor, offset = _linear(call)
    flat = call.data.reshape(call.data.shape[0], -1)
    if call.data.dtype == np.uint8:
        table = np.clip(np.arange(256) * factor + offset + 0.5, 0, 255).astype(np.uint8)
        return cv2.LUT(flat, table).reshape(call.data.shape)
    return cv2.addWeighted(flat, factor, flat, 0, offset).reshape(call.data.shape)


def torch_linear(call: Call) -> Array:
    factor, offset = _linear(call)
    return _back(torch.from_numpy(call.data).float().mul(factor).add_(offset), call.data.dtype).numpy()


def cv_colors(call: Call) -> Array:
    """Apply the matrix of color_twist."""
    call.only("HWC", "FHWC")
    matrix, offset = _colors(call)
    whole = np.concatenate([matrix, offset[:, None]], 1).astype(np.float32)
    return call.frames(lambda image: cv2.transform(image, whole))


@cache
def _color_matrix(
    hue: float, saturation: float, brightness: float, contrast: float, center: float
) -> tuple[Array, Array]:
    to_yiq = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    angle = math.radians(hue)
    cos, sin = saturation * math.cos(angle), saturation * math.sin(angle)
    turn = np.array([[1, 0, 0], [0, cos, sin], [0, -sin, cos]])
    matrix = brightness * contrast * np.linalg.inv(to_yiq) @ turn @ to_yiq
    return matrix, np.full(3, brightness * center * (1 - contrast))


def _colors(call: Call) -> tuple[Array, Array]:
    values = (float(call.get(name)) for name in ("hue", "saturation", "brightness", "contrast"))
    return _color_matrix(*values, 0.5 if call.data.dtype.kind == "f" else 128.0)


def torch_colors(call: Call) -> Array:
    call.only("HWC", "FHWC")
    matrix, offset = _colors(call)
    data = torch.from_numpy(call.data).float()
    made = functional.linear(data, *(torch.from_numpy(each.astype(np.float32)) for each in (matrix, offset)))
    return _back(made, call.data.dtype).numpy()


def cv_color_space(call: Call) -> Array:
    if call.get("output_type") == "GRAY":
        return cv2.cvtColor(call.data, cv2.COLOR_RGB2GRAY)[..., None]
    if call.get("output_type") == "BGR":
        return cv2.cvtColor(call.data, cv2.COLOR_RGB2BGR)
    full = 255.0 if call.data.dtype == np.uint8 else 1.0
    matrix = np.array([
        [0.25678824, 0.50412941, 0.09790588, 16 / 255 * full],
        [-0.14822290, -0.29099279, 0.43921569, 128 / 255 * full],
        [0.43921569, -0.36778831, -0.07142737, 128 / 255 * full],
    ])  # fmt: skip
    return cv2.transform(call.data, matrix.astype(np.float32))


def cv_lookup(call: Call) -> Array:
    return cv2.LUT(call.data, np.arange(255, -1, -1, dtype=np.uint8))


def cv_equalize(call: Call) -> Array:
    return cv2.merge([cv2.equalizeHist(plane) for plane in cv2.split(call.data)])


def cv_clahe(call: Call) -> Array:
    tiles = call.get("tiles_x"), call.get("tiles_y")
    return cv2.createCLAHE(call.get("clip_limit"), tiles).apply(call.data)[..., None]


def cv_debayer(call: Call) -> Array:
    return cv2.cvtColor(call.data, cv2.COLOR_BayerRG2RGB)


def cv_jpeg(call: Call) -> Array:
    bgr = cv2.cvtColor(call.data, cv2.COLOR_RGB2BGR)
    encoded = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, call.get("quality")])[1]
    return cv2.imdecode(encoded, cv2.IMREAD_COLOR_RGB)


def torch_points(call: Call) -> Array:
    matrix, offset = np.array(call.get("M"), np.float32).reshape(2, 2), np.array(call.get("T"), np.float32)
    return functional.linear(*map(torch.from_numpy, (call.data, matrix, offset))).numpy()


def torch_one_hot(call: Call) -> Array:
    return functional.one_hot(torch.from_numpy(call.data).long(), call.get("num_classes")).float().numpy()


# Files


def cv_decode(call: Call) -> Array:
    return cv2.imdecode(call.data, cv2.IMREAD_COLOR_RGB)


def soundfile_decode(call: Call) -> Array:
    import soundfile

    return soundfile.read(io.BytesIO(call.data.tobytes()), dtype="float32")[0]


# Audio


def _rates(call: Call) -> tuple[float, float]:
    return (1.0, call.get("scale")) if "scale" in call.arguments else (call.get("in_rate"), call.get("out_rate"))


def soxr_resample(call: Call) -> Array:
    made: Array = soxr.resample(call.data, *_rates(call), quality="HQ")
    return made


def scipy_resample(call: Call) -> Array:
    if "scale" in call.arguments or call.data.dtype != np.float32:
        raise NotImplementedError
    ratio = Fraction(int(call.get("out_rate")), int(call.get("in_rate")))
    made: Array = scipy.signal.resample_poly(call.data, ratio.numerator, ratio.denominator, axis=0)
    return made


@cache
def _hann(length: int) -> Array:
    """Return the window of the operators, whose first value isn't 0."""
    return np.float32(0.5) * (1 - np.cos(2 * np.pi * (np.arange(length, dtype=np.float32) + np.float32(0.5)) / length))


def torch_spectrogram(call: Call) -> Array:
    length, step, bins = call.get("window_length"), call.get("window_step"), call.get("nfft")
    windows = torch.from_numpy(call.data).unfold(0, length, step) * torch.from_numpy(_hann(length).astype(np.float32))
    return torch.view_as_real(torch.fft.rfft(windows, bins)).square().sum(-1).T.contiguous().numpy()


def scipy_spectrogram(call: Call) -> Array:
    length, step = call.get("window_length"), call.get("window_step")
    windows = np.lib.stride_tricks.sliding_window_view(call.data, length)[::step] * _hann(length).astype(np.float32)
    found = scipy.fft.rfft(windows, call.get("nfft"))
    return np.ascontiguousarray((found.real**2 + found.imag**2).T)


def scipy_power(call: Call) -> Array:
    found = scipy.fft.rfft(call.data)
    return np.asarray(found.real**2 + found.imag**2)


def torch_power(call: Call) -> Array:
    return torch.view_as_real(torch.fft.rfft(torch.from_numpy(call.data))).square().sum(-1).numpy()


@cache
def _mel(bins: int, rate: float) -> Array:
    return mel_filters(bins, 128, rate, 0.0, rate / 2, "slaney", normalize=True).weights


def torch_mel(call: Call) -> Array:
    weights = _mel(len(call.data), call.get("sample_rate"))
    return torch.mm(torch.from_numpy(weights), torch.from_numpy(call.data)).numpy()


def scipy_mfcc(call: Call) -> Array:
    return np.ascontiguousarray(scipy.fft.dct(call.data, axis=0, norm="ortho")[: call.get("n_mfcc")])


def torch_decibels(call: Call) -> Array:
    return torch.from_numpy(call.data).clamp(min=1e-8).log10_().mul_(10).numpy()


def numpy_decibels(call: Call) -> Array:
    made = np.maximum(call.data, np.float32(1e-8))
    np.log10(made, out=made)
    return np.multiply(made, np.float32(10), out=made)


def scipy_emphasis(call: Call) -> Array:
    made: Array = scipy.signal.lfilter(np.array([1, -0.97], np.float32), np.ones(1, np.float32), call.data)
    made[0] -= np.float32(0.97) * call.data[0]
    return made


def numpy_emphasis(call: Call) -> Array:
    made = np.empty_like(call.data)
    made[0] = call.data[0] * np.float32(1 - 0.97)
    np.subtract(call.data[1:], np.float32(0.97) * call.data[:-1], out=made[1:])
    return made


# Random numbers


def torch_gaussian_noise(call: Call) -> Array:
    data = torch.from_numpy(call.data).float()
    return _back(data.add_(torch.randn(data.shape), alpha=call.get("stddev")), call.data.dtype).numpy()


def cv_gaussian_noise(call: Call) -> Array:
    noise = np.empty(call.data.shape, np.float32)
    cv2.randn(noise, 0, call.get("stddev"))
    return cv2.add(call.data, noise, dtype=cv2.CV_8U)


def torch_salt_and_pepper(call: Call) -> Array:
    height, width, _ = call.data.shape
    drawn, data = torch.rand(height, width, 1), torch.from_numpy(call.data)
    return torch.where(drawn < 0.025, 0, torch.where(drawn > 0.975, 255, data)).to(torch.uint8).numpy()


def torch_shot(call: Call) -> Array:
    factor = call.get("factor")
    return _back(torch.poisson(torch.from_numpy(call.data).float() / factor).mul_(factor), call.data.dtype).numpy()


def torch_normal(call: Call) -> Array:
    return torch.randn(tuple(call.get("shape", ()))).numpy()


def numpy_normal(call: Call) -> Array:
    return np.asarray(_GENERATOR.standard_normal(tuple(call.get("shape", ())), np.float32))


def torch_uniform(call: Call) -> Array:
    low, high = call.get("range")
    return torch.rand(tuple(call.get("shape", ()))).mul_(high - low).add_(low).numpy()


def numpy_beta(call: Call) -> Array:
    return _GENERATOR.beta(call.get("alpha"), call.get("beta"), call.get("shape")).astype(np.float32)


def torch_choice(call: Call) -> Array:
    return torch.randint(0, 100, tuple(call.get("shape"))).numpy()


def torch_coin(call: Call) -> Array:
    return (torch.rand(()) < 0.5).int().numpy()


_GENERATOR = np.random.default_rng(0)

EQUIVALENTS: dict[str, dict[str, Callable[[Call], Array]]] = {
    "resize": {"opencv": cv_resize, "torch": torch_resize, "scipy": scipy_resize},
    "rotate": {"opencv": cv_warp, "torch": torch_warp, "scipy": scipy_warp},
    "warp_affine": {"opencv": cv_warp, "torch": torch_warp, "scipy": scipy_warp},
    "experimental.warp_perspective": {"opencv": cv_perspective},
    "experimental.remap": {"opencv": cv_remap},
    "gaussian_blur": {"opencv": cv_gaussian, "torch": torch_gaussian, "scipy": scipy_gaussian},
    "laplacian": {"opencv": cv_laplacian},
    "filter": {"opencv": cv_filter, "torch": torch_filter},
    "experimental.median_blur": {"opencv": lambda call: cv2.medianBlur(call.data, 3)},
    "experimental.dilate": {"opencv": lambda call: cv2.dilate(call.data, np.ones((3, 3), np.uint8))},
    "experimental.erode": {"opencv": lambda call: cv2.erode(call.data, np.ones((3, 3), np.uint8))},
    "crop": {"numpy": numpy_crop, "torch": torch_crop},
    "slice": {"numpy": numpy_crop, "torch": torch_crop},
    "flip": {"opencv": cv_flip, "torch": torch_flip, "numpy": numpy_flip},
    "pad": {"opencv": cv_pad, "numpy": numpy_pad},
    "paste": {"numpy": numpy_paste},
    "erase": {"numpy": numpy_erase},
    "transpose": {"opencv": cv_transpose, "torch": torch_transpose, "numpy": numpy_transpose},
    "cast": {"opencv": cv_cast, "torch": torch_cast},
    "cat": {"torch": torch_cat},
    "stack": {"torch": torch_stack, "numpy": numpy_stack},
    "crop_mirror_normalize": {"opencv": cv_normalize_crop, "torch": torch_normalize_crop},
    "normalize": {"opencv": cv_normalize, "torch": torch_normalize},
    **{f"reductions.{name}": {"opencv": cv_reduce(name), "torch": torch_reduce(name), "numpy": numpy_reduce(name)}
       for name in ("sum", "mean", "max")},
    "brightness_contrast": {"opencv": cv_linear, "torch": torch_linear},
    "color_twist": {"opencv": cv_colors, "torch": torch_colors},
    "color_space_conversion": {"opencv": cv_color_space},
    "lookup_table": {"opencv": cv_lookup},
    "equalize": {"opencv": cv_equalize},
    "clahe": {"opencv": cv_clahe},
    "debayer": {"opencv": cv_debayer},
    "jpeg_compression_distortion": {"opencv": cv_jpeg},
    "coord_transform": {"torch": torch_points},
    "one_hot": {"torch": torch_one_hot},
    "decoders.image": {"opencv": cv_decode},
    "decoders.audio": {"soundfile": soundfile_decode},
    "audio_resample": {"soxr": soxr_resample, "scipy": scipy_resample},
    "spectrogram": {"torch": torch_spectrogram, "scipy": scipy_spectrogram},
    "power_spectrum": {"torch": torch_power, "scipy": scipy_power},
    "mel_filter_bank": {"torch": torch_mel},
    "mfcc": {"scipy": scipy_mfcc},
    "to_decibels": {"torch": torch_decibels, "numpy": numpy_decibels},
    "preemphasis_filter": {"scipy": scipy_emphasis, "numpy": numpy_emphasis},
    "noise.gaussian": {"torch": torch_gaussian_noise, "opencv": cv_gaussian_noise},
    "noise.salt_and_pepper": {"torch": torch_salt_and_pepper},
    "noise.shot": {"torch": torch_shot},
    "random.normal": {"torch": torch_normal, "numpy": numpy_normal},
    "random.uniform": {"torch": torch_uniform},
    "random.beta": {"numpy": numpy_beta},
    "random.choice": {"torch": torch_choice},
    "random.coin_flip": {"torch": torch_coin},
}  # fmt: skip
"""The libraries' calls by operator."""
