"""Calls of operators on tensors and batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration.registry import lookup
from dali_proxy.pipeline._declaration.schema import Kind, OperatorSchema, Role
from dali_proxy.pipeline._dynamic.arrays import Batch, Tensor, is_array
from dali_proxy.pipeline._dynamic.context import EvalMode
from dali_proxy.pipeline._dynamic.creation import as_tensor, make_batch, make_tensor
from dali_proxy.pipeline._dynamic.devices import as_device, current_choice
from dali_proxy.pipeline._dynamic.dtypes import DType, type_id
from dali_proxy.pipeline._dynamic.operations import operations
from dali_proxy.pipeline._dynamic.randomness import RNG, SampleRNG, get_default_rng
from dali_proxy.pipeline._dynamic.repeated_calls import repeat
from dali_proxy.pipeline._dynamic.values import Value, evaluate_pending, finish, trace_error, tracing
from dali_proxy.pipeline._graph.constants import is_constant
from dali_proxy.pipeline._graph.indexing import index_entries
from dali_proxy.pipeline._graph.input_sets import results_of_sets, split_inputs
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import OperatorCall, check_call, constant_node, explained
from dali_proxy.pipeline._rng import RandomState
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, GraphError
from dali_proxy.pipeline.types import DALIDataType, ScalarConstant

#: Operands that stay constants.
_CONSTANTS = bool | int | float | ScalarConstant


def call(
    operator: str | OperatorSchema,
    inputs: Sequence[Any],
    arguments: Mapping[str, Any],
    batch_size: int | None = None,
    rng: RNG | None = None,
) -> Any:
    """Call an operator on tensors or batches.

    If an input or argument is a batch, or a batch size is given, all others are repeated for each sample.

    A list of tensors, batches or arrays as an input has an element for each of several calls with the same arguments
    and the same random numbers, as in `fn`: an image and its mask are cropped alike.

    Args:
        operator: schema of the operator, or its path below `fn`.
        inputs: positional inputs: tensors, batches, or data for tensors.
        arguments: keyword arguments, with `device`.
        batch_size: number of samples of the results; None for that of the inputs.
        rng: generator of random numbers; by default that of the thread.

    Returns:
        A tensor or a batch, a tuple of them if the operator has several outputs, or None if it has none. For lists of
        inputs, a list of results; if the operator has several outputs, a list for each output.

    Raises:
        GraphError: the call doesn't match the declaration; the message names the operator and the user's line.
        PipelineError: the operator failed.
    """
    schema = lookup(operator) if isinstance(operator, str) else operator
    keywords = prepare_arguments(schema, arguments)
    generator = _generator(schema, rng)
    state = None if generator is None else generator.draw()
    sample = generator.sample if isinstance(generator, SampleRNG) and not tracing.active() else 0

    def run(inputs: Sequence[Any]) -> Any:
        values = [_input(schema, position, value) for position, value in enumerate(inputs)]
        size = _batch_size([*values, *keywords.values()], batch_size, schema)
        if tracing.active() and size is not None:
            raise trace_error(f"{schema.display} is called for a batch; a traced function works on one sample")
        if state is not None and sample and size is None:
            return _sample_of_batch(schema, values, keywords, state, sample)
        return _run(schema, values, keywords, size, state)

    if not any(isinstance(each, list) for each in inputs) or schema.side_effects:
        return run(inputs)
    try:
        sets = split_inputs(inputs, schema.name, _is_data)
    except GraphError as error:
        raise explained(error, schema, SourceLocation.from_caller()) from error.__cause__
    return run(sets[0]) if len(sets) == 1 else results_of_sets([run(each) for each in sets])


def _generator(schema: OperatorSchema, rng: RNG | None) -> RNG | None:
    """Return the generator of an operator's random numbers; None if it draws none."""
    if not schema.random:
        return None
    if tracing.active() and rng is not None:
        raise trace_error(f"{schema.display} is called with rng, whose state isn't part of a graph: use the default")
    return rng or get_default_rng()


