"""Pickles a batch together with its results. Large arrays and tensors stay outside of the pickle, and aren't copied."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import cloudpickle
import numpy as np
import numpy.typing as npt
import torch

from dali_proxy._worker.tickets import Ticket
from dali_proxy.errors import ServerClosedError, ServerDiedError, StaleReferenceError

Fetcher = Callable[[Ticket], tuple[Any, ...]]
"""Waits for a batch and returns its outputs, or raises its error."""

Buffer = npt.NDArray[np.uint8]

_SMALL = 1 << 14  # bytes of an array that the pickle includes: a separate one takes Ray longer than copying it


class FetchedTicket(Ticket):
    """Ticket of a batch whose outputs have arrived with it.

    Attributes:
        arrived: the outputs in host memory; None if the batch failed.
    """

    __slots__ = ("arrived",)

    def __init__(
        self, size: int, arrived: tuple[Any, ...] | None, errors: Sequence[Exception], samples: tuple[str, str]
    ) -> None:
        super().__init__(b"", 0, 0, size, errors[0] if errors else None)
        for error, cause in pairwise(errors):
            error.__cause__ = cause
        self.claimed = True
        self.arrived = arrived
        self.samples = samples


def dumps(batch: object, fetch: Fetcher | None = None) -> tuple[bytes, list[Buffer]]:
    """Return a batch as bytes and large buffers, for `loads`.

    Args:
        batch: any object of the loader.
        fetch: function that fetches the outputs of a ticket, which becomes a `FetchedTicket`. Without it, tickets stay
            tickets.

    Raises:
        ServerClosedError, ServerDiedError, StaleReferenceError: the outputs are lost with the server.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, fetch)
    pickler.dump(batch)
    return file.getvalue(), pickler.buffers


def loads(data: bytes, buffers: Sequence[Buffer]) -> Any:
    """Return a batch from the result of `dumps`. Its arrays and tensors share the memory of `buffers`."""
    return pickle.loads(data, buffers=[np.asarray(_Writable(buffer)) for buffer in buffers])


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    def __init__(self, file: io.BytesIO, fetch: Fetcher | None) -> None:
        self.buffers: list[Buffer] = []
        table = _dispatch_table(len(cloudpickle.Pickler.dispatch_table))
        self.dispatch_table = table if fetch is None else {**table, Ticket: partial(_reduce_ticket, fetch)}
        super().__init__(file, protocol=5, buffer_callback=self._includes)

    def reducer_override(self, obj: Any) -> Any:
        """Pickle our classes by their names, without a search for their modules."""
        if isinstance(obj, type) and obj.__module__.startswith("dali_proxy."):
            return NotImplemented
        return super().reducer_override(obj)

    def _includes(self, buffer: pickle.PickleBuffer) -> bool:
        """Return whether the pickle includes a buffer. If it doesn't, keep the buffer."""
        raw = buffer.raw()
        if raw.nbytes > _SMALL:
            self.buffers.append(np.frombuffer(raw, np.uint8))
        return raw.nbytes <= _SMALL


@lru_cache(maxsize=1)
def _dispatch_table(known: int) -> dict[type, Any]:
    """Return the reducers of types, while cloudpickle knows so many. It looks each type up in several dicts."""
    return {**cloudpickle.Pickler.dispatch_table, torch.Tensor: _reduce_tensor}


class _Writable:
    """A writable view of a buffer, which it keeps alive.

    Ray marks its buffers as read-only because several processes may read an object. Only one process reads ours.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        address, _ = buffer.__array_interface__["data"]
        self.__array_interface__ = {"data": (address, False), "shape": buffer.shape, "typestr": "|u1", "version": 3}


def _reduce_ticket(fetch: Fetcher, ticket: Ticket) -> tuple[Any, ...]:
    try:
        arrived, errors = fetch(ticket), []
    except (ServerClosedError, ServerDiedError, StaleReferenceError):
        raise
    except Exception as error:  # noqa: BLE001  # the consumer raises it in place of the batch
        arrived, errors = None, list(_chain(error))
    return FetchedTicket, (ticket.size, arrived, errors, ticket.samples)


def _chain(error: BaseException | None) -> Any:
    """Yield an error and its causes. Pickling an error drops its cause."""
    while error is not None:
        yield error.with_traceback(None)
        error = error.__cause__


def _reduce_tensor(tensor: torch.Tensor) -> Any:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested or tensor.requires_grad:
        return tensor.__reduce_ex__(5)  # type: ignore[no-untyped-call]
    host = tensor.cpu().resolve_conj().resolve_neg().contiguous()
    memory: Any = host.reshape(-1).view(torch.uint8).numpy()
    return _tensor, (pickle.PickleBuffer(memory), host.dtype, tuple(host.shape))


def _tensor(buffer: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if not len(buffer):
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(buffer, dtype=dtype).reshape(shape)
