"""A batch in the host, from its submission to its delivery, and the store of those that can still be fetched."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from dali_proxy._transport.failures import describe
from dali_proxy._transport.fields import clip, unpack_labels
from dali_proxy._transport.origin import Origin
from dali_proxy.pipeline._operator_api.request import Announcement, TensorList
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline._secrets import redacted
from dali_proxy.pipeline.tensors import TensorListCPU
from dali_proxy.pipeline.tensors.cpu import Array

if TYPE_CHECKING:
    from dali_proxy._host.clients import Consumer, Worker
    from dali_proxy._host.variant import Variant
    from dali_proxy._transport.protocol import Failure
    from dali_proxy._transport.publisher import StagedResult


class State(Enum):
    """Stage of a request. Stages only advance."""

    QUEUED = "waits for the executor"
    FOLLOWING = "waits for the result of an equal request"
    RUNNING = "is in the executor"
    DONE = "waits to be fetched"
    GONE = "was delivered or dropped"


class Request(msgspec.Struct, eq=False, weakref=True):
    """A batch that a worker submitted.

    Attributes:
        worker: the worker that submitted it.
        variant: variant of the pipeline that computes it.
        seq: the worker's number for it.
        number: its number among the batches that this variant has started.
        since: time when its stage began.
        session: the iterator that it belongs to; 0 for none.
        key: key of its random numbers.
        size: number of samples.
        labels: dataset indices of the samples, packed.
        name_labels: names of the samples, packed.
        paths: for each input that has paths, those of the samples' files.
        inputs: one batch for each input of the pipeline; empty once the executor has them.
        bytes_in: size of the inputs.
        shared: the batch of equal requests that it belongs to; see `Sharing`.
        ahead: what operators were told of it, by their index, until it has run.
        state: its stage.
        copying: the executor's result, while it is RUNNING and the GPU fills slots.
        staged: the executor's result, when it is DONE and succeeded.
        failure: description of the error, when it is DONE and failed.
        waiter: the consumer that has already asked for it, or None.
        times: when it arrived and left each stage, if a trace records it; see `HostTrace`.
    """

    worker: Worker
    variant: Variant
    seq: int
    session: int
    key: BatchKey
    size: int
    labels: str
    name_labels: str = ""
    paths: tuple[TensorListCPU, ...] = ()
    inputs: dict[str, TensorList] = {}
    bytes_in: int = 0
    shared: Shared | None = None
    ahead: Mapping[int, Announcement] = {}
    state: State = State.QUEUED
    copying: StagedResult | None = None
    staged: StagedResult | None = None
    failure: Failure | None = None
    waiter: Consumer | None = None
    times: list[float] | None = None
    number: int = -1
    since: float = msgspec.field(default_factory=time.monotonic)

    @property
    def nbytes(self) -> int:
        """Size of the outputs."""
        return 0 if self.staged is None else self.staged.nbytes

    @property
    def indices(self) -> tuple[str, ...]:
        """Dataset indices of the samples, as text; empty where they are unknown."""
        return unpack_labels(self.labels, self.size)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that the proxy was given for the samples; empty where it was given none."""
        return unpack_labels(self.name_labels, self.size)

    @property
    def files(self) -> tuple[tuple[str, ...], ...]:
        """For each sample, the paths of its files, one for each input that has paths; empty if none has."""
        return tuple(zip(*[[_shown(path) for path in batch.samples] for batch in self.paths], strict=True))

    def title(self, sample: int) -> str:
        """Return what is known of a sample, for warnings."""
        index = [f"dataset index {each}" for each in self.indices[sample : sample + 1] if each]
        files = [repr(each) for each in (self.files[sample] if self.paths else ()) if each]
        names = [f"sample name {each!r}" for each in self.names[sample : sample + 1] if each]
        return redacted(", ".join(index + files + names)) or f"sample {sample}"

    def origin(self, samples: bool = True) -> Origin:
        """Return metadata for a consumer that runs the device stage.

        Args:
            samples: whether to include the indices and paths of the samples, for errors.
        """
        key, worker = self.key, self.worker
        return Origin(
            epoch=key.epoch,
            batch=key.iteration,
            view=key.view,
            batch_size=self.size,
            indices=self.labels if samples else "",
            names=self.name_labels if samples else "",
            paths=tuple(clip(path) for paths in self.files for path in paths) if samples else (),
            worker=worker.name,
            worker_pid=worker.pid,
            global_batch=key.global_batch,
        )

    def describe(self, error: Exception) -> Failure:
        """Describe an error of the batch for the process that fetches it."""
        worker = self.worker
        return describe(error, worker.client, self.seq, self.indices, worker.name, worker.pid, self.files, self.names)

    @property
    def held_bytes(self) -> int:
        """Memory that it occupies until a consumer fetches it: the outputs, or the approximate size of a failure."""
        if self.failure is None:
            return self.nbytes
        return 1024 + len(self.failure.message) + len(self.failure.arguments) + len(self.failure.traceback)

    def forget_ahead(self) -> None:
        """Tell operators that it has run, or won't."""
        for each in self.ahead.values():
            each.close()

    def discard(self) -> None:
        """Free the memory of the outputs."""
        staged, self.staged = self.staged, None
        if staged is not None:
            staged.discard()


