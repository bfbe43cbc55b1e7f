"""A worker process: reads sources or runs functions for a pool, and writes the results to shared memory."""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._concurrency.cost import Cost, spent
from dali_proxy.pipeline._external_source.parallel.packing import pack, unpack
from dali_proxy.pipeline._external_source.parallel.protocol import CrashReport, Done, Ended, Failed, Segment, Task, clip
from dali_proxy.pipeline._external_source.reader import EndOfData, ReadFailure, SourceReader, make_reader
from dali_proxy.pipeline._external_source.spec import SourceSpec
from dali_proxy.pipeline._graph.location import user_traceback
from dali_proxy.pipeline._graph.reasons import reason_of
from dali_proxy.pipeline._ipc.arena import Arena, Block
from dali_proxy.pipeline._ipc.arena_reader import ArenaReader
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.errors import ChannelClosedError
from dali_proxy.pipeline._ipc.interpreter import listen_to_signals
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._secrets import redacted
from dali_proxy.pipeline._user_functions.call import FunctionCall
from dali_proxy.pipeline._user_functions.seeding import Caller, GlobalGenerators, SeededCaller
from dali_proxy.pipeline.errors import InputError, OperatorError, SerializationError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

_FIRST_SEGMENT = 1 << 20  # bytes
_LIMIT = 1 << 40  # the tasks in flight and the results in use bound the memory
_PATIENCE = 1.0  # seconds that a source may take to end when the pool is gone

Specs = Sequence[SourceSpec | FunctionCall]


class NoCompletions:
    """No completed requests: the pool releases results one by one, in any order, instead of by a counter."""

    count = 0

    def wait(self, count: int, timeout: float | None = None) -> None:
        raise ChannelClosedError("a pool never waits for free space")


class Worker:
    """Serves one pool."""

    def __init__(self, channel: Channel, specs: Specs | SerializationError, max_batch_size: int) -> None:
        self._channel = channel
        self._specs = specs
        self._max_batch_size = max_batch_size
        self._readers: dict[int, SourceReader] = {}
        self._blocks: dict[int, Block] = {}  # results in use, by task
        self._inputs = ArenaReader()
        self._generators = GlobalGenerators()
        self._report = os.memfd_create("crash-report")
        self._begun = Cost()  # what the process had spent when the current task began
        self._arena = Arena(
            _FIRST_SEGMENT,
            limit=_LIMIT,
            completions=NoCompletions(),
            attach=self._attach,
            detach=lambda segment: None,  # only requests shrink an arena, and there are none
        )

    def run(self) -> None:
        """Do tasks until the pool closes the channel or is gone."""
        faulthandler.disable()  # if it was enabled before the fork, `enable` wouldn't set handlers that were lost since
        faulthandler.enable(self._report)
        # For `_TimedCaller`. `dump_traceback_later` would wait forever if it was in use in the parent at the fork.
        faulthandler.unregister(signal.SIGALRM)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, self._report, chain=True)
        _limit_threads()
        try:
            self._channel.send(CrashReport(), (self._report,))
            with self._generators.turn, self._generators:  # until the process ends: nothing else runs in it
                while True:
                    received = self._channel.receive()
                    message = received.message
                    if isinstance(message, Segment):
                        self._inputs.attach(message.segment, received.fds[0], message.nbytes)
                    elif isinstance(message, Task):
                        self._do(message)
        except ChannelClosedError:
            pass
        self._arena.close()

    def _attach(self, segment: int, block: SharedBlock) -> None:
        self._channel.send(Segment(segment, block.nbytes), (block.fd,))

    def _do(self, task: Task) -> None:
        self._begun = spent()
        for released in task.released:
            del self._blocks[released]
        answer: Done | Ended | Failed
        try:
            answer = self._run(task)
        except EndOfData:
            reader = self._readers[task.source]
            answer = Ended(task.task, reader.position(task.epoch))
        except OperatorError as failure:
            sample = task.first + failure.failures[0].sample if failure.failures else None
            answer = _describe(task, "", sample, failure.__cause__ or failure)
        except ReadFailure as failure:
            answer = _describe(task, failure.wanted, failure.sample, failure.__cause__ or failure)
        except ChannelClosedError:
            raise
        except BaseException as error:  # noqa: BLE001 - exits, too: the pool must get every failure
            answer = _describe(task, str(task.info), None, error)
        finally:
            if task.timeout:
                signal.setitimer(signal.ITIMER_REAL, 0)
        self._channel.send(answer)

    def _run(self, task: Task) -> Done:
        if isinstance(self._specs, SerializationError):
            raise self._specs
        spec = self._specs[task.source]
        caller: Caller = Caller()
        if task.seeds:
            caller = SeededCaller(self._generators, np.frombuffer(task.seeds, np.uint64))
        if task.timeout:
            caller = _TimedCaller(caller, task.timeout)
        if isinstance(spec, FunctionCall):
            return self._done(task, spec.run(self._inputs_of(task), task.count, caller))
        reader = self._readers.get(task.source)
        if reader is None:  # exceptions such as SystemExit must not end this process
            reader = self._readers[task.source] = make_reader(spec, self._max_batch_size)
        if task.skip:
            reader.skip(task.skip, task.epoch)
        batches = reader.read(task.info, task.first, task.count, caller)
        return self._done(task, batches, reader.position(task.epoch))

    def _inputs_of(self, task: Task) -> list[TensorList]:
        memory = self._inputs.view(task.segment, task.offset, (task.nbytes,), "uint8")
        return [unpack(memory, each) for each in task.inputs]

    def _done(self, task: Task, batches: Sequence[TensorList], position: int = 0) -> Done:
        on_cpu = [batch for batch in batches if isinstance(batch, TensorListCPU)]
        if len(on_cpu) != len(batches):
            raise InputError("a parallel source returned data on the GPU; workers can only send data on the CPU")
        block, outputs = pack(self._arena, on_cpu)
        self._blocks[task.task] = block
        cost = spent().minus(self._begun)
        return Done(task.task, block.segment_id, block.offset, block.nbytes, position, *cost, outputs)


class _TimedCaller(Caller):
    """Ends this process by a signal if a call takes too long; its handler writes the stack to the report."""

    def __init__(self, caller: Caller, timeout: float) -> None:
        self._caller = caller
        self._timeout = timeout

    def call(self, number: int, function: Callable[..., Any], arguments: Callable[[], Sequence[Any]]) -> Any:
        signal.setitimer(signal.ITIMER_REAL, self._timeout)
        return self._caller.call(number, function, arguments)


def _limit_threads() -> None:
    """Let the user's libraries use one thread: the pool has a process for each core.

    Their threads don't exist in a forked process, so libraries that used them before the fork would wait forever.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    if "cv2" in sys.modules:
        sys.modules["cv2"].setNumThreads(0)


def _describe(task: Task, wanted: str, sample: int | None, error: BaseException) -> Failed:
    kind = type(error)
    return Failed(
        task=task.task,
        wanted=clip(wanted),
        sample=sample,
        type_name=clip(f"{kind.__module__}:{kind.__qualname__}", 1000),
        reason=clip(redacted(reason_of(error))),
        traceback=clip(redacted("".join(traceback.format_exception(kind, error, user_traceback(error))))),
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
