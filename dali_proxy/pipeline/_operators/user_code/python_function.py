"""`python_function` and variants: user functions on arrays, DLPack capsules or torch tensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dali_proxy.pipeline._declaration import (
    DETERMINISTIC,
    RANDOM_STATE,
    REQUIRED,
    Argument,
    Input,
    Kind,
    OperatorSchema,
    declare_operator,
    implements,
)
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline._user_functions.call import FunctionCall
from dali_proxy.pipeline._user_functions.seeding import Caller, GlobalGenerators, SeededCaller, Seeds
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

_MEASURED = 8  # calls of a function that are measured; compilers and caches make the first ones slow
_WORTH_SENDING = 0.0005  # seconds of a call from which on another process is faster, as benchmarks show


def _outputs(arguments: Mapping[str, Any]) -> int:
    return int(arguments.get("num_outputs", 1))


def _declare(name: str, doc: str, batches: bool, *arguments: Argument, hidden: bool = False) -> OperatorSchema:
    doc += """

The function receives a sample of each input, or with `batch_processing` a list of samples of each input. It returns an
output, or a tuple or list of `num_outputs` outputs. It processes the samples of a batch one after another, unless it
runs in worker processes. It may modify its arguments. It runs even if no output of the pipeline depends on it.

If the pipeline has a seed, or the function runs in a server or in worker processes, then `random`, `numpy.random` and
torch's generators are seeded for each sample (for each batch with `batch_processing`), as the operators' own random
numbers are."""
    return declare_operator(
        name=name,
        doc=doc,
        inputs=(Input("data", "Samples of any shape.", optional=True),),
        arguments=(
            Argument("function", Kind.OBJECT, "The function.", REQUIRED),
            Argument("num_outputs", Kind.INT, "Number of outputs that the function returns, or 0.", 1),
            Argument("batch_processing", Kind.BOOL, "Call the function once per batch, with lists.", batches),
            Argument("output_layouts", Kind.STRINGS, "Layouts of the outputs, or of the first ones."),
            Argument(
                "parallel",
                Kind.BOOL,
                "Run the function in worker processes of the pipeline, as many as `py_num_workers` or "
                "`num_threads`, whichever is more. By default, a server measures whether functions of samples are "
                "faster there, and other pipelines call functions in their own process.",
            ),
            Argument(
                "timeout",
                Kind.FLOAT,
                "Seconds that a call may take in a worker process. Then the process is killed, and the error "
                "shows its stack. No limit by default.",
            ),
            Argument(
                DETERMINISTIC,
                Kind.BOOL,
                "Promise that the outputs for a sample depend on nothing but this sample's inputs and the function's "
                "code, so that a cache may keep them. The function isn't called for what the cache has.",
                False,
            ),
            *arguments,
        ),
        devices=("cpu", "gpu"),
        outputs=_outputs,
        variadic=True,
        side_effects=True,
        random=True,
        hidden=hidden,
        class_parameters=(
            ("function", None),
            ("num_outputs", 1),
            ("device", None),
            *((each.name, each.default) for each in arguments),
            ("batch_processing", batches),
        ),
    )


_SYNCHRONIZE = Argument("synchronize_stream", Kind.BOOL, "On the GPU, wait for the inputs before the call.", True)
PYTHON_FUNCTION = _declare(
    "python_function", "Runs a Python function on NumPy arrays, on the GPU on CuPy arrays.", False
)
DL_TENSOR_PYTHON_FUNCTION = _declare(
    "dl_tensor_python_function", "Runs a Python function on DLPack capsules.", True, _SYNCHRONIZE
)
TORCH_PYTHON_FUNCTION = _declare(
    "torch_python_function", "Runs a Python function on torch tensors.", False, hidden=True
)


class _PythonFunction(BatchOperator):
    """Calls the function for each sample, or once per batch, in this process or in worker processes."""

    traits = Traits(in_order=True, waits=True)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        function, count = node.argument("function"), _outputs(node.arguments)
        layouts, timeout = node.argument("output_layouts") or (), node.argument("timeout")
        if not callable(function):
            raise ArgumentTypeError(f"argument 'function' must be callable, not {type(function).__name__}")
        if count < 0:
            raise ArgumentValueError(f"argument 'num_outputs' must be 0 or more, not {count}")
        if len(layouts) > count:
            raise ArgumentValueError(f"{len(layouts)} output_layouts for {count} outputs")
        if timeout is not None and timeout <= 0:
            raise ArgumentValueError(f"argument 'timeout' must be more than 0 seconds, not {timeout:g}")
        if node.argument("parallel") and node.device != "cpu":
            raise ArgumentValueError("parallel=True is for functions on the CPU; the GPU runs in parallel anyway")
        device_id = (setup.device_id or 0) if node.device == "gpu" else None
        self._call = FunctionCall.from_node(node, device_id)
        self._seeded = setup.seeded or node.own_seed is not None
        self._processes = setup.functions
        self._trial = _Trial() if node.argument("parallel") is None else None

    @property
    def runs_in_processes(self) -> bool:
        processes = self._processes
        if processes is None or not processes.runs(self.node):
            return False
        return self._trial is None or self._trial.is_slow

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        processes = self._processes
        if processes is not None and not processes.runs(self.node):
            self._processes = processes = None
        if processes is not None and self.runs_in_processes:
            return processes.run(self.node, batch.request, batch.size, inputs, self._seeds(batch))
        trial = None if processes is None else self._trial
        outputs = self._run_here(batch, inputs, trial or Caller())
        if processes is not None and trial is not None and trial.is_fast:
            processes.give_up(self.node)
        return outputs

    def _run_here(self, batch: Batch, inputs: Sequence[Any], caller: Caller) -> list[TensorList]:
        if not self._seeded and RANDOM_STATE.name not in self.node.arguments:
            return self._call.run(inputs, batch.size, caller, batch.stream)
        seeds = self._seeds(batch)
        on_gpu = self.node.device == "gpu"
        generators = GlobalGenerators(gpu=on_gpu, cupy=on_gpu, exclusive=not batch.nested)
        with generators.turn, generators:
            return self._call.run(inputs, batch.size, SeededCaller(generators, seeds, caller), batch.stream)

    def _seeds(self, batch: Batch) -> Seeds:
        if self._call.batch_processing:
            return batch.random_numbers(self.node).words(1)
        return batch.sample_seeds(self.node)


class _Trial(Caller):
    """Measures the first calls of a function, to decide whether it runs in worker processes."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def call(self, number: int, function: Callable[..., Any], arguments: Callable[[], Sequence[Any]]) -> Any:
        begin = time.perf_counter()
        returned = super().call(number, function, arguments)
        if len(self._seconds) < _MEASURED:
            self._seconds.append(time.perf_counter() - begin)
        return returned

    @property
    def is_slow(self) -> bool:
        """Whether the function is known to take longer than sending a sample to another process."""
        return len(self._seconds) >= _MEASURED and sorted(self._seconds)[_MEASURED // 2] >= _WORTH_SENDING

    @property
    def is_fast(self) -> bool:
        """Whether it is known to take less time."""
        return len(self._seconds) >= _MEASURED and not self.is_slow


@implements(PYTHON_FUNCTION, "cpu", "gpu")
class PythonFunction(_PythonFunction):
    """Runs a function on arrays; on the GPU, in the stream of the batch."""


@implements(DL_TENSOR_PYTHON_FUNCTION, "cpu", "gpu")
class DLTensorPythonFunction(_PythonFunction):
    """Runs a function on capsules."""


@implements(TORCH_PYTHON_FUNCTION, "cpu", "gpu")
class TorchPythonFunction(_PythonFunction):
    """Runs a function on tensors; on the GPU, torch's current stream is that of the batch."""
