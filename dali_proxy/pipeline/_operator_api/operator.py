"""Base classes of operators. An instance belongs to one node of one executor.

A `SampleOperator` processes one sample at a time, on many threads; consecutive ones run as a chain, sample by sample.
A `BatchOperator` processes a full batch; all operators on the GPU are batch operators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline.tensors.cpu import Array

if TYPE_CHECKING:
    from dali_proxy.pipeline._cuda.context import KernelContext
    from dali_proxy.pipeline._graph.graph import GraphNode
    from dali_proxy.pipeline._operator_api.batch import Batch
    from dali_proxy.pipeline._operator_api.request import Announcement, BatchRequest, ExecutorConfig, TensorList
    from dali_proxy.pipeline.tensors.cpu import TensorListCPU

State = TypeVar("State")


class FunctionProcesses(Protocol):
    """Worker processes that run functions of the user, such as a `FunctionPool`."""

    def runs(self, node: GraphNode) -> bool:
        """Return whether the function of an operator may run in the processes."""

    def give_up(self, node: GraphNode) -> None:
        """Note that an operator won't use the processes."""

    def run(
        self, node: GraphNode, request: BatchRequest, size: int, inputs: Sequence[TensorListCPU], seeds: Array
    ) -> list[TensorList]:
        """Process a batch; see `FunctionPool`."""


@dataclass(frozen=True)
class Setup:
    """The environment of an operator, known when it is created.

    Attributes:
        max_batch_size: upper limit of the batch size.
        num_threads: number of threads of the CPU stage.
        device_id: GPU, or None.
        seed: seed of the pipeline.
        kernels: context that runs kernels, shared by all operators of an executor; None without a GPU.
        seeded: whether functions of the user get seeded generators in this process, too.
        functions: processes for functions of the user, or None.
        gpu_streams: number of CUDA streams that the batches share.
        stream_priority: priority of these streams, and of those that an operator creates.
    """

    max_batch_size: int
    num_threads: int
    device_id: int | None
    seed: int
    kernels: KernelContext | None = None
    seeded: bool = True
    functions: FunctionProcesses | None = None
    gpu_streams: int = 1
    stream_priority: int = 0

    @classmethod
    def from_config(
        cls, config: ExecutorConfig, kernels: KernelContext | None, functions: FunctionProcesses | None
    ) -> Setup:
        """Return the environment that an executor provides."""
        sizes = (config.max_batch_size, config.num_threads, config.device_id, config.seed)
        return cls(*sizes, kernels, config.seeded, functions, config.gpu_streams, config.stream_priority)

    @property
    def reading_gpu(self) -> int | None:
        """The GPU if an operator of the executor uses it, so that memory may be pinned for it; else None."""
        return None if self.kernels is None else self.device_id


@dataclass(frozen=True)
class OutputSpec:
    """Description of an output, as far as it is known before a batch runs.

    Attributes:
        layout: names of the dimensions, or an empty string.
        shape: shape of every sample, if it is known and the same for all samples.
        dtype: dtype, if known.
        extents: known extents of the samples, if the shape isn't fully known: None for each dimension where the extent
            is unknown or varies. A decoder knows the channels, but neither height nor width.
    """

    layout: str = ""
    shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None
    extents: tuple[int | None, ...] | None = None

    @property
    def dense(self) -> bool:
        """Whether memory for the output can be allocated before the batch runs."""
        return self.shape is not None and self.dtype is not None


class Operator(ABC):
    """An operator of either kind."""

    #: What holds for all operators of the class.
    traits: ClassVar[Traits] = Traits()
    #: Names of the traits that a class may have.
    supported_traits: ClassVar[tuple[str, ...]]

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        self.node = node
        self.setup = setup
        if node.schema.check is not None:
            node.schema.check(node)


@runtime_checkable
class LooksAhead(Protocol):
    """An operator that uses what it knows of later batches, for speed only."""

    def look_ahead(self, batch: Batch) -> Announcement | None:
        """Note a batch that waits and has no executor. Keep no references to its inputs."""


class SampleOperator(Operator, Generic[State]):
    """A CPU operator that computes each sample of its outputs from the same sample of its inputs.

    Args:
        node: node of the graph.
        setup: sizes and devices.

    Attributes:
        inner: whether its outputs may have any strides: only operators with `any_strides` in its chain read them.
    """

    supported_traits: ClassVar[tuple[str, ...]] = ("waits", "elementwise", "any_strides")

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self.inner = False

    @abstractmethod
    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[State, Sequence[OutputSpec]]:
        """Prepare a batch: evaluate the arguments of all samples at once, and describe the outputs.

        Args:
            batch: size, arguments and random numbers.
            inputs: descriptions of the inputs, possibly without shapes.

        Returns:
            The state for `run`, and a description of each output.
        """

    @abstractmethod
    def run(self, state: State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array | tuple[Array, ...]:
        """Compute one sample. Many threads call this at once; release the GIL in expensive parts.

        Args:
            state: state that `start` returned.
            sample: position in the batch.
            inputs: samples of the inputs; read-only.
            out: memory for the result, if its shape was known (for operators with one output). Write the result to it
                and return it; returning another array costs a copy.

        Returns:
            An array for each output, with the shape and dtype that `start` described.
        """


class BatchOperator(Operator):
    """An operator on full batches: all GPU operators, and CPU operators that draw or combine small values."""

    supported_traits: ClassVar[tuple[str, ...]] = ("waits", "any_thread", "in_order", "per_sample")

    @property
    def runs_in_processes(self) -> bool:
        """Whether other processes run the user's code, each with a copy of its state, so that no order is needed."""
        return False

    @abstractmethod
    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Compute the outputs, each a `TensorListCPU` or `TensorListGPU`.

        A GPU operator issues its work on ``batch.stream`` and doesn't wait for it.
        """
