# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.io.file`."""

from builtins import bool as _bool
from typing import Any
from dali_proxy.pipeline._annotations import ConstantLike, Int, Ints
from dali_proxy.pipeline._annotations import Nodes
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass


__all__ = ['Read']

class Read(OperatorClass):
    """Reads files on the threads of the CPU stage. `fn.io.file.read` describes the arguments."""
    def __init__(
        self, *, dont_use_mmap: _bool = False, use_o_direct: _bool = False, device: str | None = None,
        name: str | None = None, bytes_per_sample_hint: Ints | None = None, preserve: _bool = False,
        seed: Int = -1,
    ) -> None: ...
    def __call__(self, filepaths: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

