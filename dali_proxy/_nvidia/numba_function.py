"""`numba_function` of NVIDIA's plugin for Numba: a user's function that Numba compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline import fn
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._optional import optional_package
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, InputError
from dali_proxy.pipeline.types import DALIDataType, to_numpy_type

Array = npt.NDArray[Any]


class NumbaFunction:
    """Calls a function that writes to its outputs, compiled by Numba, on the CPU.

    Args:
        run_fn: function that gets the outputs, which it fills, and then the inputs. Each is an array or, with
            `batch_processing`, a list of arrays.
        out_types: dtypes of the outputs.
        in_types: dtypes of the inputs.
        outs_ndim: numbers of dimensions of the outputs.
        ins_ndim: numbers of dimensions of the inputs.
        setup_fn: function that gets the shapes of the outputs, which it sets, and then the shapes of the inputs. Both
            are lists with one array for each output or input. Each row of an array is the shape of a sample. Without
            this function, outputs have the shapes of the inputs.
        device: "cpu".
        batch_processing: whether `run_fn` processes a batch instead of a sample.
        blocks: ignored, because it is for GPUs.
        threads_per_block: ignored, because it is for GPUs.
        **arguments: further arguments of `fn.python_function`.

    Raises:
        ArgumentTypeError, ArgumentValueError: an argument can't be used.
    """

    def __init__(
        self,
        run_fn: Callable[..., Any],
        out_types: DALIDataType | Sequence[DALIDataType],
        in_types: DALIDataType | Sequence[DALIDataType],
        outs_ndim: int | Sequence[int],
        ins_ndim: int | Sequence[int],
        setup_fn: Callable[..., Any] | None = None,
        device: str = "cpu",
        batch_processing: bool = False,
        blocks: Any = None,
        threads_per_block: Any = None,
        **arguments: Any,
    ) -> None:
        if device != "cpu":
            raise ArgumentValueError(f'numba_function: Unsupported device type: "{device}". It must be cpu')
        if not callable(run_fn) or not (setup_fn is None or callable(setup_fn)):
            raise ArgumentTypeError("numba_function: run_fn and setup_fn must be functions")
        self._functions = run_fn, setup_fn
        self._outputs = list(zip(_listed(out_types), _listed(outs_ndim), strict=True))
        self._inputs = list(zip(_listed(in_types), _listed(ins_ndim), strict=True))
        self._batches = batch_processing
        self._arguments = arguments

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        """Add the operator to the graph. Return its output, or a list of its outputs."""
        return fn.python_function(
            *inputs,
            function=self._run,
            num_outputs=len(self._outputs),
            batch_processing=True,
            **{**self._arguments, **arguments},
        )

    @cached_property
    def _compiled(self) -> tuple[Any, Any, Any]:
        """The compiled functions, and Numba's list type."""
        numba = optional_package("numba", "numba_function", "numba")
        run, setup = (None if each is None else numba.njit(nogil=True)(each) for each in self._functions)
        return run, setup, optional_package("numba.typed", "numba_function", "numba").List

    def _run(self, *inputs: list[Array]) -> tuple[list[Array], ...]:
        run, _, make_list = self._compiled
        for number, (samples, (dtype, ndim)) in enumerate(zip(inputs, self._inputs, strict=True)):
            for sample in samples:
                if sample.dtype != to_numpy_type(dtype) or sample.ndim != ndim:
                    raise InputError(
                        f"numba_function: input {number} is {sample.dtype} with {sample.ndim} dimensions, but was "
                        f"declared as {dtype!r} with {ndim}"
                    )
        shapes = self._shapes([[sample.shape for sample in samples] for samples in inputs])
        outputs = tuple(
            [np.zeros(shape, to_numpy_type(dtype)) for shape in of_output.tolist()]
            for of_output, (dtype, _) in zip(shapes, self._outputs, strict=True)
        )
        if self._batches:
            run(*(make_list(samples) for samples in (*outputs, *inputs)))
        else:
            for arrays in zip(*outputs, *inputs, strict=True):
                run(*arrays)
        return outputs

    def _shapes(self, of_inputs: list[list[tuple[int, ...]]]) -> list[Array]:
        """Return the shapes of the outputs: for each, an array with the shape of a sample in each row."""
        _, setup, make_list = self._compiled
        known = [np.array(shapes, np.int64).reshape(len(shapes), -1) for shapes in of_inputs]
        if setup is None:
            return known[: len(self._outputs)]
        result = make_list([np.zeros((len(known[0]), ndim), np.int64) for _, ndim in self._outputs])
        setup(result, make_list(known))
        return list(result)

    @staticmethod
    def _check_minimal_numba_version(throw: bool = True) -> bool:
        return True

    @staticmethod
    def _check_cuda_compatibility(throw: bool = True) -> bool:
        """Return False: functions run on the CPU only."""
        return False


def numba_function(*inputs: Any, **arguments: Any) -> Any:
    """Call a function that Numba compiles. The arguments are those of `NumbaFunction`."""
    own = {key: arguments.pop(key) for key in ("name", "preserve") if key in arguments}
    return NumbaFunction(**arguments)(*inputs, **own)


numba_function._schema_name = "NumbaFunction"  # type: ignore[attr-defined]  # DALI's name


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) else [value]
