"""What the pool and its workers send each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pipeline._ipc.messages import U8, U64, Codec, MaxLength
from pipeline.types import BatchInfo

__all__ = ["CODEC", "LONGEST_TEXT", "Done", "Ended", "Failed", "Output", "Segment", "Start", "Task", "clip"]

LONGEST_TEXT = 1 << 16  # bytes
_Text = Annotated[str, MaxLength(LONGEST_TEXT)]
_Table = Annotated[bytes, MaxLength(32 << 20)]


@dataclass(frozen=True)
class Start:
    """To a worker that was spawned: what it needs before the first task. A descriptor comes along: the sources.

    Attributes:
        nbytes: size of the pickled sources.
        max_batch_size: of the pipeline.
        sys_path: where modules are looked for.
    """

    nbytes: U64
    max_batch_size: int
    sys_path: tuple[_Text, ...]


@dataclass(frozen=True)
class Task:
    """To a worker: read samples of a batch from a source.

    Attributes:
        task: number of the task.
        source: number of the source.
        iteration: number of the batch within its epoch.
        epoch: number of the epoch.
        first: the first sample.
        count: how many samples.
        skip: items to pass over first, where the source is to go on from a checkpoint; 0 for none.
        released: tasks whose results nobody reads any more.
    """

    task: int
    source: int
    iteration: int
    epoch: int
    first: int
    count: int
    skip: int
    released: tuple[int, ...]

    @property
    def info(self) -> BatchInfo:
        """Which batch it is."""
        return BatchInfo(self.iteration, self.epoch)


@dataclass(frozen=True)
class Segment:
    """From a worker: more shared memory for its results. Its descriptor comes along."""

    segment: int
    nbytes: int


@dataclass(frozen=True)
class Output:
    """A batch, or a part of one, in shared memory.

    Attributes:
        dtype: NumPy's name of the dtype.
        layout: names of the dimensions of a sample.
        dense: whether the samples lie side by side and have one shape.
        ndim: dimensions of a sample.
        table: ``int64[samples, 1 + ndim]``: offset in bytes from the start of the result's memory, and shape.
    """

    dtype: str
    layout: str
    dense: bool
    ndim: U8
    table: _Table


@dataclass(frozen=True)
class Done:
    """From a worker: the result of a task lies at `offset` of its segment, until the task is released.

    Attributes:
        task: number of the task.
        segment: number of the segment.
        offset: in bytes.
        nbytes: size of the result.
        position: items that were read in this pass over the source.
        outputs: a batch for each output; those that aren't needed, too.
    """

    task: int
    segment: int
    offset: int
    nbytes: int
    position: int
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Ended:
    """From a worker: the source has no more data for this task."""

    task: int


@dataclass(frozen=True)
class Failed:
    """From a worker: the source failed.

    Attributes:
        task: number of the task.
        wanted: what the source was asked for.
        sample: which sample of the batch; None for the batch as a whole.
        type_name: ``module:qualified name`` of the exception's type.
        reason: type and message of the exception.
        traceback: of the worker.
    """

    task: int
    wanted: _Text
    sample: int | None
    type_name: str
    reason: _Text
    traceback: _Text


CODEC = Codec({1: Start, 2: Task, 3: Segment, 4: Done, 5: Ended, 6: Failed})


def clip(text: str, nbytes: int = LONGEST_TEXT) -> str:
    """Return text that can be sent: the end of it where it is too long, since that tells most of a traceback."""
    data = text.encode(errors="surrogatepass")
    return text if len(data) <= nbytes else data[-nbytes:].decode(errors="ignore")
