"""Resolution of placeholders outside of our loader's loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dali_proxy._consumer.produce import produce
from dali_proxy._consumer.ragged import check_ragged
from dali_proxy.errors import ServerDiedError

if TYPE_CHECKING:
    from dali_proxy._cluster.cluster_consumer import ClusterConsumer
    from dali_proxy._consumer.consumer import ConsumerClient
    from dali_proxy._consumer.consumer_group import ConsumerGroup
    from dali_proxy._consumer.produce import EarlierShapes
    from dali_proxy._consumer.ragged import Ragged


class Server(Protocol):
    """What a resolution needs of a `DALIServer`."""

    restart: Any

    @property
    def stops(self) -> int:
        """How often the server has stopped."""

    @property
    def consumer(self) -> ConsumerClient | ConsumerGroup | ClusterConsumer:
        """The connection that fetches results."""

    def revive(self, stops: int) -> Any:
        """Start the server again, if it hasn't been since."""


def resolved(server: Server, batch: Any, ragged: Ragged | None, earlier: EarlierShapes | None) -> Any:
    """Return a batch with tensors in place of placeholders; see `DALIServer.produce_data`.

    Args:
        server: the server.
        batch: the batch.
        ragged: form of outputs whose samples differ in shape.
        earlier: shapes of the earlier batches of the same loop; None for no comparison.
    """
    stops = server.stops
    if earlier is not None:
        earlier.follow(stops)
    try:
        return produce(batch, server.consumer, ragged=check_ragged(ragged), earlier=earlier)
    except ServerDiedError:
        if server.restart == "on-failure":
            server.revive(stops)
        raise
