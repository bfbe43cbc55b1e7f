"""Equal requests of several processes: one of them is computed, and the others map its result, too."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Any

import numpy as np
import xxhash

from dali_proxy._host.requests import Place, Request, Shared

_KEPT_BYTES = 256 << 20  # results that are kept for requests that may come
_MOST = 256  # such results
_CREDIT = 16  # results of an iterator that are kept in vain before no more are


class Sharing:
    """Finds equal requests, on the host's thread.

    Ranks of a tensor-parallel group, and jobs with the same pipeline, seed and order, need the same batches. Requests
    are equal if their batches have the same numbers and the same inputs, byte by byte. Processes aren't in step, so
    results are kept for a while. An iterator whose results nobody else needs soon isn't looked at any more.

    Attributes:
        known: the batches that later requests may equal, by their places.
    """

    def __init__(self) -> None:
        self._seed = secrets.randbits(64)
        self.known: dict[Place, list[Shared]] = {}
        self._kept: OrderedDict[Shared, None] = OrderedDict()  # the oldest first
        self._kept_bytes = 0
        self._credits: dict[int, int] = {}  # by session

    def find(self, request: Request, consumers: int) -> Shared | None:
        """Return the batch of equal requests, of which this one is a follower or the leader; None if it is alone.

        Args:
            request: a request with inputs.
            consumers: number of processes that fetch results.
        """
        key = request.key
        place = key.epoch, key.iteration, key.view, key.global_batch, request.size
        if consumers < 2:  # the last process may still need what it hasn't reached yet
            for shared in [each for each in self._kept if each.place[:2] < place[:2]]:
                self._forget(shared)
            if place not in self.known:
                return None
        others = [each for each in self.known.get(place, ()) if each.leader.session != request.session]
        credit = self._credits.setdefault(request.session, _CREDIT) if consumers > 1 else 0
        if not others and credit <= 0:
            return None
        digest = self._digest(request)
        for shared in others:
            if shared.digest == digest:
                for session in (request.session, shared.leader.session):
                    if session in self._credits:
                        self._credits[session] = _CREDIT
                return shared
        shared = Shared(place, digest, request, is_kept=credit > 0)
        self.known.setdefault(place, []).append(shared)
        return shared

    def finish(self, shared: Shared) -> None:
        """Record that the results of a batch are computed."""
        if shared.staged is None or not shared.is_kept:
            self._forget(shared)
            return
        self._kept[shared] = None
        self._kept_bytes += _nbytes(shared)
        while len(self._kept) > 1 and (self._kept_bytes > _KEPT_BYTES or len(self._kept) > _MOST):
            oldest = next(iter(self._kept))
            if oldest.used == 1 and oldest.leader.session in self._credits:
                self._credits[oldest.leader.session] -= 1
            self._forget(oldest)

    def use(self, shared: Shared, consumers: int) -> None:
        """Record that a follower got the results of a batch."""
        shared.used += 1
        if shared.used >= consumers and not shared.followers:
            self._forget(shared)

    def abandon(self, shared: Shared) -> Request | None:
        """Make the first follower the leader of the others, because the leader has failed or is dropped. Return it."""
        shared.discard()
        if not shared.followers:
            self._forget(shared)
            return None
        shared.leader = shared.followers.pop(0)
        return shared.leader

    def close_session(self, session: int, is_last: bool) -> None:
        """Forget what is known of an iterator that ends. If nobody is left to need results, free them."""
        self._credits.pop(session, None)
        if is_last:
            self.clear()

    def clear(self) -> None:
        """Free the results that are kept."""
        for shared in list(self._kept):
            self._forget(shared)

    def _forget(self, shared: Shared) -> None:
        if self._kept.pop(shared, self) is None:
            self._kept_bytes -= _nbytes(shared)
        shared.discard()
        known = self.known.get(shared.place, [])
        if shared in known:
            known.remove(shared)
            if not known:
                del self.known[shared.place]

    def _digest(self, request: Request) -> bytes:
        state = xxhash.xxh3_128(seed=self._seed)
        for name, batch in request.inputs.items():
            table: Any = batch.table()
            state.update(f"{name} {table.dtype} {table.shapes.tolist()}".encode())
            samples: Any = batch.samples
            for sample in samples:
                state.update(np.ascontiguousarray(sample).reshape(-1).view(np.uint8).data)
        return state.digest()


def _nbytes(shared: Shared) -> int:
    return 0 if shared.staged is None else shared.staged.nbytes
