"""`serve`: a running server for a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from dali_proxy._server.server import DALIServer


def serve(function: Callable[..., Any], **arguments: Any) -> DALIServer:
    """Return a running server for a function of `dali_proxy.dynamic`. Use it as a context manager, or call its `stop`.

    Args:
        function: function of one sample, which is traced; or a pipeline, with its own arguments.
        **arguments: for a function, arguments of its pipeline: `batch_size` (the largest batch, 64 by default),
            `num_threads` (by default the number of cores), `seed` (of random numbers; drawn by default), `device_id`
            (by default the current GPU if an operator needs one) and others of `dali_proxy.Pipeline`. Also the
            arguments of `DALIServer`, such as `mode`, `num_workers`, `placement` and `restart`.

    Raises:
        TracingError: the function can't be traced; the message names the line.

    Example:
        >>> with serve(augment, batch_size=64, seed=1) as server:  # doctest: +SKIP
        ...     dataset = ImageDataset(folder, transform=server.proxy)
    """
    server = DALIServer(function, **arguments)
    server.start()
    return server


def _signature() -> inspect.Signature:
    given = inspect.signature(serve)
    function, others = given.parameters.values()
    defaults = {"batch_size": 64, "num_threads": None, "seed": None}
    sizes = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    of_server = inspect.signature(DALIServer).parameters.values()
    options = [each for each in of_server if each.kind is inspect.Parameter.KEYWORD_ONLY]
    return given.replace(parameters=[function, *sizes, *options, others])


serve.__signature__ = _signature()  # type: ignore[attr-defined]
