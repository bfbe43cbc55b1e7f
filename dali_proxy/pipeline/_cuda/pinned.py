"""Pinned host memory: pins existing allocations, so that the GPU copies from them without another copy on the host."""

from __future__ import annotations

import logging
import os
from typing import Any

from dali_proxy.pipeline._arrays import Bytes
from dali_proxy.pipeline._cuda.errors import CudaError, cuda_call, load_cupy

_PORTABLE = 1  # cudaHostRegisterPortable: pinned for all contexts

_log = logging.getLogger("dali_proxy")


class PinnedMemory:
    """Memory that stays pinned while this object or an array over it is alive. A forked child doesn't unpin it.

    Args:
        memory: ``uint8[nbytes]``; this object keeps it alive.
        device_id: the GPU.

    Raises:
        CudaError: CUDA failed to pin the memory, for example because of the limit on locked memory.

    Example:
        >>> pinned = PinnedMemory(block.array, device_id=0)  # doctest: +SKIP
        >>> array = np.asarray(pinned)  # doctest: +SKIP
    """

    def __init__(self, memory: Bytes, device_id: int) -> None:
        self._owner = 0
        cupy = load_cupy()
        runtime = cupy.cuda.runtime
        address = int(memory.ctypes.data)
        with cuda_call("cudaHostRegister"), cupy.cuda.Device(device_id):
            runtime.hostRegister(address, memory.nbytes, _PORTABLE)
        self._memory = memory
        self._unregister: Any = runtime.hostUnregister
        self._errors: Any = runtime.CUDARuntimeError
        self.address = address
        self.nbytes = int(memory.nbytes)
        self.__array_interface__ = memory.__array_interface__
        self._owner = os.getpid()

    @classmethod
    def from_memory(cls, memory: Bytes, device_id: int) -> PinnedMemory | None:
        """Pin memory if possible; otherwise warn that copies are slower, and return None.

        For comparisons, the environment variable DALI_PROXY_PIN=0 disables pinning.
        """
        if os.environ.get("DALI_PROXY_PIN") == "0":
            return None
        try:
            return cls(memory, device_id)
        except CudaError as error:
            _log.warning("shared memory can't be pinned, so copies to the GPU need another copy on the host: %s", error)
            return None

    def __del__(self, getpid: Any = os.getpid) -> None:  # a default, as globals vanish at exit
        if self._owner == getpid():
            try:
                self._unregister(self.address)
            except self._errors:  # the context and its registrations are gone
                return
