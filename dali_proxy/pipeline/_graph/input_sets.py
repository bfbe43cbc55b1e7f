"""Several sets of inputs in one call of an operator: ``fn.flip([images, masks])`` returns a list of results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dali_proxy.pipeline._declaration.registry import lookup
from dali_proxy.pipeline._declaration.schema import OperatorSchema
from dali_proxy.pipeline._graph.location import SourceLocation, warn_caller
from dali_proxy.pipeline._graph.nodes import DataNode, OperatorCall, apply_operator, explained
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, GraphError

Outputs = DataNode | tuple[DataNode, ...] | None


def call_operator(schema: OperatorSchema, inputs: Sequence[Any], arguments: Mapping[str, Any], path: str = "") -> Any:
    """Add an operator to the graph, once for each set of inputs. A list of nodes as an input has a node for each set.

    All sets have the same arguments and the same random numbers: an image and its mask are cropped alike. The first of
    these operators has the name that the user passed.

    Args:
        schema: the operator, or a deprecated name of it.
        inputs: positional inputs.
        arguments: keyword arguments.
        path: name by which the user called the operator; "fn." and its name by default.

    Returns:
        The result of the operator: a list if it has several outputs. With several sets, a list of results; with several
        outputs, a list for each output.

    Raises:
        GraphError: a call doesn't match the declaration; the message names the operator and the user's line.
    """
    if schema.deprecated is not None:
        name = f"nvidia.dali.{path or f'fn.{schema.name}'}"
        warn_caller(f"WARNING: `{name}` is now deprecated.{schema.deprecated}", DeprecationWarning)
    if schema.alias_of is not None:
        schema = lookup(schema.alias_of)
    if schema.function is not None:
        return schema.function(*inputs, **arguments)
    try:
        is_function = schema.variadic and schema.side_effects  # of the user, who may pass lists
        sets = [tuple(inputs)] if is_function else split_inputs(inputs, schema.name, _is_node)
    except GraphError as error:
        raise explained(error, schema, SourceLocation.from_caller()) from error.__cause__
    results: list[Outputs] = []
    keywords = dict(arguments)
    first: OperatorCall | None = None
    for each in sets:
        results.append(apply_operator(schema.name, each, keywords, first))
        if first is None:
            first = _call(results[0])
            keywords.pop("name", None)
    if len(results) == 1:
        return list(results[0]) if isinstance(results[0], tuple) else results[0]
    return results_of_sets(results)


def results_of_sets(results: Sequence[Any]) -> list[Any]:
    """Return the results of a call with several sets: a list of results, or of lists if there are several outputs."""
    several = [each for each in results if isinstance(each, tuple)]
    return [list(output) for output in zip(*several, strict=True)] if several else list(results)


def _is_node(value: object) -> bool:
    return isinstance(value, DataNode)


def split_inputs(inputs: Sequence[Any], operator: str, is_data: Callable[[Any], bool]) -> list[tuple[Any, ...]]:
    """Return the sets of inputs of a call.

    Args:
        inputs: positional inputs. Lists of data have an element for each set; all other inputs belong to every set.
        operator: name of the operator.
        is_data: returns whether an object is data: a data node, or a tensor or batch.

    Raises:
        ArgumentTypeError: a list has data and other objects.
        ArgumentValueError: the lists have different lengths.
    """
    lists: list[int] = []
    for position, value in enumerate(inputs):
        if isinstance(value, list) and any(map(is_data, value)):
            if not all(map(is_data, value)):
                raise ArgumentTypeError(f"input {position} is a list of data and other objects")
            lists.append(position)
    counts = {len(inputs[position]) for position in lists}
    if len(counts) > 1:
        raise ArgumentValueError(
            f"All argument lists for Multiple Input Sets used with operator {operator!r} must have the same length. "
            f"These have the lengths {sorted(counts)}"
        )
    return [
        tuple(value[number] if position in lists else value for position, value in enumerate(inputs))
        for number in range(counts.pop() if counts else 1)
    ]


def _call(outputs: Outputs) -> OperatorCall | None:
    node = outputs[0] if isinstance(outputs, tuple) else outputs
    return None if node is None else node.source
