"""The inputs of a graph: data that the user feeds, or that a source of the user's gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Kind, OperatorSchema
from pipeline._external_source.spec import SourceOutput, describe_source
from pipeline._graph.location import SourceLocation
from pipeline._graph.nodes import DataNode, apply_operator
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.operator import BatchOperator
from pipeline._operator_api.upload import upload
from pipeline.errors import ArgumentValueError, GraphError
from pipeline.tensors.cpu import TensorListCPU
from pipeline.tensors.gpu import TensorListGPU


def external_source(
    source: Any = None,
    num_outputs: int | None = None,
    *,
    cycle: str | bool | None = None,
    name: str | None = None,
    device: str | None = None,
    layout: Any = None,
    dtype: Any = None,
    ndim: Any = None,
    cuda_stream: Any = None,
    use_copy_kernel: bool | None = None,
    batch: bool | None = None,
    batch_info: bool | None = None,
    repeat_last: bool = False,
    blocking: bool | None = None,
    no_copy: bool | None = None,
    parallel: bool | None = None,
    prefetch_queue_depth: int | None = None,
    **arguments: Any,
) -> DataNode | list[DataNode]:
    """Bring data from outside into the graph.

    Without a source, feed it by `Pipeline.feed_input`, as a keyword of `Pipeline.run`, or through a server's proxy.
    With one, the pipeline asks the source for each batch, in the thread that runs the pipeline; it ends when the
    source raises `StopIteration`, and `Pipeline.reset` begins the next epoch.

    Args:
        source: a callable, an iterable, a generator function or an iterator class. What it gives, or each part of
            it, is a batch (an array with the batch dimension in front, or a list of samples) or a sample: NumPy,
            torch or CuPy arrays, anything with ``__array__`` or DLPack, tensors of this package. A callable takes
            nothing, or one argument that tells what is wanted: a `types.SampleInfo` for a sample; for a batch the
            number of the iteration, or a `types.BatchInfo`.
        num_outputs: the source gives a tuple of so many values; a list of as many nodes is returned.
        cycle: what happens at the end of an iterable source: "no" or False, the data has ended for good; "quiet" or
            True, it begins again at once; "raise", the epoch ends, and it begins again with the next one.
        name: of the input, to feed it by.
        device: "cpu" or "gpu".
        layout: names of the dimensions of a sample, such as HWC; a list has one for each output.
        dtype: the data must have this dtype; by default any. A list has one for each output.
        ndim: samples must have this many dimensions; by default any. A list has one for each output.
        cuda_stream: for data on a GPU, the stream that made it, where `Pipeline.feed_input` says nothing else.
        use_copy_kernel: copy data on a GPU with a kernel instead of by ``cudaMemcpyAsync``.
        batch: whether the source gives batches, or else samples. By default it gives batches, except a callable
            with ``parallel=True``.
        batch_info: whether a callable gets a `types.BatchInfo` for a batch, or else the number of the iteration.
        repeat_last: when nothing new was fed, use the last batch again.
        blocking: when nothing was fed, wait until another thread feeds it, rather than raise an error.
        no_copy: read the fed memory in place; it must not change until the batch ran.
        parallel: read the source in ``py_num_workers`` worker processes of the pipeline. Each sample of a callable
            is made by any of them, so what it gives may only depend on its argument; an iterable is read by one of
            them. Samples must be on the CPU. The order and the contents don't depend on the number of workers. A
            worker that dies is an error that says which; it is not started again, because nobody knows what killed
            it, or what a source that it was reading would give next. Build a new pipeline, from a checkpoint if need
            be.
        prefetch_queue_depth: batches that workers prepare ahead, by default 1. They may ask for some that lie
            behind the end of the data; the source must raise `StopIteration` for those, too.
        **arguments: those that all operators have.

    Returns:
        A node, or a list of nodes where `num_outputs` is given.

    Raises:
        ArgumentTypeError, ArgumentValueError: for arguments that can't be used, or don't go together.

    Example:
        >>> import numpy as np
        >>> from pipeline import fn, pipeline_def
        >>> @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        ... def squares():
        ...     return fn.external_source(lambda sample: np.int32(sample.idx_in_epoch ** 2), batch=False)
        >>> pipe = squares()
        >>> [pipe.run()[0].as_array().tolist() for _ in range(2)]
        [[0, 1], [4, 9]]
    """
    given = {
        "name": name,
        "device": device,
        "cuda_stream": cuda_stream,
        "use_copy_kernel": use_copy_kernel,
        "blocking": blocking,
        "no_copy": no_copy,
        **arguments,
    }
    declared = {"layout": layout, "dtype": dtype, "ndim": ndim}
    try:
        if source is None:
            only_with_source = {"num_outputs": num_outputs, "cycle": cycle, "parallel": parallel or None}
            for key, value in {**only_with_source, "prefetch_queue_depth": prefetch_queue_depth}.items():
                if value is not None:
                    raise ArgumentValueError(f"argument {key!r} needs a source")
        elif repeat_last:
            raise ArgumentValueError("argument 'repeat_last' is only for data that is fed, not for a source")
        elif parallel and no_copy is False:
            raise ArgumentValueError("argument 'no_copy' can't be False with parallel=True: data isn't copied then")
        elif num_outputs is not None and name is not None:
            raise GraphError("argument 'name' is for one output: leave it out with num_outputs")
        if source is None:
            return _single({**given, **declared, "repeat_last": repeat_last})
        spec = describe_source(
            source,
            num_outputs=num_outputs,
            cycle=cycle,
            batch=batch,
            batch_info=bool(batch_info),
            parallel=bool(parallel),
            prefetch_queue_depth=prefetch_queue_depth,
        )
        if num_outputs is None:
            return _single({**given, **declared, "source": SourceOutput(spec)})
        columns = {key: _for_each(key, value, num_outputs) for key, value in declared.items()}
    except GraphError as error:
        if str(error).startswith(EXTERNAL_SOURCE.display):
            raise
        raise type(error)(f"{EXTERNAL_SOURCE.display}: {error}\n  at {SourceLocation.of_caller()}") from None
    return [
        _single({**given, **{key: column[n] for key, column in columns.items()}, "source": SourceOutput(spec, n)})
        for n in range(num_outputs)
    ]


def _single(arguments: dict[str, Any]) -> DataNode:
    layout, ndim = arguments["layout"], arguments["ndim"]
    if isinstance(layout, str) and layout and isinstance(ndim, int) and len(layout) != ndim:
        raise ArgumentValueError(f"the layout {layout!r} doesn't name ndim={ndim} dimensions")
    node = apply_operator("external_source", (), arguments)
    assert isinstance(node, DataNode)
    return node


def _for_each(key: str, value: Any, count: int) -> list[Any]:
    """Return one value for each output: the same for all, or those of a list, which may be too short."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) > count:
        raise ArgumentValueError(f"argument {key!r} has {len(value)} values, for {count} outputs")
    return [*value, *[None] * (count - len(value))]


