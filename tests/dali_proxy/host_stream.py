"""A stream on the host instead of CUDA: a host compiler builds the kernel, and `work` runs issued work."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.pipeline.kernels import emulator


@dataclass
class Event:
    """Replaces a CUDA event: done when the work before it is done."""

    done: bool = False

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        assert self.done, "a thread waits for work that never ran"


@dataclass
class HostStream:
    """Queues issued work until `work` runs it: until then nothing is copied, as on a busy GPU.

    Attributes:
        copies, launches, bounced: numbers of copies, launches and bounce buffers.
        waited_for: addresses of the memory that consumers' streams have waited for.
    """

    device_id: int = 0
    copies: int = 0
    launches: int = 0
    bounced: int = 0
    closed: bool = False
    waited_for: list[Any] = field(default_factory=list)
    issued: deque[Callable[[], object]] = field(default_factory=deque)
    working: Any = field(default_factory=threading.Lock)
    is_active: bool = False
    kept: list[torch.Tensor] = field(default_factory=list)  # issued work may still use freed memory

    @contextmanager
    def active(self) -> Iterator[None]:
        assert not self.is_active
        self.is_active = True
        try:
            yield
        finally:
            self.is_active = False

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        assert self.is_active
        made = torch.zeros(tuple(shape), dtype=dtype)
        self.kept.append(made)
        return made

    def bounce(self, nbytes: int) -> torch.Tensor:
        self.bounced += 1
        return torch.zeros(nbytes, dtype=torch.uint8)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        assert self.is_active
        self.copies += 1
        self._issue(lambda: ctypes.memmove(target, source, nbytes))

    def launch(self, defines: tuple[tuple[str, str], ...], table: int, grid: tuple[int, int]) -> None:
        assert self.is_active
        self.launches += 1
        self._issue(lambda: emulator.run_at("evaluate.cu", "evaluate", defines, [table], grid))

    def record_event(self) -> Event:
        event, kept = Event(), self.kept
        self.kept = []
        self._issue(lambda: (kept.clear(), setattr(event, "done", True)))
        return event

    def block_current(self, event: Event, memories: Sequence[torch.Tensor]) -> None:
        if not event.done:
            self.work()
        self.waited_for += [memory.data_ptr() for memory in memories]

    def work(self) -> None:
        """Run the issued work."""
        with self.working:  # the emulator's grid is global
            while self.issued:
                self.issued.popleft()()

    def close(self) -> None:
        self.closed = True

    def _issue(self, work: Callable[[], object]) -> None:
        self.issued.append(work)
