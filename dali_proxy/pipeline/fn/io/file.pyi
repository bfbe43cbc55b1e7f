# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.io.file`."""

from builtins import bool as _bool
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike
from dali_proxy.pipeline._annotations import Nodes


__all__ = ['read']

def read(
    filepaths: Nodes | ConstantLike, /, *, dont_use_mmap: _bool = False, use_o_direct: _bool = False,
    **common: Unpack[Common],
) -> Nodes:
    """Reads files on the threads of the CPU stage.

    Pass a path to a proxy, or to the function in `dynamic`, as a string, a `Path` or its bytes. The data of a pipeline is a
    1-D array of its bytes: `np.frombuffer(os.fsencode(path), np.uint8)`. Relative paths are those of this
    process, or of the dataset that passes them to a server's proxy. The output is the file's bytes. URLs such as
    `s3://bucket/key` are read through fsspec, many at once (`pip install 'dali-proxy[remote]'`).

    Devices: cpu.

    Args:
        filepaths: Paths, as 1-D uint8 or int8 arrays of their bytes.
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never memory-mapped.
        use_o_direct (bool, default False): Accepted for compatibility.
        device (str): device of the operator; by default that of its inputs.
    """

