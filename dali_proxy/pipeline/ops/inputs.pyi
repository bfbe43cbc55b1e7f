# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.inputs`."""

from builtins import bool as _bool
from typing import Any, Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, Int
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass


__all__ = ['Video']

class Video(OperatorClass):
    """Decodes a video in batches of sequences, to FHWC. `fn.inputs.video` describes the arguments."""
    def __init__(
        self, *, affine: _bool | None = None, blocking: _bool = False,
        last_sequence_policy: Literal['partial', 'pad'] = 'partial', no_copy: _bool = False, sequence_length: Int,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, **arguments: Any) -> DataNode: ...