def _shown(path: Array) -> str:
    """Return a path as text; an empty text if it is the content of a file."""
    content = path.tobytes().rstrip(b"\0")
    return "" if b"\0" in content else os.fsdecode(content)


Place = tuple[int, int, int, int | None, int]
"""Numbers of a batch: epoch, batch, view, number among all ranks, size."""


@dataclass(eq=False)
class Shared:
    """A batch that several requests need.

    Attributes:
        place: its place in the epoch, and its size.
        digest: hash of its inputs.
        leader: the request that is computed.
        followers: requests that wait for the leader. They have their inputs, in case that it fails or is dropped.
        is_kept: whether its results are kept for requests that come later.
        staged: the results, once they are computed, if they are kept or there are followers.
        used: number of requests that got them, with the leader.
    """

    place: Place
    digest: bytes
    leader: Request
    followers: list[Request] = field(default_factory=list)
    is_kept: bool = False
    staged: StagedResult | None = None
    used: int = 1

    def keep(self, staged: StagedResult) -> None:
        """Keep the results of the leader if other requests need them."""
        if self.is_kept or self.followers:
            self.staged = staged.share()

    def discard(self) -> None:
        """Free the results, as far as no consumer has them."""
        staged, self.staged = self.staged, None
        if staged is not None:
            staged.discard()


_CLOSED_SESSIONS = 1 << 16  # remembered, to refuse later requests for them
_UNCLAIMED = 512  # unclaimed results, however small: each has a descriptor for each output


class Store:
    """Finds requests by (client, number) and by session, and limits unclaimed results.

    Only `dali_proxy.DataLoader` has sessions. The workers of other loaders may end before their results are fetched.
    The store keeps up to `unclaimed_bytes` and 512 batches of them, then gives up the oldest.

    Methods that give up requests return them: the caller frees their memory.

    Args:
        unclaimed_bytes: maximum size of the results of disconnected workers without a session, in bytes.
    """

    def __init__(self, unclaimed_bytes: int) -> None:
        self._limit = unclaimed_bytes
        self._requests: dict[tuple[int, int], Request] = {}
        self._by_session: dict[int, set[Request]] = {}
        #: Sessions that have ended.
        self.closed_sessions: OrderedDict[int, None] = OrderedDict()
        self._unclaimed: OrderedDict[Request, None] = OrderedDict()
        self._unclaimed_bytes = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._requests.values()))

    def find(self, client: int, seq: int) -> Request | None:
        """Return a request, or None if the store doesn't have it."""
        return self._requests.get((client, seq))

    def add(self, request: Request) -> None:
        """Add a request."""
        self._requests[request.worker.client, request.seq] = request
        if request.session:
            self._by_session.setdefault(request.session, set()).add(request)

    def remove(self, request: Request) -> None:
        """Remove a request, if the store has it."""
        self._requests.pop((request.worker.client, request.seq), None)
        members = self._by_session.get(request.session)
        if members is not None:
            members.discard(request)
            if not members:
                del self._by_session[request.session]
        if self._unclaimed.pop(request, self) is None:
            self._unclaimed_bytes -= request.held_bytes

    def clear(self) -> list[Request]:
        """Remove and return all requests."""
        return self._remove_all(self)

    def done_in(self, session: int, through: int) -> list[Request]:
        """Return the requests of a session up to a batch that are done, in order."""
        requests = [
            each
            for each in self._by_session.get(session, ())
            if each.state is State.DONE and each.key.iteration <= through
        ]
        return sorted(requests, key=lambda each: (each.key.iteration, each.key.view, each.worker.client, each.seq))

    def close_session(self, session: int) -> list[Request]:
        """End a session. Remove and return its requests."""
        self.closed_sessions[session] = None
        if len(self.closed_sessions) > _CLOSED_SESSIONS:
            self.closed_sessions.popitem(last=False)
        return self._remove_all(self._by_session.get(session, ()))

    def add_unclaimed(self, request: Request) -> list[Request]:
        """Record that a request is done, that its worker is gone and that it has no session.

        Returns:
            The oldest such requests, removed because they exceed the limit.
        """
        dropped: list[Request] = []
        if request in self._unclaimed:
            return dropped
        self._unclaimed[request] = None
        self._unclaimed_bytes += request.held_bytes
        while len(self._unclaimed) > 1 and (self._unclaimed_bytes > self._limit or len(self._unclaimed) > _UNCLAIMED):
            dropped += self._remove_all([next(iter(self._unclaimed))])
        return dropped

    def _remove_all(self, requests: Iterable[Request]) -> list[Request]:
        removed = list(requests)
        for request in removed:
            self.remove(request)
        return removed
