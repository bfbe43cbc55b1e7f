"""Conversions between PIL images and tensors: functions and transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image as pil

from dali_proxy.pipeline._torchvision.color import to_dtype
from dali_proxy.pipeline._torchvision.declaration import transform
from dali_proxy.pipeline._torchvision.images import Image, apply, is_torch, ops, to_pil
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

__all__ = ["get_dimensions", "get_image_size", "get_size", "pil_to_tensor", "to_image", "to_pil_image", "to_tensor"]
__all__ += ["PILToTensor", "ToImage", "ToPILImage", "ToPureTensor", "ToTensor"]


@transform("ToImage")
def _to_image(image: Image) -> Image:
    """Return images as tensors, CHW. PIL images become torch tensors."""
    return image.transposed("CHW")


PILToTensor, ToPureTensor = (transform(name)(_to_image._function) for name in ("PILToTensor", "ToPureTensor"))


@transform("ToTensor")
def _to_tensor(image: Image) -> Image:
    """Return images as float tensors, CHW. The values of integers are scaled to the range from 0 to 1."""
    tensor = image.transposed("CHW")
    if not image.is_integer:
        return tensor
    return tensor.replaced(tensor.data / tensor.bound, dtype="float32")


@transform("ToPILImage")
def _to_pil_image(image: Image, mode: str | None = None) -> Image:
    """Return images as PIL images. In a served graph, they are HWC.

    Args:
        image: images.
        mode: accepted for compatibility: the number of channels determines the mode.
    """
    return (image if image.is_integer else to_dtype(image, "uint8", True)).transposed("HWC")


ToImage, ToTensor, ToPILImage = _to_image, _to_tensor, _to_pil_image


def _expect_pil(inpt: Any) -> None:
    if not isinstance(inpt, pil.Image):
        raise ArgumentTypeError(f"Expected PIL.Image, got {type(inpt)}")


def pil_to_tensor(inpt: pil.Image) -> Any:
    """Return a PIL image as a CHW torch tensor of uint8."""
    _expect_pil(inpt)
    return PILToTensor()(inpt)


def to_image(inpt: Any) -> Any:
    """Return a PIL image or an HWC array as a CHW torch tensor; tensors stay unchanged."""
    if isinstance(inpt, np.ndarray):
        inpt = ops.as_tensor(inpt if inpt.ndim == 3 else inpt[..., None], layout="HWC")
        return ToImage()(inpt).torch()
    return inpt if is_torch(inpt) else ToImage()(inpt)


def to_tensor(inpt: Any) -> Any:
    """Return a PIL image or an HWC array as a CHW torch tensor of floats from 0 to 1."""
    if isinstance(inpt, np.ndarray):
        inpt = ops.as_tensor(inpt if inpt.ndim == 3 else inpt[..., None], layout="HWC")
        return ToTensor()(inpt).torch()
    _expect_pil(inpt)
    return ToTensor()(inpt)


def to_pil_image(inpt: Any, mode: str | None = None, input_layout: str = "CHW") -> pil.Image:
    """Return a torch tensor, or an HWC array, as a PIL image.

    Args:
        inpt: the tensor; floats are in the range from 0 to 1.
        mode: mode of the image; by default L, RGB or RGBA.
        input_layout: layout of the tensor, CHW or HWC.
    """
    if not is_torch(inpt):
        raise ArgumentTypeError(f"Expected torch.Tensor, got {type(inpt)}")
    if inpt.ndim != 3:
        raise ArgumentValueError(f"Expected 3-D {input_layout} tensor, got shape {tuple(inpt.shape)}")
    array = inpt.detach().cpu().numpy()
    return to_pil(array.transpose(1, 2, 0) if input_layout == "CHW" else array, mode)


def get_dimensions(inpt: Any) -> list[int]:
    """Return the number of channels, the height and the width of a PIL image or a tensor."""
    if isinstance(inpt, pil.Image):
        return [len(inpt.getbands()), inpt.height, inpt.width]
    if is_torch(inpt):
        return [inpt.shape[-3] if inpt.ndim > 2 else 1, *inpt.shape[-2:]]
    if isinstance(inpt, ops.Tensor):
        sizes: list[list[int]] = []

        def measured(image: Image) -> Image:
            height, width = image.size()
            sizes.append([image.channels, int(height), int(width)])
            return image

        apply(measured, inpt)
        return sizes[0]
    raise ArgumentTypeError(f"Unsupported input type: {type(inpt)}.")


def get_size(inpt: Any) -> list[int]:
    """Return the height and the width of a PIL image or a tensor."""
    return get_dimensions(inpt)[1:]


def get_image_size(inpt: Any) -> list[int]:
    """Return the width and the height of a PIL image or a tensor."""
    return get_size(inpt)[::-1]
