"""Names of operators in NVIDIA DALI's Python interface."""

from __future__ import annotations

__all__ = ["class_name", "schema_name"]

#: Classes whose names have capitalized abbreviations in DALI.
_CLASS_NAMES = {
    "coco": "COCO",
    "dl_tensor_python_function": "DLTensorPythonFunction",
    "random_bbox_crop": "RandomBBoxCrop",
}


def class_name(path: str) -> str:
    """Return the name of an operator in `ops`: "decoders.image_crop" is "ImageCrop"."""
    name = path.rpartition(".")[2]
    return _CLASS_NAMES.get(name) or "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def schema_name(path: str) -> str:
    """Return the name of an operator in DALI's errors: "decoders.image_crop" is "decoders__ImageCrop"."""
    return "__".join([*path.split(".")[:-1], class_name(path)])
