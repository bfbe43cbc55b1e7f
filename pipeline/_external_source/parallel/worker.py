"""A worker process: reads sources for a pool, and writes the results to shared memory."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
import traceback
from collections.abc import Sequence

from pipeline._external_source.parallel.packing import pack
from pipeline._external_source.parallel.protocol import Done, Ended, Failed, Segment, Task, clip
from pipeline._external_source.reader import EndOfData, Reader, ReadFailure, make_reader
from pipeline._external_source.spec import SourceSpec
from pipeline._ipc.arena import Arena, Block
from pipeline._ipc.channel import Channel
from pipeline._ipc.errors import ChannelClosedError
from pipeline._ipc.interpreter import listen_to_signals
from pipeline._ipc.memory import SharedBlock
from pipeline.errors import InputError, SerializationError
from pipeline.tensors.cpu import TensorListCPU

__all__ = ["Worker", "prepare_process"]

_FIRST_SEGMENT = 1 << 20  # bytes
_LIMIT = 1 << 40  # the tasks in flight and the results in use bound the memory
_PATIENCE = 1.0  # seconds that a source may take to end when the pool is gone


class _NoCompletions:
    """No completed requests: the pool releases results one by one, in any order, instead of by a counter."""

    count = 0

    def wait(self, count: int, timeout: float | None = None) -> None:
        raise ChannelClosedError("a worker never waits for free space")


class Worker:
    """Serves one pool.

    Args:
        channel: channel to the pool.
        specs: the sources, or the error with which every task fails.
        max_batch_size: batch size of the pipeline.
    """

    def __init__(self, channel: Channel, specs: Sequence[SourceSpec] | SerializationError, max_batch_size: int) -> None:
        self._channel = channel
        self._specs = specs
        self._max_batch_size = max_batch_size
        self._readers: dict[int, Reader] = {}
        self._blocks: dict[int, Block] = {}  # results in use, by task
        self._arena = Arena(
            _FIRST_SEGMENT,
            limit=_LIMIT,
            completions=_NoCompletions(),
            attach=self._attach,
            detach=lambda segment: None,  # only requests shrink an arena, and there are none
        )

    def run(self) -> None:
        """Do tasks until the pool closes the channel or is gone."""
        try:
            while True:
                task = self._channel.receive().message
                if isinstance(task, Task):
                    self._do(task)
        except ChannelClosedError:
            pass
        self._arena.close()

    def _attach(self, segment: int, block: SharedBlock) -> None:
        self._channel.send(Segment(segment, block.nbytes), (block.fd,))

    def _do(self, task: Task) -> None:
        for released in task.released:
            del self._blocks[released]
        answer: Done | Ended | Failed
        try:
            answer = self._read(task)
        except EndOfData:
            answer = Ended(task.task)
        except ReadFailure as failure:
            answer = _describe(task, failure.wanted, failure.sample, failure.__cause__ or failure)
        except ChannelClosedError:
            raise
        except BaseException as error:  # noqa: BLE001 - exits, too: the pool must get every failure
            answer = _describe(task, str(task.info), None, error)
        self._channel.send(answer)

    def _read(self, task: Task) -> Done:
        reader = self._readers.get(task.source)
        if reader is None:
            if isinstance(self._specs, SerializationError):
                raise self._specs
            spec = self._specs[task.source]  # exceptions such as SystemExit must not end this process
            reader = self._readers[task.source] = make_reader(spec, self._max_batch_size)
        if task.skip:
            reader.skip(task.skip, task.epoch)
        batches = reader.read(task.info, task.first, task.count)
        on_cpu = [batch for batch in batches if isinstance(batch, TensorListCPU)]
        if len(on_cpu) != len(batches):
            raise InputError("a parallel source returned data on the GPU; workers can only send data on the CPU")
        block, outputs = pack(self._arena, on_cpu)
        self._blocks[task.task] = block
        return Done(task.task, block.segment_id, block.offset, block.nbytes, reader.position(task.epoch), outputs)


def _describe(task: Task, wanted: str, sample: int | None, error: BaseException) -> Failed:
    kind = type(error)
    return Failed(
        task=task.task,
        wanted=clip(wanted),
        sample=sample,
        type_name=clip(f"{kind.__module__}:{kind.__qualname__}", 1000),
        reason=clip(f"{kind.__name__}: {error}"),
        traceback=clip("".join(traceback.format_exception(error))),
    )


def prepare_process(channel: Channel) -> None:
    """Make this process end with its pool, and leave Ctrl-C to the pool's process."""
    signal.set_wakeup_fd(-1)  # an event loop of the parent isn't this process's
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listen_to_signals()
    threading.Thread(target=_end_with, args=(os.dup(channel.fileno()),), name="end-with-pool", daemon=True).start()


def _end_with(fd: int) -> None:
    """Wait until the pool is gone, then end the process soon, even if a source is still running."""
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    poll.poll()
    time.sleep(_PATIENCE)
    os._exit(1)
