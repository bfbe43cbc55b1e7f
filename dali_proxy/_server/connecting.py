"""Connections of a process to the processes of a server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from dali_proxy._host import AttachedHost, HostGroup, ProcessHost, ThreadHost
from dali_proxy._transport.endpoint import Endpoint

if TYPE_CHECKING:
    from dali_proxy._consumer.consumer import ConsumerClient
    from dali_proxy._consumer.consumer_group import ConsumerGroup


def connect(
    endpoint: Endpoint, host: Any, stages: Sequence[bytes | None], device_id: int | None
) -> ConsumerClient | ConsumerGroup:
    """Connect to all processes of a server, to fetch results.

    Args:
        endpoint: the server's endpoint.
        host: the host, if this process has started it; else None.
        stages: device stages, as `ConsumerClient` takes them.
        device_id: GPU for the results of a host of another process, if no stage runs here.
    """
    from dali_proxy._consumer.consumer import ConsumerClient
    from dali_proxy._consumer.consumer_group import ConsumerGroup

    clients: list[ConsumerClient] = []
    with ExitStack() as failure:
        for number, each in enumerate(endpoint.of_processes):
            own = host.hosts[number] if isinstance(host, HostGroup) else host
            if isinstance(own, AttachedHost | ProcessHost | ThreadHost):
                client = ConsumerClient(each, own.describe_exit, own.local, stages)
            else:
                client = ConsumerClient(each, device_stages=stages, device_id=None if any(stages) else device_id)
            failure.callback(client.close)
            clients.append(client)
        failure.pop_all()
    return clients[0] if len(clients) == 1 else ConsumerGroup(endpoint, clients)
