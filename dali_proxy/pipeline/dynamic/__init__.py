"""Dynamic mode: the operators as functions that run when they are called, on tensors and batches.

Example:
    >>> import numpy as np
    >>> from dali_proxy import dynamic
    >>> image = dynamic.tensor(np.zeros((4, 6, 3), np.uint8), layout="HWC")
    >>> dynamic.resize(image, size=(2, 3)).shape
    (2, 3, 3)
"""

import sys
from typing import Any

from dali_proxy.pipeline import fn as _fn
from dali_proxy.pipeline._catalog import all_schemas, fill_namespace
from dali_proxy.pipeline._declaration.names import class_name
from dali_proxy.pipeline._declaration.suggestions import missing_operator
from dali_proxy.pipeline._dynamic.arrays import Batch, Tensor
from dali_proxy.pipeline._dynamic.context import (
    EvalContext,
    EvalMode,
    ThreadPool,
    get_current_stream,
    get_num_threads,
    set_current_stream,
    set_num_threads,
)
from dali_proxy.pipeline._dynamic.creation import as_batch, as_tensor, batch, tensor
from dali_proxy.pipeline._dynamic.devices import Device
from dali_proxy.pipeline._dynamic.devices import as_device as device
from dali_proxy.pipeline._dynamic.dtypes import TYPES, DType, dtype, type_id
from dali_proxy.pipeline._dynamic.functions import imread, is_function, make_dynamic_function, video
from dali_proxy.pipeline._dynamic.randomness import RNG, SampleRNG, get_default_rng, set_seed
from dali_proxy.pipeline._dynamic.readers import make_reader
from dali_proxy.pipeline._dynamic.source import ExternalSource
from dali_proxy.pipeline._dynamic.streams import Stream, get_default_stream, set_default_stream, stream
from dali_proxy.pipeline._dynamic.trace import trace
from dali_proxy.pipeline._dynamic.values import TracingError
from dali_proxy.pipeline.dynamic import checkpoint, math, pytorch


def _graph_function(path: str) -> Any:
    found: Any = _fn
    for name in path.split("."):
        found = getattr(found, name)
    return found


_operators = fill_namespace(
    __name__,
    [schema for schema in all_schemas() if is_function(schema)],
    lambda schema: make_dynamic_function(schema, _graph_function(schema.name)),
    lambda path: path.rpartition(".")[2],
)
_readers = fill_namespace(
    __name__, [schema for schema in all_schemas() if schema.is_reader and not schema.alias_of], make_reader, class_name
)
for _name, _module in _readers.items():  # readers, and those below `experimental`
    if _name in _operators:
        vars(_operators[_name]).update({key: value for key, value in vars(_module).items() if key[:2] != "__"})
        sys.modules[f"{__name__}.{_name}"] = _operators[_name]
    else:
        _operators[_name] = _module
_randomness = {"RNG": RNG, "SampleRNG": SampleRNG, "get_default_rng": get_default_rng, "set_seed": set_seed}
vars(_operators["random"]).update(_randomness)
globals().update(TYPES)
globals().update(_operators)

__all__ = [
    "Batch",
    "DType",
    "Device",
    "EvalContext",
    "EvalMode",
    "ExternalSource",
    "Stream",
    "Tensor",
    "ThreadPool",
    "TracingError",
    "as_batch",
    "as_tensor",
    "batch",
    "checkpoint",
    "device",
    "dtype",
    "get_current_stream",
    "get_default_stream",
    "get_num_threads",
    "imread",
    "math",
    "pytorch",
    "set_current_stream",
    "set_default_stream",
    "set_num_threads",
    "stream",
    "tensor",
    "trace",
    "type_id",
    "video",
]
__all__ += sorted({*_operators, *TYPES})


def __getattr__(name: str) -> Any:
    raise missing_operator(__name__, name, [schema.name for schema in all_schemas() if is_function(schema)])
