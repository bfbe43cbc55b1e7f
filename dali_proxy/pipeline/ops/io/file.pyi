# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.io.file`."""

from builtins import bool as _bool
from typing import Any
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike
from dali_proxy.pipeline._annotations import Nodes
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass


__all__ = ['Read']

class Read(OperatorClass):
    """Reads files on the threads of the CPU stage. `fn.io.file.read` describes the arguments."""
    def __init__(
        self, *, dont_use_mmap: _bool = False, use_o_direct: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, filepaths: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

