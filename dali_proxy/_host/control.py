"""Messages between the parent and its host process, over a socket that the child inherits."""

from __future__ import annotations

import pickle
from typing import Annotated

from dali_proxy._transport.labels import clip, clip_start
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._ipc.messages import MANY, U32, U64, Codec, Message, Meta
from dali_proxy.pipeline._secrets import redacted
from dali_proxy.pipeline.errors import PipelineError

_LONGEST_PICKLE = 1 << 20  # bytes
_LONGEST_TEXT = 1 << 18

Path = Annotated[str, Meta(max_length=1 << 14)]
Pickled = Annotated[bytes, Meta(max_length=_LONGEST_PICKLE)]


class Start(Message, frozen=True):
    """Parent to host: the first message.

    Shared memory contains the pipeline and `HostOptions.device_stage`, then the same of each alternative.

    Attributes:
        nbytes: sizes of these, in order.
        directory: the parent's working directory; empty if it has none.
        sys_path: the parent's `sys.path`.
        path: see `HostOptions`, also for the attributes below.
        host_stage_only: the attribute of `HostOptions`, then that of each alternative.
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


CONTROL_CODEC = Codec({1: Start, 2: Ready, 3: StartFailed, 4: Stop, 5: Failed})
