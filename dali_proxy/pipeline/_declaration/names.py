"""Names of operators in NVIDIA DALI's Python interface."""

from __future__ import annotations

#: Classes whose names have capitalized abbreviations in DALI.
_CLASS_NAMES = {
    "bbox_paste": "BBoxPaste",
    "bbox_rotate": "BBoxRotate",
    "coco": "COCO",
    "coco_reader": "COCOReader",
    "dl_tensor_python_function": "DLTensorPythonFunction",
    "mfcc": "MFCC",
    "mxnet": "MXNet",
    "mxnet_reader": "MXNetReader",
    "random_bbox_crop": "RandomBBoxCrop",
    "random_object_bbox": "RandomObjectBBox",
    "roi_random_crop": "ROIRandomCrop",
    "ssd_random_crop": "SSDRandomCrop",
    "tfrecord": "TFRecord",
    "tfrecord_reader": "TFRecordReader",
}


def class_name(path: str) -> str:
    """Return the name of an operator in `ops`: "decoders.image_crop" is "ImageCrop"."""
    name = path.rpartition(".")[2]
    return _CLASS_NAMES.get(name) or "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def schema_name(path: str) -> str:
    """Return the name of an operator in DALI's errors: "decoders.image_crop" is "decoders__ImageCrop"."""
    return "__".join([*path.split(".")[:-1], class_name(path)])
