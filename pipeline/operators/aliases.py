"""Old names of operators, which NVIDIA DALI still has and warns of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipeline.graph.nodes import apply_operator
from pipeline.operators.registry import lookup, register
from pipeline.operators.schema import OperatorSchema

__all__ = ["ALIASES", "register_aliases"]

#: By the old name.
ALIASES = {
    "coco_reader": "readers.coco",
    "coin_flip": "random.coin_flip",
    "experimental.decoders.image": "decoders.image",
    "experimental.decoders.image_crop": "decoders.image_crop",
    "experimental.decoders.image_random_crop": "decoders.image_random_crop",
    "experimental.decoders.image_slice": "decoders.image_slice",
    "experimental.peek_image_shape": "peek_image_shape",
    "experimental.readers.video": "readers.video",
    "file_reader": "readers.file",
    "image_decoder": "decoders.image",
    "image_decoder_crop": "decoders.image_crop",
    "image_decoder_random_crop": "decoders.image_random_crop",
    "image_decoder_slice": "decoders.image_slice",
    "normal_distribution": "random.normal",
    "numpy_reader": "readers.numpy",
    "sequence_reader": "readers.sequence",
    "transform_translation": "transforms.translation",
    "uniform": "random.uniform",
    "video_reader": "readers.video",
    "video_reader_resize": "readers.video_resize",
}


def register_aliases() -> None:
    """Add the old names to the registry, after the operators that they stand for."""
    for name, target in ALIASES.items():
        schema = lookup(target)
        register(
            replace(
                schema,
                name=name,
                doc=f"An old name of `fn.{target}`.",
                function=_function(name, schema),
                alias_of=target,
            )
        )


def _function(name: str, schema: OperatorSchema) -> Callable[..., Any]:
    def function(*inputs: Any, **arguments: Any) -> Any:
        warnings.warn(f"fn.{name} is an old name: use fn.{schema.name}", DeprecationWarning, stacklevel=2)
        if schema.function is not None:
            return schema.function(*inputs, **arguments)
        return apply_operator(schema.name, inputs, arguments)

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"An old name of `fn.{schema.name}`."
    return function
