"""`Image`: what transforms process, and conversions from and to PIL images, torch tensors and dynamic tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image as pil

from dali_proxy.pipeline import dynamic
from dali_proxy.pipeline._dynamic.calling import subscript
from dali_proxy.pipeline._dynamic.dtypes import TYPES
from dali_proxy.pipeline._dynamic.values import Value, tracing
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

#: Dynamic mode. Its operators are created at run time, so type checkers don't know them.
ops: Any = dynamic

#: Modes of PIL images that transforms process, with the number of channels.
MODES = {"L": 1, "RGB": 3, "RGBA": 4, "CMYK": 4}
_MODES_OF_CHANNELS = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True)
class Image:
    """One image, or a batch of images, between two transforms. Its properties are known without its data.

    Attributes:
        data: a dynamic tensor or batch.
        layout: "HWC" for PIL images, "CHW" for torch tensors.
        channels: number of channels.
        dtype: name of the type of the elements.
        inks: whether the channels are those of a PIL image in CMYK, and not colors and alpha.
    """

    data: Any
    layout: str
    channels: int
    dtype: str
    inks: bool = False

    @property
    def batch_size(self) -> int | None:
        """The number of images; None for a single image."""
        return self.data.batch_size if isinstance(self.data, ops.Batch) else None

    @property
    def is_integer(self) -> bool:
        """Whether the elements are integers."""
        return np.dtype(self.dtype).kind in "iu"

    @property
    def bound(self) -> float:
        """The largest value of an element: white."""
        return float(np.iinfo(self.dtype).max) if self.is_integer else 1.0

    def size(self) -> tuple[Any, Any]:
        """Return the height and the width: integers on the CPU, one for each image."""
        shape = ops.shapes(self.data, dtype=ops.int32, device="cpu")
        row = self.layout.index("H")
        return subscript(shape, row), subscript(shape, row + 1)

    def channel(self, number: int, count: int = 1) -> Any:
        """Return the data of one channel, or several; the dimension remains."""
        key = [slice(None)] * 3
        key[self.layout.index("C")] = slice(number, number + count)
        return subscript(self.data, tuple(key))

    def per_channel(self, values: Any) -> Any:
        """Return one number for each channel, as an array that broadcasts against the data."""
        array = np.asarray(values, np.float32).reshape(-1)
        return self.beside(ops.as_tensor(array.reshape((-1, 1, 1) if self.layout == "CHW" else (1, 1, -1))))

    @property
    def on_gpu(self) -> bool:
        """Whether the data is on a GPU."""
        return bool(self.data.device.device_type == "gpu")

    def beside(self, value: Any) -> Any:
        """Return a number, or one for each image, on the device of the data, for arithmetic."""
        is_array = isinstance(value, dynamic.Tensor | dynamic.Batch)
        return value.gpu() if is_array and self.on_gpu else value

    def replaced(self, data: Any, **changes: Any) -> Image:
        """Return an image with other data and properties."""
        return replace(self, data=data, **changes)

    def transposed(self, layout: str) -> Image:
        """Return the image in a layout."""
        if layout == self.layout:
            return self
        order = [self.layout.index(axis) for axis in layout]
        return self.replaced(ops.transpose(self.data, perm=order), layout=layout)

    def rounded(self, values: Any) -> Image:
        """Return the image with float values in its own type: clamped, and truncated if it has integers."""
        values = ops.math.clamp(values, 0.0, self.bound)
        if self.is_integer:
            values = ops.math.floor(values)
        return self.replaced(ops.cast(values, dtype=ops.dtype(self.dtype)))


def vector(*values: Any) -> Any:
    """Return numbers as one argument of an operator: a list, or a tensor or batch if one of them is."""
    if not any(isinstance(value, ops.Tensor | ops.Batch) for value in values):
        return [float(value) for value in values]
    return ops.stack(*(ops.cast(_array(value), dtype=ops.float32) for value in values))


def _array(value: Any) -> Any:
    return value if isinstance(value, ops.Tensor | ops.Batch) else ops.as_tensor(np.float32(value))


def apply(function: Callable[[Image], Any], value: Any, encoded: bool = False) -> Any:
    """Call a function of images for the images of a user, and convert the results back.

    PIL images give PIL images, torch tensors give torch tensors, and dynamic tensors and batches give these. If the
    function changes the layout, PIL images become torch tensors, or the other way round.

    Args:
        function: function that returns an image, or a tuple of images.
        value: a PIL image, a torch tensor (CHW, or with dimensions in front), a dynamic tensor or batch, encoded bytes,
            or a list of PIL images or tensors.
        encoded: whether the function decodes images: then images in a trace, and bytes, have the layout "".

    Raises:
        ArgumentTypeError: the value is of another type.
    """
    if isinstance(value, Image):
        return function(value)
    image, restore = _accepted(value)
    if not encoded:
        image = decoded(image)
    if tracing.active() or ops.EvalMode.current() is not ops.EvalMode.eager:
        return _each(restore, function(image))
    with ops.EvalMode.deferred:  # all operators run together
        return _each(lambda result: restore(result.replaced(result.data.evaluate())), function(image))


def _each(restore: Callable[[Image], Any], result: Any) -> Any:
    return tuple(map(restore, result)) if isinstance(result, tuple) else restore(result)


def _accepted(value: Any) -> tuple[Image, Callable[[Image], Any]]:
    """Return the image of a value, and the function that converts results back."""
    if isinstance(value, ops.Tensor | ops.Batch):
        return from_dynamic(value), lambda image: image.data
    if isinstance(value, pil.Image):
        image = _described(ops.as_tensor(_pixels(value), layout="HWC"), "HWC", value.mode == "CMYK")
        return image, lambda image: _given_back(image, value.mode)
    if isinstance(value, bytes):
        return from_dynamic(ops.as_tensor(np.frombuffer(value, np.uint8))), _given_back
    if is_torch(value):
        return _from_torch(value)
    if isinstance(value, list) and value and all(isinstance(each, pil.Image) for each in value):
        modes = {each.mode for each in value}
        if "CMYK" in modes and len(modes) > 1:
            raise ArgumentValueError(f"the images have different modes: {', '.join(sorted(modes))}")
        images = ops.as_batch([_pixels(each) for each in value], layout="HWC")
        return _described(images, "HWC", "CMYK" in modes), _list_given_back
    if isinstance(value, list) and value and all(map(is_torch, value)):
        return _described(ops.as_batch(value, layout="CHW"), "CHW"), _list_given_back
    raise ArgumentTypeError(
        f"inpt should be Tensor or PIL Image. Got {type(value)}. Data type: {type(value)} is not supported; pass an "
        'array as dynamic.as_tensor(array, layout="HWC")'
    )


def _from_torch(value: Any) -> tuple[Image, Callable[[Image], Any]]:
    if value.ndim < 3:
        raise ArgumentTypeError(f"Tensor has < 3 dimensions: {value.ndim}, shape: {value.shape}")
    if value.ndim == 3:
        return _described(ops.as_tensor(value, layout="CHW"), "CHW"), _given_back
    outer = value.shape[:-3]
    if 0 in outer:
        raise ArgumentValueError(f"a batch needs at least one image, but the tensor has the shape {tuple(value.shape)}")
    data = ops.as_batch(value.reshape(-1, *value.shape[-3:]), layout="CHW")

    def restore(image: Image) -> Any:
        result = _given_back(image)
        return result if image.layout == "HWC" else result.reshape(*outer, *result.shape[1:])

    return _described(data, "CHW"), restore


def from_dynamic(data: Any) -> Image:
    """Return the image of a dynamic tensor or batch: HWC without a layout, and "" for tensors in a trace and bytes."""
    if tracing.active() and not data._value.known:
        return Image(data, "", 3, "uint8")
    layout = data.layout or "HWC"
    if data.ndim == 1:
        return Image(data, "", 0, "uint8")
    if data.ndim != 3 or layout not in ("HWC", "CHW"):
        raise ArgumentValueError(f"images must have the layout HWC or CHW, not {layout} with {data.ndim} dimensions")
    return _described(data if data.layout else type(data)(data, layout=layout), layout)


def decoded(image: Image, layout: str = "HWC") -> Image:
    """Return an image that a transform can process. In a trace, images without a layout are RGB and uint8.

    Raises:
        ArgumentTypeError: the image is encoded.
    """
    if image.layout:
        return image
    if not image.channels:
        raise ArgumentTypeError("transforms can't process encoded images: use dynamic.decoders.image in Compose first")
    return image.replaced(ops.reshape(image.data, layout=layout), layout=layout)


def _described(data: Any, layout: str, inks: bool = False) -> Image:
    shape = data.shape[0] if isinstance(data, ops.Batch) else data.shape
    dtype = next(name for name, each in TYPES.items() if each is data.dtype)
    return Image(data, layout, shape[layout.index("C")], dtype, inks)


def of_operator(data: Any, before: Image) -> Image:
    """Return the image of the result of a user's function. In a trace, it has the properties of the image before."""
    if isinstance(data, Image):
        return data
    if not isinstance(data, ops.Tensor | ops.Batch):
        raise ArgumentTypeError(
            f"a function in Compose returned {type(data).__name__}; it gets a dynamic tensor and must return one"
        )
    if not tracing.active() or data._value.known:
        return from_dynamic(data)
    return before.replaced(data) if before.layout else decoded(from_dynamic(data))


