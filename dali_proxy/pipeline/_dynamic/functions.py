"""Build the functions of dynamic mode from the schemas of operators."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

from dali_proxy.pipeline._declaration.names import schema_name
from dali_proxy.pipeline._declaration.schema import COMMON_ARGUMENTS, OperatorSchema
from dali_proxy.pipeline._dynamic.arrays import Batch, is_array
from dali_proxy.pipeline._dynamic.calling import call, combine
from dali_proxy.pipeline._dynamic.creation import as_tensor
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import explained
from dali_proxy.pipeline.errors import UnknownArgumentError

#: Arguments of the graph's operators that calls of functions don't have.
_OF_GRAPHS = {"name", *(argument.name for argument in COMMON_ARGUMENTS)}


def is_function(schema: OperatorSchema) -> bool:
    """Return whether an operator is a function of dynamic mode: it isn't internal, a reader or an old name.

    Of the old names, only those in `experimental` exist.
    """
    is_old = schema.alias_of is not None and not schema.name.startswith("experimental.")
    return not (schema.hidden or schema.fed or schema.is_reader or is_old or schema.function)


def make_dynamic_function(schema: OperatorSchema, graph_function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of an operator, which runs it."""

    def function(*inputs: Any, batch_size: int | None = None, rng: Any = None, **arguments: Any) -> Any:
        wrong = [name for name in arguments if name in _OF_GRAPHS]
        if wrong or (rng is not None and not schema.random):
            name = wrong[0] if wrong else "rng"
            hint = ": pass rng=random.RNG(seed=...)" if name == "seed" and schema.random else ""
            error = UnknownArgumentError(f"got an unexpected keyword argument {name!r}{hint}")
            raise explained(error, schema, SourceLocation.from_caller())
        return call(schema.alias_of or schema, inputs, arguments, batch_size, rng)

    function.__name__ = function.__qualname__ = schema.name.rpartition(".")[2]
    devices = ", ".join(dict.fromkeys("gpu" if each == "mixed" else each for each in schema.devices))
    described = (graph_function.__doc__ or "").replace(f"Devices: {', '.join(schema.devices)}.", f"Devices: {devices}.")
    lines = described.rstrip().splitlines()
    kept = [line for line in lines if not line.strip().startswith(tuple(f"{name} (" for name in ("seed", "preserve")))]
    kept = [line for line in kept if not line.strip().startswith(("name (str)", "bytes_per_sample_hint ("))]
    kept.append("    batch_size (int): number of samples of the results; by default that of the inputs.")
    if schema.random:
        kept.append("    rng (RNG): generator of random numbers; by default that of the thread.")
    function.__doc__ = "\n".join(kept) + "\n"
    function.__signature__ = _signature(inspect.signature(graph_function), schema.random)  # type: ignore[attr-defined]
    function._schema_name = schema_name(schema.name)  # type: ignore[attr-defined]  # DALI's name
    return function


def _signature(signature: inspect.Signature, random: bool) -> inspect.Signature:
    parameters = [each for name, each in signature.parameters.items() if name not in _OF_GRAPHS]
    own = ("batch_size", "rng") if random else ("batch_size",)
    parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in own]
    return inspect.Signature(parameters)


def make_math_function(graph_function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a mathematical function for tensors and batches."""
    name = graph_function.__name__

    def function(*operands: Any) -> Any:
        return combine(name, operands)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (graph_function.__doc__ or "").replace("data nodes", "tensors, batches")
    return function


def imread(filepaths: Any, /, *, device: Any = "cpu", **arguments: Any) -> Any:
    """Read and decode images.

    Args:
        filepaths: a path, a list of paths (the result is a batch), or a tensor or batch of encoded paths.
        device: device that decodes them.
        **arguments: arguments of `decoders.image`.

    Returns:
        A tensor for one path, a batch for several.
    """
    return call(
        "decoders.image", (call("io.file.read", (_encoded_paths(filepaths),), {}),), {"device": device, **arguments}
    )


def video(sources: Any, /, *, device: Any = "cpu", **arguments: Any) -> Any:
    """Return frames of videos: `dynamic.io.video`, which also takes lists of paths.

    Args:
        sources: a path or URL, a list of them (the result is a batch), or a tensor or batch of encoded paths or of the
            bytes of files.
        device: device that decodes them.
        **arguments: arguments of `io.video`: `frames` or `times`, and others.

    Returns:
        A tensor for one video, a batch for several.

    Example:
        >>> dynamic.video("front.mp4", times=[1.4, 1.5]).shape  # doctest: +SKIP
        (2, 480, 640, 3)
    """
    return call("io.video", (_encoded_paths(sources),), {"device": device, **arguments})


def _encoded_paths(paths: Any) -> Any:
    def encoded(path: Any) -> Any:
        return as_tensor(list(os.fsencode(path)), dtype="uint8")

    if is_array(paths):
        return paths
    if isinstance(paths, list | tuple):
        return Batch([encoded(path) for path in paths])
    return encoded(paths)
