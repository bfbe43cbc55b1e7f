"""What a pipeline becomes when it is built: everything that runs, and ends together."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pipeline._definition.arguments import PipelineArguments
from pipeline._definition.inputs import FedInputs
from pipeline._definition.sources import SourceGroup
from pipeline._definition.submitting import Submitter
from pipeline._executor import Executor
from pipeline._graph import Graph, GraphNode

__all__ = ["Engine"]


class Engine:
    """The running parts of one pipeline. They must hold nothing that leads back to it, so that dropping it ends them.

    Args:
        graph: what to run.
        arguments: how.
        inputs: the inputs that are fed.
        sources: the sources; the engine ends them.

    Attributes:
        executor: runs batches.
        inputs: what was fed.
        sources: the sources.
        submitter: for a caller who brings requests, such as a server.
    """

    def __init__(
        self,
        graph: Graph,
        arguments: PipelineArguments,
        inputs: Mapping[str, GraphNode],
        sources: SourceGroup,
    ) -> None:
        self._owner = os.getpid()
        self.sources = sources
        self.executor = Executor(graph, arguments.executor_config())
        self.inputs = FedInputs(inputs)
        self.submitter = Submitter(self.executor, sources)

    def close(self) -> None:
        """End threads and worker processes, free the device. In a forked child it does nothing."""
        if os.getpid() != self._owner:
            return
        self.inputs.close()
        self.sources.close()
        self.submitter.close()
        self.executor.close()
