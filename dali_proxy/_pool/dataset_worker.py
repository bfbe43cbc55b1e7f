"""A dataset worker: reads the batches that the server deals to it."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import Any

import torch

from dali_proxy._common.batch_reading import BatchRequest, DatasetReader, DatasetReaders
from dali_proxy._common.bound_process import unblock_interrupts
from dali_proxy._pool.parcel import send_batch
from dali_proxy._transport.endpoint import Endpoint, open_channel
from dali_proxy._transport.fields import clip
from dali_proxy._transport.protocol import BatchRead, ReadBatch
from dali_proxy._worker.worker import collected_submissions
from dali_proxy.errors import ServerClosedError, ServerDiedError
from dali_proxy.pipeline._ipc import pickling
from dali_proxy.pipeline._ipc.errors import IPCError
from dali_proxy.pipeline._ipc.frames import close_all
from dali_proxy.pipeline._ipc.memory import SharedBlock

LET_GO = 75
"""Exit code of a worker that the server has told to end."""


def run(endpoint: Endpoint, number: int, count: int) -> None:
    """Read batches until the server ends."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    unblock_interrupts()
    torch.set_num_threads(1)  # as in torch's workers
    try:
        _Worker(endpoint, number, count).run()
    except (IPCError, ServerClosedError, ServerDiedError):
        return  # the server is gone


class _Worker:
    def __init__(self, endpoint: Endpoint, number: int, count: int) -> None:
        self._number, self._count = number, count
        self._channel, _ = open_channel(endpoint, "dataset worker", f"worker {number}")
        self._readers = DatasetReaders(self._load)

    def run(self) -> None:
        while True:
            received = self._channel.receive()
            if not isinstance(received.message, ReadBatch):  # Goodbye
                sys.exit(LET_GO)
            message = received.message
            try:
                answer, memory = self._read(message, received.fds[0])
            finally:
                close_all(received.fds)
            self._channel.send(answer, () if memory is None else (memory.fd,))
            if memory is not None:
                memory.close()

    def _read(self, message: ReadBatch, fd: int) -> tuple[BatchRead, SharedBlock | None]:
        request: BatchRequest = pickle.loads(message.request)._replace(data=(fd, message.reader_nbytes))
        try:
            reader = self._readers.find(request)
            with collected_submissions():  # the server wakes only once, for these and the answer
                return send_batch(message.number, reader.read(request))
        except (IPCError, ServerClosedError, ServerDiedError):
            raise
        except Exception as error:  # noqa: BLE001  # the batch can't be pickled, or the dataset can't be loaded here
            reason = f"{type(error).__name__}: {error} (in dataset worker {self._number}, pid {os.getpid()})"
            return BatchRead(number=message.number, error=clip(reason)), None

    def _load(self, request: BatchRequest) -> Any:
        fd, nbytes = request.data
        with SharedBlock.attach(os.dup(fd), nbytes, writable=False) as block:
            reader: DatasetReader = pickling.loads(block.array.tobytes())
        reader.begin(self._number, self._count, "")
        return reader
