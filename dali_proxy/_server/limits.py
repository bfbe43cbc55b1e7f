"""Checks of the limits that users set for a server, and deprecated names of arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dali_proxy._common.core_budget import Shares
from dali_proxy._common.memory_budget import fitting
from dali_proxy._host import HOSTS
from dali_proxy._transport.origin import MAX_SAMPLES
from dali_proxy.pipeline._cache.options import CacheOptions
from dali_proxy.pipeline._definition.serializing import with_graph
from dali_proxy.pipeline._ranks import current_ranks
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError, MissingSizeError

if TYPE_CHECKING:
    from dali_proxy.pipeline import Pipeline

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Memory of a thread of a pipeline, before it is measured: several times what a thread needs that decodes photographs.
THREAD_BYTES = 64 << 20

_LARGEST_BATCH = MAX_SAMPLES // 2  # at least two numbers describe the position of a sample


def check_sizes(pipeline: Pipeline) -> None:
    """Check that a pipeline has a batch size and a number of threads, and that its batches aren't too large.

    Raises:
        MissingSizeError: the batch size or the number of threads is missing.
        ArgumentValueError: the batches are larger than a message can describe.
    """
    for name, size in (("batch_size", pipeline.max_batch_size), ("num_threads", pipeline.num_threads)):
        if size < 1:
            given = f"'s {name} is 0" if size == 0 else f" has no {name}"
            raise MissingSizeError(f"DALIServer: the pipeline{given}: pass {name}= (1 or more) to it")
    if pipeline.max_batch_size > _LARGEST_BATCH:
        raise ArgumentValueError(
            f"DALIServer: the pipeline has a batch_size of {pipeline.max_batch_size}: a server takes {_LARGEST_BATCH} "
            "at most"
        )


def with_default_threads(pipeline: Pipeline, chosen: bool) -> Pipeline:
    """Return a pipeline that has a number of threads: in a distributed run, by default, the rank's share of cores.

    The default is smaller if the memory isn't enough for so many.

    Args:
        pipeline: the pipeline.
        chosen: whether the server changes the number, so that it begins with all cores.
    """
    if not chosen and (pipeline.num_threads >= 1 or not current_ranks().source):
        return pipeline
    shares = Shares.of_rank()
    threads = shares.num_threads if current_ranks().source else shares.core_budget
    return with_arguments(pipeline, num_threads=max(min(threads, fitting(THREAD_BYTES)), 1))


def with_cache(pipeline: Pipeline, cache: Any) -> Pipeline:
    """Return a pipeline with a server's argument `cache`; None keeps that of the pipeline.

    Raises:
        ArgumentValueError: the argument has a wrong size.
    """
    if cache is None:
        return pipeline
    return with_arguments(pipeline, cache=CacheOptions.from_argument(cache, "DALIServer: cache").plain())


def with_arguments(pipeline: Pipeline, **arguments: Any) -> Pipeline:
    """Return a pipeline with the same graph and seed, but other arguments of `Pipeline`, not built yet."""
    changed = with_graph(pipeline, pipeline._internals.graph, **arguments)
    changed._internals.builder.structure = pipeline._internals.builder.structure
    return changed


def check_choices(mode: str, restart: str, device: str | None) -> None:
    """Check the arguments of a server that are one of several words.

    Raises:
        ArgumentValueError: an argument has another value.
    """
    if mode not in HOSTS:
        raise ArgumentValueError(f'DALIServer: mode must be "process" or "thread", not {mode!r}')
    if restart not in ("never", "on-failure"):
        raise ArgumentValueError(f'DALIServer: restart must be "never" or "on-failure", not {restart!r}')
    if device not in ("cpu", None):
        raise ArgumentValueError(f'DALIServer: device must be "cpu" or None, not {device!r}')


def check_limits(timeout: float | None, num_workers: int | str, **sizes: int) -> None:
    """Check the limits of a server.

    Args:
        timeout: seconds, or None.
        num_workers: number of dataset workers, or "auto".
        **sizes: numbers of bytes, by the names of their arguments.

    Raises:
        ArgumentValueError: a limit is 0, negative or not a number.
    """
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ArgumentValueError(f"DALIServer: {name} must be a number of bytes, 1 or more, not {size!r}")
    if num_workers != "auto" and not (isinstance(num_workers, int) and num_workers >= 0):
        raise ArgumentValueError(f'DALIServer: num_workers must be 0 or more, or "auto", not {num_workers!r}')
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise ArgumentValueError(f"DALIServer: timeout must be seconds, more than 0, or None, not {timeout!r}")


def accept_old_names(**names: str) -> Callable[[_Function], _Function]:
    """Accept the deprecated names of keyword arguments, with a `DeprecationWarning`.

    Args:
        **names: new name for each deprecated name.

    Returns:
        A decorator. The function raises `ArgumentMismatchError` if a caller passes both names of an argument.
    """

    def decorate(function: _Function) -> _Function:
        @wraps(function)
        def translate(*args: Any, **kwargs: Any) -> Any:
            for old, new in names.items():
                if old not in kwargs:
                    continue
                if new in kwargs:
                    raise ArgumentMismatchError(f"pass {new} or {old}, not both: {old} is its old name")
                warnings.warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return cast("_Function", translate)

    return decorate
