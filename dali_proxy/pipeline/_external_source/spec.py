"""Descriptions of the sources of users, checked when the user defines the graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dali_proxy.pipeline._ipc.pickling import display_name
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

# Errors begin with DALI's words.
_WRONG_SOURCE = "The `source` must be callable, iterable or a parameterless generator function"
ONLY_PARALLEL = (
    "The argument `prefetch_queue_depth` is valid only for parallel external sources (when ``parallel`` is True)"
)


class Cycle(Enum):
    """Behaviour at the end of an iterable source."""

    NO = "no"
    """The epoch ends. The next epoch asks the same iterator again."""
    QUIET = "quiet"
    """The source restarts immediately."""
    RAISE = "raise"
    """The epoch ends, and the source restarts with the next epoch."""


@dataclass(frozen=True, eq=False)
class SourceSpec:
    """A source, and the way to read it.

    Attributes:
        source: object of the user.
        iterable: whether it is iterated over; otherwise it is called.
        takes_info: whether calls get an argument that identifies the requested sample or batch.
        batch: whether it returns batches; otherwise it returns samples.
        batch_info: whether calls for batches get a `BatchInfo`; otherwise they get the number of the iteration.
        num_outputs: number of values in the tuples that it returns; None if it returns single values.
        cycle: behaviour at its end.
        parallel: whether it runs in worker processes.
        prefetch_queue_depth: number of batches that worker processes prepare ahead.
    """

    source: Any
    iterable: bool
    takes_info: bool = False
    batch: bool = True
    batch_info: bool = False
    num_outputs: int | None = None
    cycle: Cycle = Cycle.NO
    parallel: bool = False
    prefetch_queue_depth: int = 1

    def iterate(self) -> Iterator[Any]:
        """Return an iterator over the source, from its start if possible."""
        source = self.source
        return iter(source() if callable(source) and not isinstance(source, Iterable) else source)

    @property
    def numbered(self) -> bool:
        """Whether each request says which data it needs, so that the source has no state that a checkpoint needs."""
        return not self.iterable and self.takes_info

    @property
    def display(self) -> str:
        """Name of the source in messages, with the file and line of its definition."""
        return display_name(self.source)


@dataclass(frozen=True)
class SourceOutput:
    """One of the values that a source returns, as the output of an `external_source` operator.

    Attributes:
        spec: the source. All operators that share it have the same object.
        output: index of the value.
    """

    spec: SourceSpec
    output: int = 0


def describe_source(
    source: Any,
    *,
    num_outputs: int | None = None,
    cycle: Any = None,
    batch: bool | None = None,
    batch_info: bool = False,
    parallel: bool = False,
    prefetch_queue_depth: int | None = None,
) -> SourceSpec:
    """Describe a source, and check that it can be read in the requested way.

    Raises:
        ArgumentTypeError: the source is neither callable nor iterable, or has the wrong parameters.
        ArgumentValueError: the arguments contradict each other.
    """
    iterable = _is_iterated(source)
    takes_info = False if iterable else _takes_info(source)
    if batch is None:
        batch = iterable or not parallel
    if num_outputs is not None and (isinstance(num_outputs, bool) or num_outputs < 1):
        raise ArgumentValueError(f"argument 'num_outputs' must be 1 or more, not {num_outputs!r}")
    policy = _cycle(cycle)
    if cycle is not None and not iterable:
        raise ArgumentValueError("argument 'cycle' needs an iterable source, but this one is a callable")
    if policy is not Cycle.NO and isinstance(source, Generator):
        raise ArgumentTypeError(
            "Cannot cycle through a generator - if the generator is a result of calling a generator function, pass "
            "that function instead as `source`."
        )
    if parallel:
        _check_parallel(iterable, takes_info, batch)
    elif prefetch_queue_depth is not None:
        raise ArgumentValueError(ONLY_PARALLEL)
    depth = 1 if prefetch_queue_depth is None else prefetch_queue_depth
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise ArgumentValueError(f"argument 'prefetch_queue_depth' must be 1 or more, not {depth!r}")
    return SourceSpec(
        source=source,
        iterable=iterable,
        takes_info=takes_info,
        batch=bool(batch),
        batch_info=bool(batch_info),
        num_outputs=num_outputs,
        cycle=policy,
        parallel=bool(parallel),
        prefetch_queue_depth=depth,
    )


def _is_iterated(source: Any) -> bool:
    if isinstance(source, type):  # an iterator class: each pass creates an instance
        if not issubclass(source, Iterable):
            raise ArgumentTypeError(f"{_WRONG_SOURCE}, but {source.__qualname__} is a class that isn't iterable")
        return True
    if isinstance(source, Iterable):
        return True
    if not callable(source):
        raise ArgumentTypeError(f"{_WRONG_SOURCE}, not {type(source).__name__}")
    call = source if inspect.isroutine(source) else type(source).__call__
    if not (inspect.isgeneratorfunction(source) or inspect.isgeneratorfunction(call)):
        return False
    if _required(source):
        raise ArgumentTypeError(f"{_WRONG_SOURCE}, but this generator function has parameters")
    return True


def _parameters(source: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(source).parameters.values())
    except (ValueError, TypeError):
        return []  # a function in C without a signature: call it without arguments


def _required(source: Callable[..., Any]) -> list[inspect.Parameter]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each for each in _parameters(source) if each.default is each.empty and each.kind not in variadic]


def _takes_info(source: Callable[..., Any]) -> bool:
    parameters = _parameters(source)
    kinds = inspect.Parameter
    positional = [each for each in parameters if each.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    refused = [each for each in _required(source) if each not in positional[:1]]
    refused += [each for each in parameters if each.kind is kinds.VAR_POSITIONAL]
    if refused:
        raise ArgumentTypeError(
            "The `source` callable must accept either 0 or 1 positional arguments to indicate whether it accepts the "
            f"batch or sample indexing information; the parameter {str(refused[0])!r} is one too many"
        )
    return bool(positional)


def _cycle(cycle: Any) -> Cycle:
    if cycle is None or isinstance(cycle, bool):
        return Cycle.QUIET if cycle else Cycle.NO
    try:
        return Cycle(cycle)
    except ValueError:
        raise ArgumentValueError(
            f'Invalid value {cycle!r} for the argument `cycle`. Valid values are "no" (or False), "quiet" (or True), '
            '"raise"'
        ) from None


def _check_parallel(iterable: bool, takes_info: bool, batch: bool) -> None:
    if iterable and not batch:
        raise ArgumentTypeError(
            "Parallel external source with an iterable must be run in a batch mode: several workers can't read single "
            "samples in order. Let it return batches (batch=True), or pass a callable that takes a SampleInfo"
        )
    if not iterable and not takes_info:
        raise ArgumentTypeError(
            "Callable passed to External Source in parallel mode (when `parallel=True`) must accept exactly one "
            "argument: "
            "a SampleInfo (batch=False), or the number of the iteration or a BatchInfo (batch=True)"
        )
