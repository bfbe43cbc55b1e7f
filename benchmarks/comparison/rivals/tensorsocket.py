"""TensorSocket: a process that runs torch's DataLoader, and sends its batches to trainings."""

from __future__ import annotations

import logging
import multiprocessing
import socket
from contextlib import ExitStack
from typing import Any

from torch.utils.data import DataLoader

from benchmarks.comparison.job import Job
from benchmarks.comparison.jobs import JOBS
from benchmarks.comparison.rival import Cores, Rival, Samples, Stream, finished, one_thread, stack


class TensorSocket(Rival):
    """A ``TensorProducer`` in a process, over torch's DataLoader, and a ``TensorConsumer`` here."""

    name = "tensorsocket"
    title = "`TensorProducer` over torch's `DataLoader`, in a process; `TensorConsumer` in the training"
    packages = ("tensorsocket",)
    modules = ("zmq", "tornado")  # importing `tensorsocket` sends logs to the standard output
    jobs = ("jpeg-small", "audio", "arrays")

    def stream(self, job: Job, cores: Cores) -> Stream:
        logging.basicConfig()
        from tensorsocket.consumer import TensorConsumer

        context = multiprocessing.get_context("spawn")
        ports, ready = free_ports(4), context.Event()
        producer = context.Process(target=produce, args=(job.name, cores, ports, ready))
        producer.start()
        try:
            ready.wait()
            consumer = TensorConsumer(ports[0], ports[1], (ports[2], ports[3]), batch_size=job.batch_size)
            batches = ((batch[0], tuple(batch[1:])) for batch in consumer)
            yield from finished(batches, job)
        finally:
            producer.terminate()
            producer.join()


def produce(name: str, cores: Cores, ports: list[int], ready: Any) -> None:
    """Send the batches of a job until the process is terminated."""
    logging.basicConfig()
    from tensorsocket.producer import TensorProducer

    job = JOBS[name]
    job.prepare()
    one_thread()
    loader = DataLoader(Samples(job), batch_size=job.batch_size, num_workers=cores.workers, collate_fn=flat)
    # Two batches are sent as one, by default eight; one at a time is an IndexError in version 0.0.5.
    producer = TensorProducer(
        loader, ports[0], ports[1], (ports[2], ports[3]), rubber_band_pct=0.0, producer_batch_size=2
    )
    ready.set()
    while True:
        for _ in producer:
            pass


def flat(samples: Any) -> tuple[Any, ...]:
    """Collate into one tuple of tensors, which is what is sent."""
    indices, outputs = stack(samples)
    return (indices, *outputs)


def free_ports(count: int) -> list[int]:
    """Return ports that no program uses at this moment."""
    with ExitStack() as sockets:
        taken = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in taken]
