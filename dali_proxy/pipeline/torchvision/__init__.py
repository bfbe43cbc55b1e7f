"""Transforms with the names, arguments and semantics of `torchvision.transforms.v2`, as operators of this project.

Example:
    >>> from PIL import Image
    >>> from dali_proxy.torchvision import CenterCrop, Compose, PILToTensor, Resize
    >>> Compose([Resize(32), CenterCrop(24), PILToTensor()])(Image.new("RGB", (80, 60))).shape
    torch.Size([3, 24, 24])
"""

from typing import Any

from dali_proxy.pipeline._torchvision import automatic, containers, conversion, elastic, transforms
from dali_proxy.pipeline._torchvision.arguments import InterpolationMode
from dali_proxy.pipeline._torchvision.automatic import AutoAugmentPolicy
from dali_proxy.pipeline._torchvision.containers import Compose
from dali_proxy.pipeline._torchvision.declaration import Transform
from dali_proxy.pipeline.torchvision import functional

__all__ = ["AutoAugmentPolicy", "Compose", "InterpolationMode", "functional"]

_transforms: dict[str, Any] = {
    each.__name__: each
    for module in (automatic, containers, conversion, elastic, transforms)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Transform) and each is not Transform
}
globals().update(_transforms)
__all__ += sorted(_transforms)
