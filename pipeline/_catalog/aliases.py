"""Deprecated names of operators, as in NVIDIA DALI."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipeline._declaration.registry import lookup, register
from pipeline._declaration.schema import OperatorSchema
from pipeline._graph.nodes import apply_operator
from pipeline._operator_api.functions import make_function

__all__ = ["ALIASES", "register_aliases"]

#: Names of operators by their deprecated names.
ALIASES = {
    "audio_decoder": "decoders.audio",
    "caffe2_reader": "readers.caffe2",
    "caffe_reader": "readers.caffe",
    "coco_reader": "readers.coco",
    "coin_flip": "random.coin_flip",
    "experimental.audio_resample": "audio_resample",
    "experimental.decoders.image": "decoders.image",
    "experimental.decoders.image_crop": "decoders.image_crop",
    "experimental.decoders.image_random_crop": "decoders.image_random_crop",
    "experimental.decoders.image_slice": "decoders.image_slice",
    "experimental.inflate": "decoders.inflate",
    "experimental.peek_image_shape": "peek_image_shape",
    "file_reader": "readers.file",
    "image_decoder": "decoders.image",
    "image_decoder_crop": "decoders.image_crop",
    "image_decoder_random_crop": "decoders.image_random_crop",
    "image_decoder_slice": "decoders.image_slice",
    "mxnet_reader": "readers.mxnet",
    "nemo_asr_reader": "readers.nemo_asr",
    "normal_distribution": "random.normal",
    "numpy_reader": "readers.numpy",
    "sequence_reader": "readers.sequence",
    "tfrecord_reader": "readers.tfrecord",
    "transform_translation": "transforms.translation",
    "uniform": "random.uniform",
    "video_reader": "readers.video",
    "video_reader_resize": "readers.video_resize",
}


def register_aliases() -> None:
    """Add the deprecated names to the registry. The operators must already be registered."""
    for name, target in ALIASES.items():
        schema = lookup(target)
        declared = replace(schema, name=name, doc=f"Deprecated name of `fn.{target}`.", function=None, alias_of=target)
        register(replace(declared, function=_function(declared, schema)))


def _function(declared: OperatorSchema, schema: OperatorSchema) -> Callable[..., Any]:
    """Return the function of a deprecated name. It warns and calls the operator."""

    def function(*inputs: Any, **arguments: Any) -> Any:
        warnings.warn(f"fn.{declared.name} is deprecated: use fn.{schema.name}", DeprecationWarning, stacklevel=2)
        if schema.function is not None:
            return schema.function(*inputs, **arguments)
        return apply_operator(schema.name, inputs, arguments)

    shown = make_function(declared)
    function.__name__, function.__qualname__, function.__doc__ = shown.__name__, shown.__qualname__, shown.__doc__
    function.__signature__ = inspect.signature(shown)  # type: ignore[attr-defined]
    return function
