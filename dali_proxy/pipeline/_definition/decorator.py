"""`pipeline_def`: turns a function that describes a graph into one that creates pipelines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, overload

from dali_proxy.pipeline._definition.conditional import convert
from dali_proxy.pipeline._definition.debug_pipeline import DebugPipeline
from dali_proxy.pipeline._definition.pipeline import Pipeline
from dali_proxy.pipeline._listing import did_you_mean
from dali_proxy.pipeline.errors import ArgumentTypeError

_PIPELINE_ARGUMENTS = frozenset(inspect.signature(Pipeline.__init__).parameters) - {"self"} | {
    "debug",
    "enable_conditionals",
}


@overload
def pipeline_def(fn: Callable[..., Any], **pipeline_kwargs: Any) -> Callable[..., Pipeline]: ...
@overload
def pipeline_def(
    fn: None = None, **pipeline_kwargs: Any
) -> Callable[[Callable[..., Any]], Callable[..., Pipeline]]: ...
def pipeline_def(fn: Callable[..., Any] | None = None, **pipeline_kwargs: Any) -> Any:
    """Decorate a function that describes a graph. A call of the decorated function creates a `Pipeline`.

    Args:
        fn: function that calls operators and returns the outputs of the pipeline. Its own parameters take precedence
            over parameters of `Pipeline` of the same name; it may not take ``**kwargs``.
        **pipeline_kwargs: arguments of `Pipeline`, and two more. `enable_conditionals`: whether `if`, `and`, `or` and
            `not` work on data nodes, in this function and in the functions that it calls. `debug`: whether to call
            `fn` for every batch and run each operator when it is called; then nodes have a method `get`, which returns
            their data. The caller of the decorated function may override these arguments.

    Returns:
        A function that takes the arguments of `fn` and those of `Pipeline`.

    Raises:
        ArgumentTypeError: `Pipeline` has no such argument. A call of the decorated function also raises it if `fn`
            takes ``**kwargs``, or if neither `fn` nor `Pipeline` has an argument.

    Example:
        >>> from dali_proxy import fn, pipeline_def
        >>> @pipeline_def(batch_size=4, num_threads=1, device_id=None)
        ... def doubled():
        ...     return fn.external_source(name="x") * 2
        >>> doubled(batch_size=8).max_batch_size
        8
    """
    if fn is None:
        return functools.partial(pipeline_def, **pipeline_kwargs)
    signature = inspect.signature(fn)
    variadic = [each.name for each in signature.parameters.values() if each.kind is inspect.Parameter.VAR_KEYWORD]
    own = {
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY
    }
    check_known(pipeline_kwargs, fn.__qualname__)

    @functools.wraps(fn)
    def create(*args: Any, **kwargs: Any) -> Pipeline:
        if variadic:
            raise ArgumentTypeError(
                f"Using variadic keyword argument `**{variadic[0]}` in a graph-defining function is not allowed. "
                f"{fn.__qualname__}: name its arguments, so that they can't be confused with Pipeline's"
            )
        graph_arguments = {name: value for name, value in kwargs.items() if name in own}
        pipeline_arguments = {name: value for name, value in kwargs.items() if name not in own}
        check_known(pipeline_arguments, fn.__qualname__, own)
        arguments = {**pipeline_kwargs, **pipeline_arguments}
        conditional = bool(arguments.pop("enable_conditionals", False))
        describe = convert(fn) if conditional else fn
        if arguments.pop("debug", False):
            return DebugPipeline(functools.partial(describe, *args, **graph_arguments), fn, conditional, **arguments)
        pipe = Pipeline(**arguments)
        with pipe._internals.builder as builder:
            builder.set_returned(describe(*args, **graph_arguments), fn)
        return pipe

    vars(create)["_is_pipeline_def"] = True  # as in DALI
    return create


def check_known(arguments: dict[str, Any], function: str, own: Iterable[str] = ()) -> None:
    """Raise an error if `Pipeline` doesn't have an argument.

    Args:
        arguments: arguments for `Pipeline` and `pipeline_def`.
        function: name of the function that they come with.
        own: names of other arguments, which are suggested, too.

    Raises:
        ArgumentTypeError: `Pipeline` doesn't have an argument.
    """
    unknown = sorted(set(arguments) - _PIPELINE_ARGUMENTS)
    if unknown:
        raise ArgumentTypeError(
            f"{function}: unexpected argument {unknown[0]!r}; neither the function nor Pipeline has an argument of "
            f"this name{did_you_mean(unknown[0], [*own, *_PIPELINE_ARGUMENTS])}"
        )