EXTERNAL_SOURCE = register(
    OperatorSchema(
        name="external_source",
        doc=external_source.__doc__ or "",
        arguments=(
            Argument("layout", Kind.LAYOUT, "Names of the dimensions of a sample, such as HWC."),
            Argument("dtype", Kind.DTYPE, "The data must have this dtype; by default any."),
            Argument("ndim", Kind.INT, "Samples must have this many dimensions; by default any."),
            Argument(
                "no_copy",
                Kind.BOOL,
                "Read the fed memory in place; it must not change until the batch ran.",
                False,
            ),
            Argument("blocking", Kind.BOOL, "Wait for data that another thread feeds.", False),
            Argument("repeat_last", Kind.BOOL, "When nothing new was fed, use the last batch again.", False),
            Argument("use_copy_kernel", Kind.BOOL, "Copy data on a GPU with a kernel.", False),
            Argument("cuda_stream", Kind.OBJECT, "The stream that makes data on a GPU."),
            Argument("source", Kind.OBJECT, "The source, and which of its outputs; None for data that is fed."),
        ),
        devices=("cpu", "gpu"),
        fed=True,
        function=external_source,
    )
)


@implements(EXTERNAL_SOURCE, "cpu", "gpu")
class ExternalSource(BatchOperator):
    """Hands on what came with the request."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = batch.request.inputs[self.node.name]
        if self.node.device == "gpu":
            return [upload(batch, data) if isinstance(data, TensorListCPU) else _order(batch, data)]
        return [data]


def _order(batch: Batch, data: TensorListGPU) -> TensorListGPU:
    """Let the batch's stream wait for data that another stream makes, and keep it until the batch is done."""
    if data.ready is not None:
        batch.stream.wait_event(data.ready)
    batch.keep_alive.append(data)
    batch.lenders += [stream for stream in (data.stream, *data.lenders) if stream is not None]
    ordered = data.with_layout(data.layout())
    ordered.ready = None  # the batch's stream has it behind it
    return ordered
