"""One sample in shared memory, from the proxy's call to the batches that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dali_proxy._worker.tickets import Ticket
from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from dali_proxy._worker.worker import WorkerClient
    from pipeline._ipc.arena import Block

__all__ = ["Sample"]


class Sample:
    """The inputs of one sample, in the arena of the process that made it.

    Its memory is taken while this object lives (that is, while a `SampleRef` of it does) and while a request that
    uses it is in flight. So a dataset may keep references, and a collate function may use one twice, or drop it.

    Attributes:
        client: the connection whose arena it is.
        number: the client's number of the sample.
        blocks: where its inputs lie, in the order of the pipeline's inputs.
        dtypes: their dtypes, as text.
        shapes: their shapes.
        index: the dataset's index of the sample; None if unknown.
        name: what the proxy's caller calls it; None for nothing.
    """

    __slots__ = ("__weakref__", "_alone", "blocks", "client", "dtypes", "index", "name", "number", "shapes")

    def __init__(
        self,
        client: WorkerClient,
        number: int,
        blocks: tuple[Block, ...],
        dtypes: tuple[str, ...],
        shapes: tuple[tuple[int, ...], ...],
        index: Any,
        name: str | None = None,
    ) -> None:
        self.client = client
        self.number = number
        self.blocks = blocks
        self.dtypes = dtypes
        self.shapes = shapes
        self.index = index
        self.name = name
        self._alone: Ticket | None = None

    def submit_alone(self) -> Ticket:
        """Submit the sample as a batch of one, the first time it is called; return that batch.

        What goes wrong is raised where the batch is wanted: pickling calls this, on a thread of multiprocessing's
        that would drop the batch and leave its reader waiting for ever.
        """
        if self._alone is None:
            try:
                self._alone = self.client.submit([self])
            except PipelineError as error:
                self._alone = Ticket.of_error(error)
        return self._alone
