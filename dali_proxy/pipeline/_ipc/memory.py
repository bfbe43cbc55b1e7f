"""Shared memory without a name: no file is left behind, and a peer can't shrink it while this process uses it."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import stat
import tempfile
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._closing import Closing
from dali_proxy.pipeline._ipc.errors import DescriptorLimitError, IPCError, ProtocolError
from dali_proxy.pipeline._ipc.signals import finalizer

_HAVE_MEMFD = hasattr(os, "memfd_create")
# The size never changes: access to a page of a file that the peer has shrunk would kill this process with SIGBUS.
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW if _HAVE_MEMFD else 0
_NORESERVE = 0x4000  # MAP_NORESERVE, which Python's mmap doesn't name
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
)  # fmt: skip
_libc.munmap.restype = ctypes.c_int
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class _Mapping:
    """Pages of a descriptor, unmapped when the last array over them dies.

    Until Python 3.13, `mmap.mmap` keeps a duplicate of the descriptor for as long as it lives, and a user who holds a
    thousand batches would run out of descriptors.
    """

    def __init__(self, fd: int, nbytes: int, writable: bool, private: bool) -> None:
        self._nbytes = nbytes
        self._address = 0
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        kind = mmap.MAP_PRIVATE | _NORESERVE if private else mmap.MAP_SHARED
        address = _libc.mmap(None, nbytes, access, kind, fd, 0)
        if address is None or address == _MAP_FAILED:
            code = ctypes.get_errno()
            raise IPCError(f"couldn't map {nbytes} bytes of shared memory: {os.strerror(code)}")
        self._address = address
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (address, not writable),
            "shape": (nbytes,),
            "typestr": "|u1",
        }

    @finalizer
    def __del__(self, unmap: Any = _libc.munmap) -> None:  # bound here: globals are gone at interpreter exit
        if self._address:
            unmap(self._address, self._nbytes)


class SharedBlock(Closing):
    """A block of shared memory, passed to other processes by its descriptor.

    It has no name, so the system frees it with the last process that has it mapped or open, however that process ends.
    A forked child shares it with its parent.

    Attributes:
        fd: the descriptor, which new programs don't inherit; -1 once closed.
        nbytes: size in bytes.
        array: ``uint8[nbytes]`` over the whole block, until `close`. The mapping lives as long as this array or a view.
        address: address of the block in this process.

    Example:
        >>> block = SharedBlock.create(4096)
        >>> block.array[:3] = (1, 2, 3)
        >>> peer = SharedBlock.attach(os.dup(block.fd), 4096)
        >>> peer.array[:3].tolist()
        [1, 2, 3]
    """

    __slots__ = ("_fd", "address", "array", "nbytes")

    def __init__(self, fd: int, nbytes: int, *, writable: bool = True, private: bool = False) -> None:
        self._fd = fd
        self.nbytes = nbytes
        try:
            self.array: npt.NDArray[np.uint8] = np.asarray(_Mapping(fd, nbytes, writable, private))
            self.address = int(self.array.ctypes.data)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, nbytes: int) -> SharedBlock:
        """Create a block of `nbytes` zeros. A page takes memory from its first use on.

        Raises:
            DescriptorLimitError: the process has no descriptor left.
            IPCError: the system refuses the memory.
        """
        if nbytes <= 0:
            raise ValueError(f"a block needs a size above 0, not {nbytes}")
        fd = -1
        try:
            fd = _open_nameless()
            os.ftruncate(fd, nbytes)
            if _HAVE_MEMFD:
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise as_descriptor_error(error, f"couldn't create {nbytes} bytes of shared memory") from error
        return cls(fd, nbytes)

    @classmethod
    def attach(cls, fd: int, nbytes: int, *, writable: bool = True, private: bool = False) -> SharedBlock:
        """Map a block that another process created. Owns `fd` from now on, even if it raises.

        Args:
            fd: its descriptor.
            nbytes: its size.
            writable: whether to write to it.
            private: whether only this process sees what it writes. While others write, it may see that or not.

        Raises:
            ProtocolError: `fd` isn't shared memory of exactly `nbytes`, sealed against shrinking and growing.
        """
        try:
            _check(fd, nbytes)
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, nbytes, writable=writable, private=private)

    @property
    def fd(self) -> int:
        return self._fd

    def __getattr__(self, name: str) -> NoReturn:  # only called for an attribute that doesn't exist
        if name == "array":
            raise IPCError("this block of shared memory is closed")
        raise AttributeError(f"SharedBlock has no attribute {name!r}")

    def close_fd(self) -> None:
        """Close the descriptor, once no other process needs it; the mapping stays."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Release the block. The mapping stays for the remaining views of it."""
        with suppress(AttributeError):
            del self.array
        self.close_fd()

    @finalizer
    def __del__(self, close: Any = os.close) -> None:  # bound here: globals are gone at interpreter exit
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close(fd)

    def __repr__(self) -> str:
        return f"SharedBlock(fd={self._fd}, nbytes={self.nbytes})"


def as_descriptor_error(error: OSError, doing: str) -> IPCError:
    """Convert an `OSError` of the system to an `IPCError`, which names the limit if no descriptor is left.

    Raises:
        OSError: it has no number, so it isn't the system's: a signal handler raised it.
    """
    import errno

    if error.errno is None:
        raise error
    if error.errno in (errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS):
        return DescriptorLimitError(f"{doing}: no file descriptor left; raise the limit (ulimit -n)")
    return IPCError(f"{doing}: {error.strerror or error}")


def _open_nameless() -> int:
    if _HAVE_MEMFD:
        return os.memfd_create("dali-proxy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    # Without memfd: a file in POSIX shared memory, which has no name either, and can't be sealed.
    with tempfile.TemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as file:
        return fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)


def _check(fd: int, nbytes: int) -> None:
    try:
        status = os.fstat(fd)
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS) if _HAVE_MEMFD else _SEALS
    except OSError as error:
        raise ProtocolError(f"the received descriptor isn't shared memory ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode) or nbytes <= 0 or status.st_size != nbytes:
        raise ProtocolError(f"shared memory of {nbytes} bytes was announced, but it has {status.st_size}")
    if seals & _SEALS != _SEALS:
        raise ProtocolError("the received shared memory lacks the seals that fix its size")
