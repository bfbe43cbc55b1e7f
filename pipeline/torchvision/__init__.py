"""Transforms with the names, arguments and semantics of `torchvision.transforms.v2`, built from this project's operators.

Example:
    >>> from PIL import Image
    >>> from pipeline.torchvision import CenterCrop, Compose, PILToTensor, Resize
    >>> Compose([Resize(32), CenterCrop(24), PILToTensor()])(Image.new("RGB", (80, 60))).shape
    torch.Size([3, 24, 24])
"""

from pipeline._torchvision import automatic, containers, conversion, transforms
from pipeline._torchvision.arguments import InterpolationMode
from pipeline._torchvision.declaration import Transform
from pipeline.torchvision import functional

_modules = (automatic, containers, conversion, transforms)
_transforms = {
    each.__name__: each
    for module in _modules
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Transform | containers.Compose) and each is not Transform
}
_transforms["AutoAugmentPolicy"] = automatic.AutoAugmentPolicy
globals().update(_transforms)
__all__ = sorted({*_transforms, "InterpolationMode", "functional"})
