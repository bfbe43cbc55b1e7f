"""What users pass to a server, as a pipeline, and the conditions on a pipeline that takes the place of another."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from typing import Any

from dali_proxy._common.folders import new_folder
from dali_proxy._nvidia.adopt import adopt, is_nvidia_pipeline
from dali_proxy._transport.endpoint import Endpoint, input_specs
from dali_proxy.pipeline import Pipeline
from dali_proxy.pipeline._definition.decorator import check_known
from dali_proxy.pipeline._dynamic.structure import places
from dali_proxy.pipeline._ranks import current_ranks
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentTypeError


def new_endpoint(
    pipeline: Pipeline,
    arena_bytes: int,
    arena_bytes_limit: int,
    timeout: float | None,
    is_remote: bool,
    processes: int,
    ranks: int,
) -> Endpoint:
    """Return the address of a server that hasn't started, with a key of its own.

    Raises:
        GraphError: the pipeline has no input, or an input that a proxy can't feed.
    """
    return Endpoint(
        path=os.path.join(new_folder(), "socket"),
        key=secrets.token_bytes(32),
        inputs=input_specs(pipeline),
        outputs=len(pipeline._internals.graph.outputs),
        max_batch_size=pipeline.max_batch_size,
        arena_bytes=min(arena_bytes, arena_bytes_limit),
        arena_bytes_limit=arena_bytes_limit,
        timeout=timeout,
        unused=tuple(pipeline._internals.unused_inputs),
        is_remote=is_remote,
        processes=processes,
        ranks=ranks,
        structure=pipeline._internals.builder.structure,
    )


def is_function(served: Any) -> bool:
    """Return whether what a user passes to a server is a function, which is traced."""
    return callable(served) and not isinstance(served, Pipeline | type) and not hasattr(served, "_is_pipeline_def")


def as_pipeline(served: Any, arguments: dict[str, Any], known: Collection[str] = ()) -> Pipeline:
    """Return the pipeline to run: one of this project or of NVIDIA's package, or the trace of a function.

    Args:
        served: the pipeline or function.
        arguments: arguments of a function's pipeline.
        known: names of the arguments of the server itself, for errors.
    """
    served = adopt(served) if is_nvidia_pipeline(served) else served
    if is_function(served):
        from dali_proxy.pipeline.dynamic import trace  # most servers run pipelines

        check_known(arguments, "DALIServer", known)
        return trace(served, **({"num_threads": -1} if current_ranks().source else {}) | arguments)  # -1: a share
    if not isinstance(served, Pipeline):
        hint = ": call it, as in DALIServer(image_pipe(batch_size=64, ...))" if callable(served) else ""
        raise ArgumentTypeError(f"DALIServer needs a Pipeline or a function, not {type(served).__name__}{hint}")
    if arguments:
        raise ArgumentTypeError(f"DALIServer: unexpected arguments for a pipeline: {', '.join(sorted(arguments))}")
    return served


def arguments_for_another(pipeline: Pipeline, seed: int | None, num_threads: int | None) -> dict[str, Any]:
    """Return the arguments of a pipeline that a function in its place gets, too.

    Args:
        pipeline: the pipeline. Its `device_id` may be None because it has no operators on a GPU, unlike the function.
        seed: the seed that the user gave; None if it was drawn.
        num_threads: the number of threads that the user gave; None if it was left out.
    """
    arguments = {**pipeline._internals.arguments.explicit, "seed": seed, "num_threads": num_threads}
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in ("device_id", "num_threads")
    }


def check_replacement(old: Endpoint, new: Endpoint) -> None:
    """Check that a dataset with the proxy of an old pipeline can send its samples to a new one.

    Raises:
        ArgumentMismatchError: the pipelines differ in inputs, outputs or batch size.
    """
    pairs = {
        **{name: (getattr(old, name), getattr(new, name)) for name in ("inputs", "outputs", "max_batch_size")},
        "num_processes": (old.processes, new.processes),
        "structure of the outputs": (places(old.structure), places(new.structure)),
    }
    for name, (before, after) in pairs.items():
        if before != after:
            raise ArgumentMismatchError(
                f"replace: the dataset and its workers keep their proxy, so {name} must stay {_text(before)}, and "
                f"can't become {_text(after)}: make a new server, a dataset with its proxy, and a loader of these"
            )


def _text(value: object) -> str:
    """Return a part of an endpoint in words: inputs by their names."""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else repr(value)
