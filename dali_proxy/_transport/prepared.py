"""GPU work that the server has planned, for the consumer that fetches the result to issue."""

from __future__ import annotations

from typing import Annotated

from dali_proxy._transport.origin import MAX_SAMPLES, Table
from dali_proxy.pipeline._ipc.messages import U8, U32, U64, Message, Meta

#: Names, numbers, brackets and commas, so that no other code reaches the compiler.
_Expression = Annotated[str, Meta(max_length=4096, pattern=r"^[A-Za-z0-9_<>, ]+\Z")]
_ShortName = Annotated[str, Meta(max_length=32)]
_Offsets = Annotated[tuple[U32, ...], Meta(min_length=1, max_length=64)]


class Launched(Message, frozen=True, kw_only=True):
    """A launch of `evaluate.cu`, whose table lies in the block.

    Attributes:
        images: offset of the table of images.
        count: number of images.
        row_bytes: size of a row of the table. A row begins with the address of its target, relative to the output.
        source_offsets: offsets in a row of the addresses of its source, relative to the block.
        expression: C++ type of the expression that the launch evaluates.
        blocks: blocks of the grid for each image.
    """

    images: U64
    count: U32
    row_bytes: U32
    source_offsets: _Offsets
    expression: _Expression
    blocks: U32


class PreparedOutput(Message, frozen=True, kw_only=True):
    """An output on a GPU: the result of a launch, or a copy of one of the result's outputs.

    Attributes:
        dtype: one of `DTYPES`.
        dense: whether it is one array with the batch dimension in front.
        ndim: number of dimensions of the arrays, as in `OutputBatch`.
        table: as in `OutputBatch`; its offsets refer to the output's GPU memory.
        nbytes: size of the GPU memory.
        launch: the launch that computes it; None for a copy.
    """

    dtype: _ShortName
    dense: bool
    ndim: U8
    table: Table
    nbytes: U64
    launch: Launched | None = None


class Prepared(Message, frozen=True):
    """How the pipeline's outputs follow from a result's outputs.

    If there are launches, the first output of the result is the block that they read. The other outputs of the result
    are, in order, those of the pipeline that no launch computes: outputs on the CPU, and bytes to copy to the GPU.

    Attributes:
        outputs: one for each output of the pipeline; None for an output on the CPU.
    """

    outputs: Annotated[tuple[PreparedOutput | None, ...], Meta(max_length=MAX_SAMPLES)]
