"""Trace a function of tensors: record its operators as the graph of a pipeline."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable
from typing import Any

from dali_proxy.pipeline._definition.decorator import check_known
from dali_proxy.pipeline._definition.pipeline import Pipeline
from dali_proxy.pipeline._dynamic.arrays import Batch, Tensor
from dali_proxy.pipeline._dynamic.foreign_draws import ForeignDraws
from dali_proxy.pipeline._dynamic.randomness import SampleRNG
from dali_proxy.pipeline._dynamic.structure import flatten, places
from dali_proxy.pipeline._dynamic.values import TracingError, Value, tracing
from dali_proxy.pipeline._graph.nodes import apply_operator, constant_node
from dali_proxy.pipeline._graph.subgraph import Subgraph, hashable
from dali_proxy.pipeline._user_functions.bound import BoundFunction
from dali_proxy.pipeline.errors import ArgumentTypeError, PipelineError

# Numbers of calls with which a function is compared, and seconds after which there are no more than necessary.
_FEWEST, _MOST, _LONGEST = 2, 16, 0.05
_REMEDY = (
    "The function does something else in each call, which the graph can't do: draw random numbers with dynamic.random, "
    "and compute other changing values in the dataset"
)


def trace(function: Callable[..., Any], **arguments: Any) -> Pipeline:
    """Return a pipeline that does what a function of tensors does, for each sample of a batch.

    The function is called with tensors without data, and the operators that it calls become the graph. Each parameter
    without a default is an input of the same name, and each tensor that the function returns is an output. A function
    may return them in a dict, a dataclass or any nesting; the pipeline returns them in their order, and the proxy of a
    server in the same structure.

    The results have the bits of the function itself, called for one sample in a `with` block of
    ``random.SampleRNG(seed, epoch, iteration, view, sample)``.

    Args:
        function: the function. Each parameter is one sample of an input; it returns a tensor, or tensors in tuples,
            lists, dicts, named tuples and dataclasses.
        **arguments: arguments of `Pipeline`. `batch_size` is 64 by default, `num_threads` the number of cores of this
            process, and `device_id` the current GPU if an operator needs one.

    Raises:
        TracingError: the function needs data of a tensor (a truth value, a shape, an array), or isn't deterministic.
            The message names the line.
        ArgumentTypeError: the function returns something else.

    Example:
        >>> import numpy as np
        >>> from dali_proxy import dynamic
        >>> pipe = dynamic.trace(lambda x: dynamic.cast(x * 2, dtype=dynamic.float32), batch_size=2)
        >>> pipe.run(x=np.int32([[1], [2]]))[0].as_array().tolist()
        [[2.0], [4.0]]
    """
    check_known(arguments, _name(function))
    first, structure = _record_alone(function)
    uses_gpu = any(call.device != "cpu" for call in first.calls)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    defaults = {"batch_size": 64, "num_threads": cores, "device_id": -1 if uses_gpu else None}
    given = {name: value for name, value in arguments.items() if value is not None or name == "device_id"}
    pipe = Pipeline(**{**defaults, **given})
    _check_repeats(function, first, places(structure), pipe)
    return pipe


def _check_repeats(function: Callable[..., Any], first: Subgraph, expected: Any, pipe: Pipeline) -> None:
    """Record a function in a pipeline, and check that each call records the same graph.

    Numbers of known generators are found whatever they decide. For others, such as the time, the function is traced
    several times, and more often if it is fast.

    Raises:
        TracingError: they don't; the message names the line.
    """
    draws, end = ForeignDraws(function), time.monotonic() + _LONGEST
    recorded = [draws.observe(lambda: _record(function, pipe))]
    pipe._internals.builder.structure = recorded[0][1]
    while len(recorded) < _FEWEST or (len(recorded) < _MOST and time.monotonic() < end):
        recorded.append(draws.observe(lambda: _record_alone(function)))
        if len(recorded) == _FEWEST and (line := draws.find(lambda: _record_alone(function))):
            raise TracingError(f"{_name(function)} draws random numbers in each call. {_REMEDY}\n  at {line}")
    for graph, structure in recorded:
        _compare(first, graph)
        if places(structure) != expected:
            raise TracingError(f"{_name(function)} returned another structure when it was traced again. {_REMEDY}")


def _record_alone(function: Callable[..., Any]) -> tuple[Subgraph, Any]:
    return _record(function, Pipeline(batch_size=1, num_threads=1, device_id=None))


def _record(function: Callable[..., Any], pipe: Pipeline) -> tuple[Subgraph, Any]:
    """Record the graph of a function in a pipeline, and return its operators and the structure of its result."""
    with pipe._internals.builder as builder, tracing() as trace, SampleRNG(0):
        inputs = [_input(each.name) for each in _parameters(function)]
        try:
            returned = function(*inputs)
        except Exception as error:
            if not isinstance(error, PipelineError) and hasattr(error, "add_note"):  # since Python 3.11
                error.add_note(
                    f"while {_name(function)} was traced: its tensors have no data. Call other libraries in a function "
                    "with @operator_def, which runs in the server"
                )
            raise
        if trace.errors:  # the function caught it, and would do something else with data
            raise trace.errors[0]
        structure, outputs = _outputs(returned, function)
        builder.set_returned(outputs, function)
        for each in inputs:  # also parameters that the function doesn't use
            if each._value.source is not None:
                builder.preserve(each._value.source)
    return Subgraph([node.source for node in outputs], lambda _: False), structure


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:
        raise ArgumentTypeError(
            f"{function!r} has no signature, so its inputs are unknown: wrap it in a function"
        ) from error
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    for each in required:
        if each.kind not in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
            raise ArgumentTypeError(f"{_name(function)}: the parameter {each} can't be an input: inputs need names")
    if not required:
        raise ArgumentTypeError(f"{_name(function)} has no parameters without defaults, so it has no inputs")
    return required


def _input(name: str) -> Tensor:
    node: Any = apply_operator("external_source", (), {"name": name, "no_copy": True})
    return Tensor.from_value(Value("cpu", None, node.source, size=1))


def _outputs(returned: Any, function: Callable[..., Any]) -> tuple[Any, tuple[Any, ...]]:
    """Return the structure of a function's result, or None for tensors in a tuple, and the nodes of its tensors."""

    def refuse(place: str, value: Any) -> str:
        hint = ": it must work on one sample" if isinstance(value, Batch) else ""
        if isinstance(value, int | float | str | None):
            hint = "; return other values from the dataset, beside the result of the proxy"
        return (
            f"{_name(function)} returned {type(value).__name__}{f' at {place}' * bool(place)}, but a traced function "
            f"returns a Tensor, or several in a tuple, dict, dataclass or any nesting of these{hint}"
        )

    structure, results = flatten(returned, lambda value: isinstance(value, Tensor), refuse)
    plain = isinstance(returned, Tensor) or type(returned) in (tuple, list)
    if plain and (isinstance(returned, Tensor) or all(isinstance(each, Tensor) for each in returned)):
        structure, results = None, [returned] if isinstance(returned, Tensor) else list(returned)
    nodes = []
    for result in results:
        value = result._value
        nodes.append(constant_node(value.data.as_cpu()[0].as_array(), layout=result.layout) if value.known else value)
    return structure, tuple(nodes)


def _compare(first: Subgraph, second: Subgraph) -> None:
    """Check that two calls of a function have recorded the same graph.

    Raises:
        TracingError: they haven't; the message names the line.
    """
    for call, one, other in zip(first.calls, first.key[1], second.key[1], strict=False):
        if _comparable(one) != _comparable(other):
            raise TracingError(
                f"{call.schema.display} got different arguments when the function was traced again. {_REMEDY}\n"
                f"  at {call.location}"
            )
    if len(first.calls) != len(second.calls):
        raise TracingError(f"the function called other operators when it was traced again. {_REMEDY}")


def _comparable(value: Any) -> Any:
    """Return a part of a subgraph's key. Functions are equal if they have the same code."""
    if isinstance(value, BoundFunction):
        value = hashable((value.function, value.positional, *value.keywords.items()))
    if isinstance(value, tuple):
        return tuple(map(_comparable, value))
    return getattr(value, "__code__", value)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))
