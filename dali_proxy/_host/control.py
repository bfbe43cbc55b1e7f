"""Messages between a process with a pipeline and the process that runs it.

They go over a socket that the child inherits; in a server with a name, over its socket, one connection for each job.
"""

from __future__ import annotations

import pickle
import sys
from typing import Annotated

from dali_proxy._transport.fields import clip, clip_start
from dali_proxy._transport.protocol import VERSION
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._ipc.frames import Codec
from dali_proxy.pipeline._ipc.messages import MANY, U16, U32, U64, Message, Meta
from dali_proxy.pipeline._secrets import redacted
from dali_proxy.pipeline.errors import PipelineError

_LONGEST_PICKLE = 1 << 20  # bytes
_LONGEST_TEXT = 1 << 18

Path = Annotated[str, Meta(max_length=1 << 14)]
Pickled = Annotated[bytes, Meta(max_length=_LONGEST_PICKLE)]


#: Key of the sockets of servers with names. It isn't a secret: the socket's folder and the kernel's report of the
#: peer's user protect it.
ATTACH_KEY = b"attach"


#: Functions are exchanged as bytecode, which other versions of Python can't run.
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Serve(Message, frozen=True):
    """Parent to a new process: become a server with a name. Shared memory contains the description.

    Attributes:
        path: path of the socket for jobs.
        linger: seconds to wait for another job after the last one has ended.
        creator: ID of the process that creates the server.
        directory, sys_path: see `Start`.
        description_nbytes: size of the description, which `Greeting` passes on to jobs.
    """

    path: Path
    linger: float
    creator: U32
    directory: Path
    sys_path: Annotated[tuple[Path, ...], MANY]
    description_nbytes: U64


class Greeting(Message, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The first message of a job, and the server's answer, with the description in shared memory.

    Other releases must be able to read the version. So its position never changes, and new fields come last.

    Attributes:
        version: `VERSION` of the sender.
        directory, sys_path: working directory and `sys.path` of the server.
        devices: its `CUDA_VISIBLE_DEVICES`; empty if it isn't set.
        python: version of Python of the sender.
        modules: files that the server has imported; see `imported_files`.
        description_nbytes: size of the description.
    """

    version: U16 = VERSION
    directory: Path = ""
    sys_path: Annotated[tuple[Path, ...], MANY] = ()
    devices: Path = ""
    description_nbytes: U64 = 0
    python: Path = PYTHON
    modules: Annotated[tuple[tuple[Path, U64, U64], ...], MANY] = ()


class Start(Message, frozen=True):
    """Parent or job to host: the pipeline to run.

    Shared memory contains the pipeline and `HostOptions.device_stage`, then the same of each alternative.

    Attributes:
        nbytes: sizes of these, in order.
        directory: the parent's working directory; empty if it has none.
        sys_path: the parent's `sys.path`.
        path: see `HostOptions`, also for the attributes below.
        host_stage_only: the attribute of `HostOptions`, then that of each alternative.
        shares: see `HostOptions`.
    """

    nbytes: Annotated[tuple[U64, ...], MANY]
    directory: Path
    sys_path: Annotated[tuple[Path, ...], MANY]
    path: Path
    key: bytes
    server: bytes
    unclaimed_bytes: U64
    arena_bytes_limit: U64
    host_stage_only: Annotated[tuple[bool, ...], MANY]
    device_id: U32 | None = None
    shares: bool = False


class Ready(Message, frozen=True):
    """Host to parent: the host listens."""

    pid: U32


class StartFailed(Message, frozen=True):
    """Host to parent: the host can't start.

    Attributes:
        error: the exception, pickled; the parent trusts its own child.
        text: the exception with its traceback.
    """

    error: Pickled
    text: Annotated[str, Meta(max_length=_LONGEST_TEXT)]

    @classmethod
    def from_error(cls, error: BaseException, text: str) -> StartFailed:
        """Return the message for an exception; one that can't be pickled becomes a `ProxyError` with its text."""
        try:
            data = pickle.dumps(error)
            pickle.loads(data)
        except Exception:  # noqa: BLE001  # pickling runs the code of any type
            data = b""
        if not data or len(data) > _LONGEST_PICKLE:
            reason = clip(f"{type(error).__name__}: {error}", _LONGEST_TEXT)
            data = pickle.dumps(ProxyError(f"the server's process couldn't start: {reason}"))
        return cls(data, clip_start(redacted(text), _LONGEST_TEXT))

    def rebuild(self) -> Exception:
        """Return the exception; one that isn't a `PipelineError` becomes the cause of a `ProxyError`."""
        error = pickle.loads(self.error)
        if not isinstance(error, PipelineError):
            wrapped = ProxyError(f"the server's process couldn't start: {type(error).__name__}: {error}")
            wrapped.__cause__ = error if isinstance(error, Exception) else None
            return wrapped
        return error


class Failed(Message, frozen=True):
    """Host to parent: the reason why the host ends, as the rest of a sentence whose subject is the process."""

    reason: Annotated[str, Meta(max_length=_LONGEST_TEXT)]


class Stop(Message, frozen=True):
    """Parent to host: shut down in an orderly way."""


CONTROL_CODEC = Codec({1: Start, 2: Ready, 3: StartFailed, 4: Stop, 5: Failed, 6: Serve, 7: Greeting})
