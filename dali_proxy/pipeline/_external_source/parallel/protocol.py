"""Messages between the pool and its workers."""

from __future__ import annotations

from typing import Annotated

from dali_proxy.pipeline._ipc.frames import Codec
from dali_proxy.pipeline._ipc.messages import MANY, U8, U64, Message, Meta
from dali_proxy.pipeline.types import BatchInfo

LONGEST_TEXT = 1 << 16  # bytes
_Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
_Table = Annotated[bytes, Meta(max_length=32 << 20)]


class Start(Message, frozen=True):
    """Initial message to a spawned worker. The descriptor of the pickled sources or functions comes with it."""

    nbytes: U64
    max_batch_size: int
    sys_path: Annotated[tuple[_Text, ...], MANY]


class Output(Message, frozen=True):
    """Samples of a batch in shared memory: an output of a source or function, or an input of a function.

    Attributes:
        dtype: NumPy's name of the dtype.
        layout: names of the dimensions of a sample.
        dense: whether the samples lie side by side and have one shape. They are then one array.
        ndim: number of dimensions of an array.
        table: ``int64[arrays, 1 + ndim]``: offset in bytes from the start of the result's memory, and shape.
    """

    dtype: str
    layout: str
    dense: bool
    ndim: U8
    table: _Table


class Task(Message, frozen=True):
    """To a worker: read samples of a batch from a source, or process them with a function.

    Attributes:
        task: number of the task.
        source: number of the source or function.
        iteration: number of the batch within its epoch.
        epoch: number of the epoch.
        first: position of the first sample.
        count: number of samples.
        skip: number of calls of an iterator to repeat first, to resume from a checkpoint.
        released: tasks whose results are no longer in use.
        seeds: uint64: seed of each sample, or of the batch; empty to leave the generators alone.
        timeout: seconds that it may take; 0 for no limit.
        segment: number of the segment with the inputs of the function.
        offset: offset of the inputs in the segment, in bytes.
        nbytes: size of the inputs.
        inputs: samples of each input.
    """

    task: int
    source: int
    iteration: int
    epoch: int
    first: int
    count: int
    skip: int
    released: Annotated[tuple[int, ...], MANY]
    seeds: _Table = b""
    timeout: float = 0.0
    segment: int = 0
    offset: int = 0
    nbytes: int = 0
    inputs: Annotated[tuple[Output, ...], MANY] = ()

    @property
    def info(self) -> BatchInfo:
        """The batch."""
        return BatchInfo(self.iteration, self.epoch)


class Segment(Message, frozen=True):
    """Another segment of shared memory: for the results of the worker that sends this, or from the pool, for inputs.

    The descriptor comes with it.
    """

    segment: int
    nbytes: int


class CrashReport(Message, frozen=True):
    """From a worker: the file where it writes its stack if it crashes or hangs. The descriptor comes with it."""


class Done(Message, frozen=True):
    """From a worker: the result of a task lies at `offset` of its segment, until the task is released.

    Attributes:
        task: number of the task.
        segment: number of the segment.
        offset: offset in the segment, in bytes.
        nbytes: size of the result.
        position: number of calls of the iterator in this pass over the source.
        processor: processor time of the task, in nanoseconds.
        elapsed: elapsed time, likewise.
        outputs: a batch for each output, including unused ones.
    """

    task: int
    segment: int
    offset: int
    nbytes: int
    position: int
    processor: int
    elapsed: int
    outputs: Annotated[tuple[Output, ...], MANY]


class Ended(Message, frozen=True):
    """From a worker: the source has no more data for this task.

    Attributes:
        task: number of the task.
        position: number of calls of the iterator in this pass over the source.
    """

    task: int
    position: int


class Failed(Message, frozen=True):
    """From a worker: the source or the function failed.

    Attributes:
        task: number of the task.
        wanted: request to the source; empty for a function.
        sample: position in the batch; None for the whole batch.
        type_name: ``module:qualified name`` of the exception's type.
        reason: type and message of the exception, and the user's line that raised it.
        traceback: traceback of the worker.
    """

    task: int
    wanted: _Text
    sample: int | None
    type_name: str
    reason: _Text
    traceback: _Text


CODEC = Codec({1: Start, 2: Task, 3: Segment, 4: Done, 5: Ended, 6: Failed, 7: CrashReport})


def clip(text: str, nbytes: int = LONGEST_TEXT) -> str:
    """Return text that fits into a message: the end of long text, which is the most useful part of a traceback."""
    data = text.encode(errors="surrogatepass")
    return text if len(data) <= nbytes else data[-nbytes:].decode(errors="ignore")
