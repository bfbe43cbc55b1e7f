# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.io.file`."""

from builtins import bool as _bool
from dali_proxy.pipeline._annotations import Arrays, Data
from dali_proxy.pipeline._dynamic.devices import Device


__all__ = ['read']

def read(
    filepaths: Arrays | Data, /, *, dont_use_mmap: _bool = False, use_o_direct: _bool = False,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Reads files on the threads of the CPU stage. `fn.io.file.read` describes the arguments."""

