"""Transforms of other libraries as functions of an operator: torchvision v2, Kornia and Albumentations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np


class LibraryTransform(ABC):
    """A transform of a library."""

    #: Framework of the arguments.
    framework: ClassVar[str] = "torch"

    def __init__(self, transform: Callable[..., Any]) -> None:
        self.transform = transform

    @abstractmethod
    def apply(self, inputs: Sequence[Any], names: Sequence[str | None], layouts: Sequence[str]) -> Any:
        """Return the results, in the same layouts, for one sample of each input together, or for lists of samples.

        Args:
            inputs: the samples, as arrays or tensors.
            names: what each input is: "image", "mask", "boxes" and so on; None for the usual order: image, mask.
            layouts: layouts of the inputs; an image without a layout is HWC.
        """


def _kind(number: int, name: str | None) -> str:
    return name or ("image" if number == 0 else "mask")


def _has_channels_last(value: Any, kind: str, layout: str) -> bool:
    if kind not in ("image", "mask", "video") or value.ndim < 3:
        return False
    return layout.endswith("C") if layout else True


class _Torchvision(LibraryTransform):
    def apply(self, inputs: Sequence[Any], names: Sequence[str | None], layouts: Sequence[str]) -> Any:
        import torch
        from torchvision import tv_tensors  # type: ignore[import-not-found,unused-ignore]

        kinds = [_kind(number, name) for number, name in enumerate(names)]
        moved = [_has_channels_last(*each) for each in zip(inputs, kinds, layouts, strict=True)]
        tensors = [each.movedim(-1, -3) if last else each for each, last in zip(inputs, moved, strict=True)]
        sizes = [each.shape[-2:] for each, kind in zip(tensors, kinds, strict=True) if kind in ("image", "mask")]
        wrapped: list[Any] = []
        for tensor, kind in zip(tensors, kinds, strict=True):
            if kind == "boxes":
                wrapped.append(tv_tensors.BoundingBoxes(tensor, format="XYXY", canvas_size=tuple(sizes[0])))
            else:
                tv_class = {"image": tv_tensors.Image, "mask": tv_tensors.Mask, "video": tv_tensors.Video}.get(kind)
                wrapped.append(tensor if tv_class is None else tv_class(tensor))
        returned = self.transform(*wrapped)
        results = returned if len(inputs) > 1 else (returned,)
        plain = [torch.as_tensor(each).as_subclass(torch.Tensor) for each in results]
        return tuple(
            each.movedim(-3, -1) if last and each.ndim > 2 else each for each, last in zip(plain, moved, strict=True)
        )


class _Kornia(LibraryTransform):
    def apply(self, inputs: Sequence[Any], names: Sequence[str | None], layouts: Sequence[str]) -> Any:
        import torch

        if inputs and isinstance(inputs[0], list):
            batches = self.apply([torch.stack(each) for each in inputs], names, layouts)
            return tuple(list(each.unbind()) for each in batches)
        single = inputs[0].ndim == (len(layouts[0]) or 3)
        prepared, backs = [], []
        for number, (tensor, name, layout) in enumerate(zip(inputs, names, layouts, strict=True)):
            value, back = _to_kornia(tensor[None] if single else tensor, _kind(number, name), layout)
            prepared.append(value)
            backs.append(back)
        returned = self.transform(*prepared)
        results = returned if len(inputs) > 1 else (returned,)
        return tuple(back(each)[0] if single else back(each) for back, each in zip(backs, results, strict=True))


def _to_kornia(tensor: Any, kind: str, layout: str) -> tuple[Any, Callable[[Any], Any]]:
    """Return a batch as float32 with the channels first, and a function that converts the result back.

    Images of integers become numbers from 0 to 1; masks keep their values.
    """
    import torch

    dtype = tensor.dtype
    if dtype.is_floating_point or kind not in ("image", "mask", "video"):
        scale = 1.0
    else:
        scale = float(torch.iinfo(dtype).max) if kind != "mask" else 1.0
    last = _has_channels_last(tensor[0], kind, layout)
    flat = kind == "mask" and tensor.ndim == 3  # HW
    value = tensor.movedim(-1, -3) if last else tensor[:, None] if flat else tensor

    def back(result: Any) -> Any:
        result = result.movedim(-3, -1) if last else result[:, 0] if flat else result
        if dtype.is_floating_point:
            return result.to(dtype)
        info = torch.iinfo(dtype)
        return (result * scale).round().clamp(info.min, info.max).to(dtype)

    return value.float() / scale, back


class _Albumentations(LibraryTransform):
    framework = "numpy"

    def apply(self, inputs: Sequence[Any], names: Sequence[str | None], layouts: Sequence[str]) -> Any:
        transform: Any = self.transform
        if hasattr(transform, "set_random_seed"):  # it has its own generators
            transform.set_random_seed(int(np.random.randint(1 << 31)))
        kinds = [_kind(number, name) for number, name in enumerate(names)]
        returned = transform(**dict(zip(kinds, inputs, strict=True)))
        results = [returned[kind] for kind in kinds]
        # `ToTensorV2` puts the channels first.
        return tuple(each.movedim(0, -1) if hasattr(each, "movedim") and each.ndim > 2 else each for each in results)


_LIBRARIES: dict[str, type[LibraryTransform]] = {
    "torchvision": _Torchvision,
    "kornia": _Kornia,
    "albumentations": _Albumentations,
}


def adapt(function: Callable[..., Any]) -> Callable[..., Any] | LibraryTransform:
    """Return a transform of a known library as a `LibraryTransform`, and any other function unchanged."""
    for each in type(function).__mro__:
        library = _LIBRARIES.get(each.__module__.partition(".")[0])
        if library is not None:
            return library(function)
    return function
