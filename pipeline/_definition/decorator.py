"""`pipeline_def`: turns a function that describes a graph into one that makes pipelines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, overload

from pipeline._definition.conditional import convert
from pipeline._definition.pipeline import Pipeline
from pipeline.errors import ArgumentTypeError

__all__ = ["pipeline_def"]

_PIPELINE_ARGUMENTS = frozenset(inspect.signature(Pipeline.__init__).parameters) - {"self"} | {"enable_conditionals"}


@overload
def pipeline_def(fn: Callable[..., Any], **pipeline_kwargs: Any) -> Callable[..., Pipeline]: ...
@overload
def pipeline_def(
    fn: None = None, **pipeline_kwargs: Any
) -> Callable[[Callable[..., Any]], Callable[..., Pipeline]]: ...
def pipeline_def(fn: Callable[..., Any] | None = None, **pipeline_kwargs: Any) -> Any:
    """Decorate a function that describes a graph: calling it makes a `Pipeline`.

    Args:
        fn: function that calls operators and returns the outputs of the pipeline. Its own parameters win over
            parameters of `Pipeline` of the same name; it may not take ``**kwargs``.
        **pipeline_kwargs: arguments of `Pipeline`, and `enable_conditionals`: whether `if`, `and`, `or` and `not`
            may be used on data nodes, in this function and in those that it calls. The caller of the decorated
            function may override them.

    Returns:
        A function that takes the arguments of `fn` and those of `Pipeline`.

    Raises:
        ArgumentTypeError: for arguments that neither `fn` nor `Pipeline` has, or a graph function with ``**kwargs``.

    Example:
        >>> from pipeline import fn, pipeline_def
        >>> @pipeline_def(batch_size=4, num_threads=1, device_id=None)
        ... def doubled():
        ...     return fn.external_source(name="x") * 2
        >>> doubled(batch_size=8).max_batch_size
        8
    """
    if fn is None:
        return functools.partial(pipeline_def, **pipeline_kwargs)
    signature = inspect.signature(fn)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        raise ArgumentTypeError(
            f"the graph function {fn.__qualname__} takes **kwargs: name its arguments, so that they can't be confused "
            f"with Pipeline's"
        )
    own = {
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY
    }
    _check_known(pipeline_kwargs, fn.__qualname__)

    @functools.wraps(fn)
    def make(*args: Any, **kwargs: Any) -> Pipeline:
        for_graph = {name: value for name, value in kwargs.items() if name in own}
        for_pipeline = {name: value for name, value in kwargs.items() if name not in own}
        _check_known(for_pipeline, fn.__qualname__)
        arguments = {**pipeline_kwargs, **for_pipeline}
        describe = convert(fn) if arguments.pop("enable_conditionals", False) else fn
        pipe = Pipeline(**arguments)
        with pipe._internals.builder as builder:
            builder.set_returned(describe(*args, **for_graph), fn)
        return pipe

    return make


def _check_known(arguments: dict[str, Any], function: str) -> None:
    unknown = sorted(set(arguments) - _PIPELINE_ARGUMENTS)
    if unknown:
        raise ArgumentTypeError(
            f"{function}: unexpected argument {unknown[0]!r}; neither the graph function nor Pipeline has an argument "
            f"of this name"
        )
