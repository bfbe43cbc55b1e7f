"""What the parent and its host process say to each other, over a socket that the child inherits."""

from __future__ import annotations

import pickle
from typing import Annotated

from dali_proxy._transport.labels import clip, clip_start
from dali_proxy.errors import ProxyError
from pipeline._ipc.messages import MANY, U32, U64, Codec, Message, Meta
from pipeline.errors import PipelineError

__all__ = ["CONTROL_CODEC", "Ready", "Start", "StartFailed", "Stop"]

_LONGEST_PICKLE = 1 << 20  # bytes
_LONGEST_TEXT = 1 << 18

Path = Annotated[str, Meta(max_length=1 << 14)]
Pickled = Annotated[bytes, Meta(max_length=_LONGEST_PICKLE)]


class Start(Message, frozen=True):
    """Parent to host, first; the pipeline comes as a block of shared memory, and `planned_half` after it.

    Attributes:
        nbytes: size of the pipeline.
        planned_nbytes: size of `HostOptions.planned_half`.
        directory: the parent's working directory; empty if it has none.
        sys_path: where the parent imports from.
        path: where to listen.
        key: what clients must know.
        server: token of this start.
        unclaimed_bytes: see `HostOptions`.
        arena_bytes_limit: the same.
        is_half: the same.
    """

    nbytes: U64
    planned_nbytes: U64
    directory: Path
    sys_path: Annotated[tuple[Path, ...], MANY]
    path: Path
    key: bytes
    server: bytes
    unclaimed_bytes: U64
    arena_bytes_limit: U64
    is_half: bool = False


class Ready(Message, frozen=True):
    """Host to parent: it listens."""

    pid: U32


class StartFailed(Message, frozen=True):
    """Host to parent: it can't start.

    Attributes:
        error: the exception, pickled; the parent trusts its own child.
        text: the exception with its traceback.
    """

    error: Pickled
    text: Annotated[str, Meta(max_length=_LONGEST_TEXT)]

    @classmethod
    def of(cls, error: BaseException, text: str) -> StartFailed:
        """Describe an exception; one that can't be pickled becomes a `ProxyError` with its text."""
        try:
            data = pickle.dumps(error)
            pickle.loads(data)
        except Exception:  # noqa: BLE001  # pickling runs the code of any type
            data = b""
        if not data or len(data) > _LONGEST_PICKLE:
            reason = clip(f"{type(error).__name__}: {error}", _LONGEST_TEXT)
            data = pickle.dumps(ProxyError(f"the server's process could not start: {reason}"))
        return cls(data, clip_start(text, _LONGEST_TEXT))

    def rebuild(self) -> Exception:
        """Return the exception; its cause carries the host's traceback."""
        error = pickle.loads(self.error)
        if not isinstance(error, PipelineError):
            wrapped = ProxyError(f"the server's process couldn't start: {type(error).__name__}: {error}")
            wrapped.__cause__ = error if isinstance(error, Exception) else None
            return wrapped
        return error


class Stop(Message, frozen=True):
    """Parent to host: end in order."""


CONTROL_CODEC = Codec({1: Start, 2: Ready, 3: StartFailed, 4: Stop})
