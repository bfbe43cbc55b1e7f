"""`operator_def`: the user's own operators, from functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from dali_proxy.pipeline._dynamic.arrays import is_array
from dali_proxy.pipeline._dynamic.calling import call
from dali_proxy.pipeline._graph.current import current_builder
from dali_proxy.pipeline._graph.input_sets import call_operator
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operators.user_code.python_function import PYTHON_FUNCTION, TORCH_PYTHON_FUNCTION
from dali_proxy.pipeline._user_functions.bound import BoundFunction, InputNumber
from dali_proxy.pipeline._user_functions.libraries import LibraryTransform, adapt
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

_SCHEMAS = {"numpy": PYTHON_FUNCTION, "torch": TORCH_PYTHON_FUNCTION}


class Operator:
    """An operator that the user has defined with `operator_def`.

    In the description of a pipeline, and with tensors of dynamic mode, a call adds the operator or runs it. Arguments
    that are data nodes or tensors are its inputs; the function gets all other arguments as they are. Elsewhere, a call
    is a call of the function.
    """

    def __init__(self, function: Callable[..., Any] | LibraryTransform, framework: str, **arguments: Any) -> None:
        self._function = function
        self._schema = _SCHEMAS[framework]
        self._arguments = {name: value for name, value in arguments.items() if value is not None}
        wrapped = function.transform if isinstance(function, LibraryTransform) else function
        functools.update_wrapper(self, wrapped)
        self.__name__ = getattr(wrapped, "__name__", None) or type(wrapped).__name__

    __name__: str
    __wrapped__: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        dynamic = any(map(is_array, values))
        if not dynamic and current_builder() is None and not any(isinstance(each, DataNode) for each in values):
            return self.__wrapped__(*args, **kwargs)
        inputs: list[Any] = []

        def bound(value: Any) -> Any:
            if not (is_array(value) or isinstance(value, DataNode)):
                return value
            inputs.append(value)
            return InputNumber(len(inputs) - 1)

        positional = tuple(map(bound, args))
        keywords = {name: bound(value) for name, value in kwargs.items()}
        arguments = {"num_outputs": 1, **self._arguments}
        if isinstance(self._function, LibraryTransform):
            if len(inputs) < len(values):
                raise ArgumentTypeError(f"{self.__name__}: all arguments of a library's transform must be data")
            arguments = {"num_outputs": len(inputs), **self._arguments}
        arguments["function"] = BoundFunction(self._function, positional, keywords)
        if dynamic:
            return call(self._schema, inputs, arguments)
        return call_operator(self._schema, inputs, arguments)

    def __repr__(self) -> str:
        return f"<operator {self.__name__}>"


@overload
def operator_def(function: Callable[..., Any], /) -> Operator: ...


@overload
def operator_def(
    function: None = None,
    /,
    *,
    framework: str = ...,
    num_outputs: int | None = ...,
    batch_processing: bool = ...,
    output_layouts: str | list[str] | tuple[str, ...] | None = ...,
    device: str | None = ...,
    parallel: bool | None = ...,
    timeout: float | None = ...,
    seed: int | None = ...,
) -> Callable[[Callable[..., Any]], Operator]: ...


@overload
def operator_def(
    function: Callable[..., Any],
    /,
    *,
    framework: str = ...,
    num_outputs: int | None = ...,
    batch_processing: bool = ...,
    output_layouts: str | list[str] | tuple[str, ...] | None = ...,
    device: str | None = ...,
    parallel: bool | None = ...,
    timeout: float | None = ...,
    seed: int | None = ...,
) -> Operator: ...


def operator_def(
    function: Callable[..., Any] | None = None,
    /,
    *,
    framework: str = "numpy",
    num_outputs: int | None = None,
    batch_processing: bool = False,
    output_layouts: str | list[str] | tuple[str, ...] | None = None,
    device: str | None = None,
    parallel: bool | None = None,
    timeout: float | None = None,
    seed: int | None = None,
) -> Operator | Callable[[Callable[..., Any]], Operator]:
    """Decorator: make a function an operator for pipelines and for dynamic mode.

    The function gets one sample of each input and returns a sample, or a tuple of `num_outputs` samples. It may
    modify its arguments, which are copies. Its random numbers from `random`, `numpy.random` and torch are seeded for
    each sample, as those of `fn.random`, if the pipeline has a seed or belongs to a server. An output has the layout of
    its input.

    A transform of torchvision v2, Kornia or Albumentations becomes an operator, too. It transforms all inputs
    together: ``operator_def(transform)(images, masks)``. Keywords say what an input is: ``image=``, ``mask=``,
    ``boxes=`` (torchvision: XYXY in pixels), or any other name that Albumentations accepts.

    Args:
        function: the function, or a transform of one of these libraries.
        framework: "numpy": arguments are NumPy arrays, on the GPU CuPy arrays; "torch": tensors. Results may be either.
        num_outputs: number of outputs; 1 by default, or for a library's transform the number of inputs.
        batch_processing: whether the function gets and returns lists with all samples of the batch.
        output_layouts: layouts of the outputs, such as "HWC".
        device: "cpu" or "gpu"; by default that of the inputs.
        parallel: whether it runs in worker processes of the pipeline. By default, a server measures what is faster.
        timeout: seconds that a call may take in a worker process; by default any time.
        seed: seed of the function's random numbers; by default derived from the pipeline's.

    Returns:
        The operator, or a decorator if there is no function.

    Raises:
        ArgumentTypeError, ArgumentValueError: an argument can't be used.

    Example:
        >>> import numpy as np
        >>> from dali_proxy import fn, operator_def, pipeline_def
        >>> @operator_def
        ... def noisy(image, sigma):
        ...     return image + np.random.normal(0, sigma, image.shape).astype(np.float32)
        >>> @pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1)
        ... def pipe():
        ...     image = fn.constant(fdata=[1, 2], shape=[2])
        ...     return noisy(image, sigma=fn.random.uniform(range=[0, 1]))
        >>> pipe().run()[0].shape()
        [(2,), (2,)]
    """
    if framework not in _SCHEMAS:
        raise ArgumentValueError(f'operator_def: framework must be "numpy" or "torch", not {framework!r}')

    def define(function: Callable[..., Any]) -> Operator:
        if not callable(function):
            raise ArgumentTypeError(f"operator_def needs a function, not {type(function).__name__}")
        adapted = adapt(function)
        return Operator(
            adapted,
            adapted.framework if isinstance(adapted, LibraryTransform) else framework,
            num_outputs=num_outputs,
            batch_processing=batch_processing,
            output_layouts=output_layouts,
            device=device,
            parallel=parallel,
            timeout=timeout,
            seed=seed,
        )

    return define if function is None else define(function)
