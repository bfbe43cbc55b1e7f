"""`RayCluster`: the description of the servers that a `DALIServer` runs in a Ray cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster, and the servers to run in it, for `DALIServer`. It requires ``pip install 'dali-proxy[ray]'``.

    Each server is a Ray actor. It reads the samples of whole batches from the user's dataset, runs the pipeline, and
    returns the results through Ray's object store. If a server or its node is lost, its batches are computed elsewhere,
    with the same random numbers. Nodes may join and leave while a loop runs.

    Args:
        address: address of the cluster, as for `ray.init`. It is used only if this process isn't connected to Ray yet.
        servers: number of servers. None starts as many as the idle resources of the cluster allow, and more as soon as
            other nodes join; the ranks of a distributed run divide them evenly.
        num_cpus: CPUs of each server, and number of threads of its pipeline; by default the pipeline's `num_threads`. A
            server reads its samples on one more thread, so datasets that spend much time in Python need more servers
            with fewer CPUs.
        num_gpus: GPUs of each server. With 0, the pipeline runs on the CPU. A server uses one GPU at most, so a
            fraction lets servers share a GPU.
        resources: further resources of each server, as for `ray.remote`, for example to select nodes.
        in_flight_bytes: limit for the results that are requested, and that a loop hasn't received yet, of one loader.
            At least one batch is in flight. None is a quarter of the memory that is available to the training process
            when the servers start, divided by the ranks of its machine. Without this limit, three batches of each
            server are in flight.
        start_timeout: seconds to wait for a server while there is none: at the start, and after all were lost.

    Raises:
        ArgumentTypeError: `resources` isn't a mapping.
        ArgumentValueError: a number is out of its range.

    Example:
        >>> RayCluster(servers=8, num_cpus=4).num_cpus
        4
    """

    address: str | None = None
    servers: int | None = None
    num_cpus: float | None = None
    num_gpus: float = 0
    resources: Mapping[str, float] = field(default_factory=dict)
    in_flight_bytes: int | None = None
    start_timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.servers is not None and (not isinstance(self.servers, int) or self.servers < 1):
            raise ArgumentValueError(f"RayCluster: servers must be 1 or more, or None, not {self.servers!r}")
        if self.num_cpus is not None and not 0 < self.num_cpus < math.inf:
            raise ArgumentValueError(f"RayCluster: num_cpus must be more than 0, or None, not {self.num_cpus!r}")
        if not 0 <= self.num_gpus <= 1:
            raise ArgumentValueError(f"RayCluster: num_gpus must be from 0 to 1, not {self.num_gpus!r}")
        if not isinstance(self.resources, Mapping):
            raise ArgumentTypeError(f"RayCluster: resources must be a mapping, not {type(self.resources).__name__}")
        limit = self.in_flight_bytes
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise ArgumentValueError(f"RayCluster: in_flight_bytes must be 1 or more, or None, not {limit!r}")
        if not 0 < self.start_timeout < math.inf:
            raise ArgumentValueError(f"RayCluster: start_timeout must be seconds, not {self.start_timeout!r}")