def prepare_arguments(schema: OperatorSchema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as operators declare them, without those that are None."""
    return {name: _argument(schema, name, value) for name, value in arguments.items() if value is not None}


def _run(
    schema: OperatorSchema,
    values: Sequence[Any],
    keywords: Mapping[str, Any],
    size: int | None,
    state: RandomState | None,
) -> Any:
    nodes = [_node(value, size) for value in values]
    prepared = {name: _node(value, size) for name, value in keywords.items()}
    if "device" not in prepared and not nodes:
        chosen = current_choice()
        if chosen is not None and chosen in schema.devices:
            prepared["device"] = chosen

    def prepare() -> tuple[OperatorCall, tuple[Value, ...]]:
        checked = check_call(schema, nodes, prepared)
        if state is not None:
            checked = replace(checked, random_state=state)
        device = schema.output_device or ("cpu" if checked.device == "cpu" else "gpu")
        count = schema.output_count(checked.arguments, len(checked.inputs))
        return checked, tuple(
            Value(device, None, checked, index, 1 if size is None else size) for index in range(count)
        )

    done = repeat(schema, nodes, prepared, size, state, prepare)
    outputs = prepare()[1] if done is None else done
    if _defers():
        for node in (*nodes, *prepared.values()):
            if isinstance(node, Value):
                node.read_later(outputs)
    kind = Tensor if size is None else Batch
    results = tuple(kind.from_value(value) for value in outputs)
    if not outputs:
        return None
    if done is None:
        finish(tuple(outputs))
    return results[0] if len(results) == 1 else results


def _sample_of_batch(
    schema: OperatorSchema, values: Sequence[Any], keywords: Mapping[str, Any], state: RandomState, sample: int
) -> Any:
    """Run a random operator for a tensor with the random numbers of a later sample of a batch."""
    results = _run(schema, values, keywords, sample + 1, state)
    if isinstance(results, tuple):
        return tuple(each.select(sample) for each in results)
    return None if results is None else results.select(sample)


def _input(schema: OperatorSchema, position: int, value: Any) -> Any:
    if value is None or is_array(value) or isinstance(value, _CONSTANTS):
        return value
    if isinstance(value, tuple) and any(isinstance(each, Batch) for each in value):
        raise ArgumentTypeError(f"{schema.display}: input {position} is a tuple with batches: pass a list of them")
    if schema.role is Role.FILE_READ and isinstance(value, str | os.PathLike):
        value = os.fsencode(value)
    return as_tensor(value)


def _is_data(value: Any) -> bool:
    """Return whether an element of a list is data itself, and not a number or a list of numbers."""
    return is_array(value) or isinstance(value, bytes) or getattr(value, "ndim", 0) > 0


def _argument(schema: OperatorSchema, name: str, value: Any) -> Any:
    """Return an argument as operators declare it."""
    if isinstance(value, DType):
        return type_id(value)
    if name == "device":
        kind = getattr(as_device("gpu" if value == "mixed" else value), "device_type", None)
        kind = value if value == "mixed" and kind == "gpu" else kind
        return "mixed" if kind == "gpu" and "gpu" not in schema.devices and "mixed" in schema.devices else kind
    declared = schema.argument(name)
    if declared is None:
        return value
    if declared.kind is Kind.DTYPE and not isinstance(value, DALIDataType | int):
        return type_id(value)
    if is_array(value):
        if declared.per_sample:
            return value.cpu()
        if isinstance(value, Tensor):
            return value.cpu().numpy().tolist()
        raise ArgumentTypeError(
            f"{schema.display}: the argument {name!r} must be the same for all samples, but it is a batch"
        )
    if declared.per_sample and isinstance(value, list | tuple) and any(map(is_array, value)):
        return as_tensor(list(value)).cpu()
    if declared.per_sample and not is_constant(value) and hasattr(value, "__dlpack__"):
        return as_tensor(value).cpu()
    return value


def _batch_size(values: Sequence[Any], batch_size: int | None, schema: OperatorSchema) -> int | None:
    """Return the number of samples; None if all values are tensors."""
    size = batch_size
    for value in values:
        if isinstance(value, Batch):
            if size is not None and value.batch_size != size:
                raise ArgumentValueError(
                    f"{schema.display}: Inconsistent batch size: {value.batch_size} != {size}\n"
                    f"  at {SourceLocation.from_caller()}"
                )
            size = value.batch_size
    return size


def _node(value: Any, size: int | None) -> Any:
    """Return the node of a tensor or batch; a tensor is repeated if the operator has a batch.

    An operator that runs later gets a copy of data that the user's code may change until then.
    """
    if isinstance(value, Tensor) and tracing.active() and value._value.known:
        return constant_node(value.numpy(), layout=value.layout)
    repeated = isinstance(value, Tensor) and size is not None
    if is_array(value) and _defers() and (repeated or (value._value.known and not value._value.owned)):
        value = value._copied()
    if repeated:
        assert size is not None
        return Batch.broadcast(value, size)._value
    return value._value if is_array(value) else value


def _defers() -> bool:
    """Return whether operators run later than they are called."""
    return EvalMode.current() is EvalMode.deferred and not tracing.active()


def combine(operation: str, operands: Sequence[Any]) -> Any:
    """Return the result of an arithmetic operation or a mathematical function.

    Operands that are neither tensors nor batches go to the device of the others.

    Raises:
        ArgumentValueError: tensors on the CPU and on a GPU are mixed.
    """
    converted = [_operand(each) for each in operands]
    devices = {
        each._value.device
        for own, each in zip(operands, converted, strict=True)
        if is_array(each) and not isinstance(own, list | tuple | np.ndarray)
    }
    if len(devices) > 1:
        raise ArgumentValueError(
            f"Cannot mix GPU and CPU inputs: move one with .cpu() or .gpu()\n  at {SourceLocation.from_caller()}"
        )
    if not any(map(is_array, converted)):
        converted[0] = as_tensor(operands[0])
    target = next(iter(devices), "cpu")
    moved = [each.to_device(target) if is_array(each) else each for each in converted]
    return call("arithmetic", moved, {"operation": operation})


def _operand(value: Any) -> Any:
    """Return an operand as a constant, a tensor or a batch."""
    if isinstance(value, np.generic):
        return ScalarConstant(value)
    return value if is_array(value) or isinstance(value, _CONSTANTS) else as_tensor(value)


def subscript(array: Any, key: Any) -> Any:
    """Return ``array[key]``, for each sample of a batch. The indices may be tensors and batches."""
    # Integers are inputs, too, so that all positions share one compiled graph.
    entries, indices = index_entries(key, is_array if tracing.active() else _is_index)
    return call(
        "subscript",
        (array, *((each if is_array(each) else as_tensor(each)).cpu() for each in indices)),
        {"key": entries},
    )


def _is_index(value: Any) -> bool:
    return is_array(value) or isinstance(value, int | np.integer)


operations.call, operations.combine, operations.subscript = call, combine, subscript
operations.make_tensor, operations.make_batch = make_tensor, make_batch
operations.evaluate_pending = evaluate_pending
