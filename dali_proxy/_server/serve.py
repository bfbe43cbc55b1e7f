"""`serve` and `attach`: running servers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dali_proxy._host.attached import read_description
from dali_proxy._server.naming import undescribed
from dali_proxy._server.server import DALIServer
from dali_proxy.pipeline import Pipeline


def serve(function: Callable[..., Any], **arguments: Any) -> DALIServer:
    """Return a running server for a function of `dali_proxy.dynamic`. Use it as a context manager, or call its `stop`.

    Args:
        function: function of one sample, which is traced; or a pipeline, with its own arguments.
        **arguments: for a function, arguments of its pipeline: `batch_size` (the largest batch, 64 by default),
            `num_threads` (by default the number of cores), `seed` (of random numbers; drawn by default), `device_id`
            (by default the current GPU if an operator needs one) and others of `dali_proxy.Pipeline`. Also the
            arguments of `DALIServer`; `num_workers` is "auto" by default.

    Raises:
        TracingError: the function can't be traced; the message names the line.

    Example:
        >>> with serve(augment, batch_size=64, seed=1) as server:  # doctest: +SKIP
        ...     dataset = ImageDataset(folder, transform=server.proxy)
    """
    server = DALIServer(function, **{"num_workers": "auto", **arguments})
    server.start()
    return server


def attach(name: str, pipeline: Pipeline | Callable[..., Any] | None = None, **arguments: Any) -> DALIServer:
    """Use the server process with a name, which another job of this user on this machine has started.

    Use the result like that of `serve`. This job has its own order, seed, batch size, speed and failures: its batches
    are those that its own server would return. If its process ends, the other jobs continue, and the server ends after
    the last job (or `linger` seconds later). What ends the server's process, such as a crash in a compiled library,
    ends it for all jobs.

    Args:
        name: the name that another process has passed to `DALIServer` or `serve`.
        pipeline: pipeline or function of `dali_proxy.dynamic` for this job; by default, that of the server.
        **arguments: arguments of `DALIServer`. Without a pipeline, also those of `Pipeline` that replace the server's,
            such as `seed` and `batch_size`.

    Raises:
        ServerClosedError: no server with this name runs.
        ProxyError: the server belongs to another release of dali-proxy or another version of Python.
        ArgumentMismatchError: the pipeline opens files or calls functions, and the server's process has another working
            directory or `sys.path`.

    Example:
        >>> with attach("imagenet", seed=8, batch_size=32) as server:  # doctest: +SKIP
        ...     dataset = ImageDataset(folder, transform=server.proxy)
        ...     for images, labels in DataLoader(server, dataset, batch_size=32, num_workers=2):
        ...         train(images, labels)
    """
    if pipeline is None:
        described = inspect.signature(Pipeline).parameters
        own = {each: arguments.pop(each) for each in [*arguments] if each in described}
        pipeline, options = undescribed(read_description(name), **own)
        arguments = options | arguments
    server = DALIServer(pipeline, name=name, attach=True, **arguments)
    assert server._name is not None  # it has a name
    server._name = replace(server._name, creates=False)
    server.start()
    return server


_SIZES = """\
    batch_size: for a function, the size of the largest batch.
    num_threads: for a function, threads of its pipeline; by default the number of cores.
    seed: for a function, the seed of its random numbers; drawn by default.
"""


def _signature() -> inspect.Signature:
    given = inspect.signature(serve)
    function, others = given.parameters.values()
    defaults: dict[str, Any] = {"batch_size": 64, "num_threads": None, "seed": None}
    sizes = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    of_server = inspect.signature(DALIServer).parameters.values()
    options = [each for each in of_server if each.kind is inspect.Parameter.KEYWORD_ONLY]
    options = [each.replace(default="auto") if each.name == "num_workers" else each for each in options]
    return given.replace(parameters=[function, *sizes, *options, others])


def _documentation() -> str:
    """Return the text of `serve` for its signature: with the named arguments of `DALIServer`."""
    described = inspect.getdoc(DALIServer) or ""
    options = described[described.index("    mode: ") : described.index("    **arguments: ")]
    return (inspect.getdoc(serve) or "").replace("    **arguments: ", f"{_SIZES}{options}    **arguments: ")


serve.__signature__ = _signature()  # type: ignore[attr-defined]
serve.__doc__ = serve.__doc__ and _documentation()  # none with python -OO
