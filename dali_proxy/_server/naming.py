"""Servers with names: their arguments, and their description for jobs that bring no pipeline."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dali_proxy._common.named_sockets import check_name
from dali_proxy._host import Name
from dali_proxy._server.limits import with_arguments
from dali_proxy._server.placement import calls_the_user
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._definition.serializing import deserialize_for_host, serialize_for_host
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError

if TYPE_CHECKING:
    from dali_proxy._transport.endpoint import Endpoint
    from dali_proxy.pipeline import Pipeline
    from dali_proxy.pipeline._graph.graph import Graph

_LONGEST = 1e6  # seconds: the system counts them in milliseconds, as 32 bits


def as_name(name: str | None, attach: bool, linger: float, mode: str, cluster: object) -> Name:
    """Return the name of a server, from the arguments of `DALIServer`.

    Raises:
        ArgumentValueError: the name or `linger` isn't valid.
        ArgumentMismatchError: other arguments make it impossible.
    """
    if name is None:
        raise ArgumentMismatchError("DALIServer: attach= and linger= need a name=")
    if mode == "thread" or cluster is not None:
        raise ArgumentMismatchError(
            'DALIServer: name= is for a server process on this machine: leave out mode="thread" and cluster='
        )
    if isinstance(linger, bool) or not isinstance(linger, int | float) or not linger >= 0:
        raise ArgumentValueError(f"DALIServer: linger must be a number of seconds, 0 or more, not {linger!r}")
    return Name(check_name(name), float(linger) if linger <= _LONGEST else float("inf"), attaches=bool(attach))


def described(name: Name, pipeline: Pipeline, endpoint: Endpoint, placement: str) -> Name:
    """Return a name with what the server's process must know of the pipeline of a job.

    Args:
        name: the name.
        pipeline: the pipeline.
        endpoint: endpoint of the job.
        placement: placement of the pipeline's stages.
    """
    internals = pipeline._internals
    graph = internals.graph
    options = {
        "arena_bytes": endpoint.arena_bytes,
        "arena_bytes_limit": endpoint.arena_bytes_limit,
        "timeout": endpoint.timeout,
        "placement": placement,
    }
    description = b""
    if name.creates:
        description = pickle.dumps((serialize_for_host(pipeline), internals.builder.structure, options))
    in_server = placement in ("server", "auto") and not internals.on_cpu
    return replace(
        name,
        description=description,
        opens_files=_opens_files(graph),
        calls_functions=calls_the_user(graph),
        uses_gpu=in_server and internals.arguments.device_id is not None,
    )


def undescribed(description: bytes, **arguments: Any) -> tuple[Pipeline, dict[str, Any]]:
    """Return the pipeline of a description, and the options of its server.

    Args:
        description: from `described`. Reading it runs code.
        **arguments: arguments of `Pipeline`, in place of those of the description.
    """
    serialized, structure, options = pickle.loads(description)
    pipeline = deserialize_for_host(serialized)
    pipeline._internals.builder.structure = structure
    return with_arguments(pipeline, **arguments), options


def _opens_files(graph: Graph) -> bool:
    return any(node.schema.is_reader or node.schema.role is Role.FILE_READ for node in graph.nodes)
