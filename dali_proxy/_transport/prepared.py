"""What a result says of work on a GPU that the server has prepared, and whoever fetches the result has to issue."""

from __future__ import annotations

from typing import Annotated

from dali_proxy._transport.origin import MAX_SAMPLES, Table
from pipeline._ipc.messages import U8, U32, U64, Message, Meta

__all__ = ["Launched", "Prepared", "PreparedOutput"]

_ShortName = Annotated[str, Meta(max_length=32)]


class Launched(Message, frozen=True):
    """A launch of `fused.cu`, whose tables lie in the block.

    Attributes:
        pictures: where the table of pictures begins.
        count: number of pictures.
        channels_table: where the table of channels begins.
        channels: of the pictures.
        planar: whether the output is CHW, else HWC.
        rounded: whether the resized pixels are uint8.
        tiles: blocks of the grid for a picture.
    """

    pictures: U64
    count: U32
    channels_table: U64
    channels: U8
    planar: bool
    rounded: bool
    tiles: U32


class PreparedOutput(Message, frozen=True):
    """An output that is made on a GPU: by a launch, or as a copy of something in the block.

    Attributes:
        dtype: one of `DTYPES`.
        dense: whether it is one array with the batch dimension in front.
        ndim: number of dimensions of the arrays, as in `OutputBatch`.
        table: as in `OutputBatch`; offsets are those in memory of `nbytes` on the GPU.
        nbytes: size of that memory.
        copied: where in the block its copy begins, if it is one.
        launch: what makes it, otherwise.
    """

    dtype: _ShortName
    dense: bool
    ndim: U8
    table: Table
    nbytes: U64
    copied: U64 = 0
    launch: Launched | None = None


class Prepared(Message, frozen=True):
    """How the outputs of a pipeline are made of a result's: of a block of memory, if any is, and of those on the CPU.

    Attributes:
        outputs: one for each output of the pipeline; None for one on the CPU: the next of the result's.
        launched_nbytes: size of what launches read, at the beginning of the block. The block is the result's first
            output if it has one more than there are outputs on the CPU.
    """

    outputs: Annotated[tuple[PreparedOutput | None, ...], Meta(max_length=MAX_SAMPLES)]
    launched_nbytes: U64
