"""`external_source`: inputs of a graph, fed by the user or read from a source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy.pipeline._declaration import Argument, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._external_source.spec import ONLY_PARALLEL, SourceOutput, describe_source
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import DataNode, apply_operator
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline.errors import ArgumentValueError, GraphError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU


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
    """Return external data as an input of the graph.

    Without a source, feed the data with `Pipeline.feed_input`, as a keyword of `Pipeline.run`, or through the proxy of
    a server. With a source, the pipeline requests each batch from it, in the thread that runs the pipeline. The epoch
    ends when the source raises `StopIteration`, and `Pipeline.reset` begins the next epoch.

    Args:
        source: callable, iterable, generator function or iterator class. It returns batches (an array whose first
            dimension is the batch, or a list of samples) or samples: NumPy, torch or CuPy arrays, objects with
            ``__array__`` or DLPack, or tensors of this package. A callable takes no argument, or one that describes
            the request: a `types.SampleInfo` for a sample; the number of the iteration or a `types.BatchInfo` for a
            batch.
        num_outputs: number of values in the tuples that the source returns. With it, the result is a list of nodes.
        cycle: behaviour at the end of an iterable source. With "no" or False, the epoch ends, and the next one asks
            the same iterator again: a plain iterator has no more data, others begin again. With "quiet"
            or True, the source restarts immediately; with "raise", the epoch ends and the source restarts for the next
            one.
        name: name of the input, to feed data to it.
        device: "cpu" or "gpu".
        layout: layout of the samples, such as HWC; a list has one for each output.
        dtype: required dtype of the data; by default any. A list has one for each output.
        ndim: required number of dimensions of the samples; by default any. A list has one for each output.
        cuda_stream: stream that computes data on a GPU, unless `Pipeline.feed_input` gets another one.
        use_copy_kernel: copy data on a GPU with a kernel instead of ``cudaMemcpyAsync``.
        batch: whether the source returns batches instead of samples; True by default, except for a callable with
            ``parallel=True``.
        batch_info: whether a callable for batches gets a `types.BatchInfo` instead of the number of the iteration.
        repeat_last: use the last batch again if no new data was fed.
        blocking: wait for data that another thread feeds, instead of raising an error.
        no_copy: read the fed memory in place; it must not change until the batch is complete.
        parallel: read the source in ``py_num_workers`` worker processes of the pipeline. Any worker may call a callable
            for any sample, so its result must depend on its argument only; one worker reads an iterable. Samples must
            be on the CPU. The order and the contents don't depend on the number of workers. If a worker dies, the error
            names it. The pipeline doesn't restart workers, because it can't know the reason, or the position in the
            source. Build a new pipeline instead, from a checkpoint if necessary.
        prefetch_queue_depth: number of batches that workers prepare in advance; 1 by default. Workers may request
            batches after the end of the data; the source must raise `StopIteration` for those, too.
        **arguments: arguments of all operators.

    Returns:
        A node, or a list of nodes with `num_outputs`.

    Raises:
        ArgumentTypeError: an argument has the wrong type.
        ArgumentValueError: an argument has an invalid value, or can't be combined with another.

    Example:
        >>> import numpy as np
        >>> from dali_proxy import fn, pipeline_def
        >>> @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        ... def squares():
        ...     return fn.external_source(lambda sample: np.int32(sample.idx_in_epoch ** 2), batch=False)
        >>> pipe = squares()
        >>> [pipe.run()[0].as_array().tolist() for _ in range(2)]
        [[0, 1], [4, 9]]
    """
    common = {
        "name": name,
        "device": device,
        "cuda_stream": cuda_stream,
        "use_copy_kernel": use_copy_kernel,
        "blocking": blocking,
        "no_copy": no_copy,
        **arguments,
    }
    per_output = {"layout": layout, "dtype": dtype, "ndim": ndim}
    try:
        if source is None:
            if prefetch_queue_depth is not None:
                raise ArgumentValueError(ONLY_PARALLEL)
            for key, value in {"num_outputs": num_outputs, "cycle": cycle, "parallel": parallel or None}.items():
                if value is not None:
                    raise ArgumentValueError(f"argument {key!r} needs a source")
        elif parallel and no_copy is False:
            raise ArgumentValueError(
                "The argument ``no_copy`` cannot be specified to False when used with parallel=True"
            )
        elif num_outputs is not None and name is not None:
            raise GraphError("``num_outputs`` is not compatible with named `fn.external_source`: leave out the name")
        if source is None:
            return _single({**common, **per_output, "repeat_last": repeat_last})
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
            return _single({**common, **per_output, "source": SourceOutput(spec)})
        columns = {key: _for_each(key, value, num_outputs) for key, value in per_output.items()}
    except GraphError as error:
        if str(error).startswith(EXTERNAL_SOURCE.display):
            raise
        raise type(error)(f"{EXTERNAL_SOURCE.display}: {error}\n  at {SourceLocation.from_caller()}") from None
    return [
        _single({**common, **{key: column[n] for key, column in columns.items()}, "source": SourceOutput(spec, n)})
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
    """Return one value per output: the same for all, or the values of a list, followed by None."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) > count:
        raise ArgumentValueError(f"argument {key!r} has {len(value)} values, for {count} outputs")
    return [*value, *[None] * (count - len(value))]


EXTERNAL_SOURCE = declare_operator(
    name="external_source",
    doc=external_source.__doc__ or "",
    arguments=(
        Argument("layout", Kind.LAYOUT, "Layout of the samples, such as HWC."),
        Argument("dtype", Kind.DTYPE, "Required dtype of the data; by default any."),
        Argument("ndim", Kind.INT, "Required number of dimensions of the samples; by default any."),
        Argument(
            "no_copy", Kind.BOOL, "Read the fed memory in place; it must not change until the batch is complete.", False
        ),
        Argument("blocking", Kind.BOOL, "Wait for data that another thread feeds.", False),
        Argument("repeat_last", Kind.BOOL, "Use the last batch again if no new data was fed.", False),
        Argument("use_copy_kernel", Kind.BOOL, "Copy data on a GPU with a kernel.", False),
        Argument("cuda_stream", Kind.OBJECT, "Stream that computes data on a GPU."),
        Argument("source", Kind.OBJECT, "The source and the index of its output; None for fed data."),
    ),
    devices=("cpu", "gpu"),
    fed=True,
    role=Role.EXTERNAL_SOURCE,
    function=external_source,
)


@implements(EXTERNAL_SOURCE, "cpu", "gpu")
class ExternalSource(BatchOperator):
    """Returns the data of the request."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = batch.request.inputs[self.node.name]
        if self.node.device == "gpu":
            return [upload(batch, data) if isinstance(data, TensorListCPU) else _order(batch, data)]
        return [data]


def _order(batch: Batch, data: TensorListGPU) -> TensorListGPU:
    """Let the batch's stream wait for data that another stream computes; keep the data until the batch ends."""
    if data.ready is not None:
        batch.stream.wait_event(data.ready)
    batch.keep_alive.append(data)
    batch.lenders += [stream for stream in (data.stream, *data.lenders) if stream is not None]
    ordered = data.with_layout(data.layout())
    ordered.ready = None  # later work on the batch's stream is ordered after the event
    return ordered
