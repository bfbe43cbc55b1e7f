"""A sample in shared memory, from the call of the proxy to the batches that use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dali_proxy._worker.tickets import Ticket
from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from dali_proxy._transport.endpoint import Endpoint
    from pipeline._ipc.arena import Block


class Submitter(Protocol):
    """What a sample needs of a `WorkerClient`."""

    endpoint: Endpoint

    def submit(self, samples: Sequence[Sample]) -> Ticket:
        """Submit samples as a batch."""

    def goodbye(self) -> str:
        """Return the server's reason for the end of the connection."""


class Sample:
    """The inputs of one sample, in the arena of the process that created it.

    Its memory stays in use while this object lives (that is, while a `SampleRef` refers to it) and while a request that
    uses it is in flight. So a dataset may keep references, and a collate function may use a sample twice or drop it.

    Attributes:
        client: connection whose arena holds the sample.
        number: number of the sample, unique within the client.
        blocks: memory blocks of the inputs, in the order of the pipeline's inputs.
        dtypes: dtypes of the inputs, as text.
        shapes: shapes of the inputs.
        index: dataset index of the sample; None if unknown.
        name: name that the proxy's caller gave the sample, or None.
    """

    __slots__ = ("__weakref__", "_alone", "blocks", "client", "dtypes", "index", "name", "number", "shapes")

    def __init__(
        self,
        client: Submitter,
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
        """Submit the sample as a batch of one, on the first call only. Return that batch's ticket.

        An error is raised later, when the batch is fetched: pickling calls this in a thread of multiprocessing, which
        would drop the batch and leave its reader waiting forever.
        """
        if self._alone is None:
            try:
                self._alone = self.client.submit([self])
            except PipelineError as error:
                self._alone = Ticket.from_error(error)
        return self._alone
