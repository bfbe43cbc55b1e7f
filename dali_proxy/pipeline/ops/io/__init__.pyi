# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.io`."""

from typing import Any, Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Int
from dali_proxy.pipeline._annotations import Ints, Nodes
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass
from dali_proxy.pipeline.types import DALIImageType

from dali_proxy.pipeline.ops.io import file as file

__all__ = ['Video', 'file']

class Video(OperatorClass):
    """Returns single frames of videos, FHWC, for datasets that ask for frames at random. `fn.io.video` describes the arguments."""
    def __init__(
        self, *, fill_value: Ints = (0,), frames: Ints | DataNode | None = None,
        image_type: DALIImageType = DALIImageType.RGB,
        pad_mode: Literal['none', 'constant', 'edge', 'repeat', 'reflect_1001', 'symmetric', 'reflect_101', 'reflect'] = 'none',
        pool_bytes: Int = 1073741824, times: Floats | DataNode | None = None, tolerance: Float | None = None,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, source: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

