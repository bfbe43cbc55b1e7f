"""What an implementation of an operator is: a class whose instances belong to one node of one executor.

`SampleOperator` works on one sample of a batch at a time and is run on many threads; consecutive ones are run as a
chain, a sample at a time. `BatchOperator` works on a whole batch; every operator on the GPU is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from pipeline.tensors.cpu import Array

if TYPE_CHECKING:
    from pipeline._graph.graph import GraphNode
    from pipeline._kernels import KernelContext
    from pipeline._operator_api.batch import Batch

__all__ = ["BatchOperator", "OutputSpec", "SampleOperator", "Setup"]

State = TypeVar("State")


@dataclass(frozen=True)
class Setup:
    """What an implementation may know when it is made.

    Attributes:
        max_batch_size: no batch is larger.
        num_threads: threads of the CPU stage.
        device_id: the GPU, or None.
        seed: the pipeline's seed.
        kernels: runs kernels on the GPU, for all operators of an executor; None without a GPU.
    """

    max_batch_size: int
    num_threads: int
    device_id: int | None
    seed: int
    kernels: KernelContext | None = None

    @property
    def reading_gpu(self) -> int | None:
        """The GPU if an operator of the executor works on it, so that memory may be pinned for it; else None."""
        return None if self.kernels is None else self.device_id


@dataclass(frozen=True)
class OutputSpec:
    """What is known of an output before a batch runs.

    Attributes:
        layout: names of the dimensions, or an empty string.
        shape: shape of every sample, when it is known and the same for all.
        dtype: dtype, when it is known.
        extents: of the samples along each dimension, None where they are unknown or differ, when less is known than
            the shape: a decoder knows the channels, but neither height nor width.
    """

    layout: str = ""
    shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None
    extents: tuple[int | None, ...] | None = None

    @property
    def dense(self) -> bool:
        """Whether the batch can be laid out in memory before it runs."""
        return self.shape is not None and self.dtype is not None


class SampleOperator(ABC, Generic[State]):
    """An operator on the CPU that makes each sample of its outputs from the same sample of its inputs.

    Args:
        node: the node of the graph.
        setup: sizes and devices.

    Attributes:
        inner: whether other operators of its chain are all that reads its outputs, so that their memory may have any
            strides.
    """

    #: An operator that makes the same for a whole batch at once, for less: used where a GPU reads the results. Beside
    #: other operators on samples, a sample that is made and read at once doesn't leave the core's cache.
    whole: ClassVar[type[BatchOperator] | None] = None

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        self.node = node
        self.setup = setup
        self.inner = False

    @abstractmethod
    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[State, Sequence[OutputSpec]]:
        """Prepare a batch: resolve arguments for all samples at once, and tell what is known of the outputs.

        Args:
            batch: size, arguments and random numbers.
            inputs: what is known of the inputs; shapes may not be.

        Returns:
            The state that `run` gets, and a description of each output.
        """

    @abstractmethod
    def run(self, state: State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array | tuple[Array, ...]:
        """Make one sample. Called on many threads at once; must release the GIL in its heavy part.

        Args:
            state: what `start` returned.
            sample: position in the batch.
            inputs: the samples of the inputs; not to be written to.
            out: where to write the result, when its shape was known (for operators with one output). Return it;
                another array that is returned costs a copy.

        Returns:
            An array for each output, with the shape and dtype that `start` described.
        """


class BatchOperator(ABC):
    """An operator that makes whole batches: all on the GPU, and those on the CPU that draw or combine small numbers.

    Args:
        node: the node of the graph.
        setup: sizes and devices.
    """

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        self.node = node
        self.setup = setup

    @abstractmethod
    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Make the outputs, a `TensorListCPU` or `TensorListGPU` each.

        On the GPU, work is issued on ``batch.stream`` and nothing waits for it.
        """
