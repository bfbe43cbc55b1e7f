"""The table of transforms in docs/torchvision.md: `python -m docs.torchvision` writes it."""

from __future__ import annotations

import inspect
from pathlib import Path

from dali_proxy.pipeline import torchvision

__all__ = ["DIFFERENCES", "PAGE", "with_table"]

PAGE = Path(__file__).resolve().parent / "torchvision.md"
_START, _END = "<!-- table: python -m docs.torchvision -->", "<!-- end of the table -->"

_SAME = "same values"
_ONE = "values differ by at most 1"
_RANDOM = f"{_SAME}; other random numbers"

#: Each transform: the difference of its results from those of torchvision, for the same random numbers.
DIFFERENCES = {
    "AugMix": "as `AutoAugment`",
    "AutoAugment": "as its operations; equalization differs as in `RandomEqualize`",
    "CenterCrop": _SAME,
    "ColorJitter": f"{_ONE} (hues of PIL images by up to 10, because PIL rounds HSV to bytes). The order is "
    "brightness, contrast, saturation, hue, and not random",
    "Compose": "other functions get a dynamic tensor, and neither a PIL image nor a torch tensor",
    "ConvertImageDtype": _SAME,
    "ElasticTransform": f"{_ONE}, at the border by more, as in `RandomAffine`; other random numbers",
    "FiveCrop": _SAME,
    "GaussianBlur": _ONE,
    "GaussianNoise": f"{_RANDOM}; only floats",
    "Grayscale": f"{_SAME} for tensors; {_ONE} for PIL images, also in CMYK",
    "JPEG": "same, with the same version of libjpeg",
    "Lambda": "the function gets a dynamic tensor",
    "Normalize": f"{_SAME} up to float rounding. Integers are accepted, too, and the result is always float32",
    "PILToTensor": _SAME,
    "Pad": _SAME,
    "RGB": _SAME,
    "RandAugment": "as `AutoAugment`",
    "RandomAdjustSharpness": _SAME,
    "RandomAffine": "NEAREST: a pixel in a hundred may be its neighbour. BILINEAR: values differ by at most 1, at the "
    "border by more, because it is blended with `fill`; PIL doesn't blend",
    "RandomApply": "chosen for each image of a batch",
    "RandomAutocontrast": _ONE,
    "RandomChannelPermutation": f"{_RANDOM}; up to 6 channels",
    "RandomChoice": "chosen for each image of a batch",
    "RandomCrop": _RANDOM,
    "RandomEqualize": "only uint8; the histogram is equalized as in OpenCV: a few levels differ",
    "RandomErasing": "the rectangle is clamped to the image, and not drawn again; `inplace` isn't supported",
    "RandomGrayscale": "as `Grayscale`",
    "RandomHorizontalFlip": _RANDOM,
    "RandomInvert": _SAME,
    "RandomOrder": "chosen for each image of a batch",
    "RandomPerspective": "as `RandomAffine`",
    "RandomPhotometricDistort": "as `ColorJitter`",
    "RandomPosterize": f"{_SAME}; only uint8",
    "RandomResize": "as `Resize`",
    "RandomResizedCrop": "as `Resize`; filters read pixels beyond the window if the image continues there",
    "RandomRotation": "as `RandomAffine`",
    "RandomShortestSize": "as `Resize`",
    "RandomSolarize": _SAME,
    "RandomVerticalFlip": _RANDOM,
    "RandomZoomOut": _RANDOM,
    "Resize": "same sizes; values differ by 1, at the border by more (up to 21 where photographs of 1280 pixels shrink "
    "to 64): filters repeat the pixels of the border, and PIL leaves out what is beyond it. NEAREST takes the nearest "
    "pixel centre, as PIL and NEAREST_EXACT do. BICUBIC without antialiasing is the cubic filter of PIL (a = -0.5), "
    "and not that of torch (-0.75). LANCZOS works for tensors, too; BOX and HAMMING don't exist",
    "ScaleJitter": "as `Resize`",
    "TenCrop": _SAME,
    "ToDtype": f"{_SAME}; `dtype` is one type, without a dictionary",
    "ToImage": "returns a torch tensor",
    "ToPILImage": f"{_SAME}; only 8 bits",
    "ToPureTensor": "PIL images become tensors, too",
    "ToTensor": _SAME,
    "TrivialAugmentWide": "as `AutoAugment`",
}


def with_table(text: str) -> str:
    """Return the page with the current table."""
    before, _, rest = text.partition(_START)
    _, _, after = rest.partition(_END)
    rows = ["| transform | arguments | compared with torchvision |", "| --- | --- | --- |"]
    for name, difference in DIFFERENCES.items():
        parameters = inspect.signature(getattr(torchvision, name)).parameters
        arguments = ", ".join(
            each for each in parameters if each not in ("device", "num_threads", "batch_size", "pipeline_arguments")
        )
        rows.append(f"| `{name}` | {f'`{arguments}`' if arguments else ''} | {difference} |")
    functions = ", ".join(f"`{name}`" for name in torchvision.functional.__all__)
    return "\n".join([before + _START, *rows, "", f"Functions: {functions}.", _END]) + after


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
