"""Jobs that share one torch loader through TensorSocket, which sends the same batches to all of them."""

from __future__ import annotations

import faulthandler
import logging
import os
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch

_PATIENCE = 300  # seconds; a consumer that gets nothing waits forever
_IDLE = 5.0  # seconds without consumers


class Received:
    """The batches of a consumer: each iterator is an epoch.

    Args:
        dataset: the dataset, for the producer.
        batch_size: number of samples of a batch.
        port: first of four ports that are free.
        first: whether to start the producer, too.
    """

    def __init__(self, dataset: torch.utils.data.Dataset[Any], batch_size: int, port: int, first: bool) -> None:
        logging.basicConfig()  # otherwise it logs to the standard output, which has the results
        from tensorsocket.consumer import TensorConsumer  # type: ignore[import-not-found]

        faulthandler.dump_traceback_later(_PATIENCE, exit=True)
        if first:
            context = get_context("spawn")
            ready = context.Event()
            context.Process(target=_produce, args=(dataset, batch_size, port, ready)).start()
            ready.wait()
        self._connect = partial(TensorConsumer, port, port + 1, (port + 2, port + 3), batch_size=batch_size)
        self._consumer: Any = None

    def __iter__(self) -> Iterator[torch.Tensor]:
        if self._consumer is None:
            self._consumer = self._connect()  # one that doesn't read at once may miss all epochs
        for (images,) in self._consumer:
            yield images


def _collate(samples: list[torch.Tensor]) -> tuple[torch.Tensor]:
    return (torch.utils.data.default_collate(samples),)


def _produce(dataset: torch.utils.data.Dataset[Any], batch_size: int, port: int, ready: Any) -> None:
    """Send epochs until no consumer is left.

    Two batches are sent as one; by default, eight are. One at a time is an `IndexError` in version 0.0.5. The last two
    of each epoch aren't sent, and by default the last eight: consumers of an epoch of eight batches wait forever.
    """
    logging.basicConfig()
    from tensorsocket.producer import TensorProducer  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(dataset, batch_size, shuffle=True, drop_last=True, collate_fn=_collate)
    producer = TensorProducer(loader, port, port + 1, (port + 2, port + 3), producer_batch_size=2)
    ready.set()
    left = time.monotonic()
    while True:
        for _ in producer:
            if producer.hb.consumers:
                left = time.monotonic()
            elif time.monotonic() > left + _IDLE and producer.epoch:
                os._exit(0)