def is_torch(value: Any) -> bool:
    """Return whether a value is a torch tensor. Doesn't import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _pixels(image: pil.Image) -> np.ndarray[Any, Any]:
    if image.mode not in MODES:
        advice = (
            "pass a tensor, such as torch.from_numpy(np.array(image))[None]"
            if image.mode[0] in "IF"  # PIL clamps its values to 255
            else 'convert them with image.convert("RGB")'
        )
        raise ArgumentValueError(f"PIL images of mode {image.mode!r} are not supported: {advice}")
    array = np.asarray(image)
    return array[..., None] if array.ndim == 2 else array


def _given_back(image: Image, mode: str | None = None) -> Any:
    """Return a PIL image or a torch tensor; PIL images of a batch are a list."""
    mode = "CMYK" if image.inks else mode
    if image.layout == "CHW":
        return image.data.torch()
    if image.dtype != "uint8":
        raise ArgumentTypeError(f"a PIL image can't have values of {image.dtype}: convert it to a tensor, with ToImage")
    if isinstance(image.data, ops.Batch):
        return [to_pil(each.cpu().numpy(), mode) for each in image.data.tensors]
    return to_pil(image.data.cpu().numpy(), mode)


def _list_given_back(image: Image) -> Any:
    """Return a list of PIL images or torch tensors, which may differ in size."""
    return [each.torch() for each in image.data.tensors] if image.layout == "CHW" else _given_back(image)


def to_pil(array: np.ndarray[Any, Any], mode: str | None = None) -> pil.Image:
    """Return a PIL image over a copy of an HWC array.

    Args:
        array: pixels; floats are in the range from 0 to 1.
        mode: mode, if it has as many channels; by default L, RGB or RGBA.

    Raises:
        ArgumentValueError: there is no mode with so many channels.
    """
    channels = array.shape[-1]
    if array.dtype.kind == "f":
        array = (array * 255).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ArgumentTypeError(f"a PIL image needs uint8 or float values, not {array.dtype}: convert it to a tensor")
    if MODES.get(mode or "") != channels:
        mode = _MODES_OF_CHANNELS.get(channels)
    if mode is None:
        raise ArgumentValueError(f"Cannot infer PIL mode from {channels} channels. Pass mode explicitly.")
    return pil.frombytes(mode, array.shape[1::-1], np.ascontiguousarray(array).tobytes())


def unknown(tensor: Any) -> Any:
    """Return a tensor without data, for operators that are recorded and never run."""
    return ops.Tensor.from_value(Value(tensor._value.device, None, size=1))


def traced_tensor(node: Any) -> Any:
    """Return the tensor of a node of the graph that is traced."""
    return ops.Tensor.from_value(Value(node.device, None, node.source, node.index, 1))
