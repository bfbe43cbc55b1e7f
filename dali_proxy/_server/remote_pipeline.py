"""The pipeline of a server in a cluster: its form on the nodes, and the devices of its outputs here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dali_proxy._cluster.ray_cluster import RayCluster
from dali_proxy._server.placement import depends_on_order
from dali_proxy.pipeline._cuda.errors import require_device
from dali_proxy.pipeline._definition.serializing import on_cpu, serialize_for_host, with_graph
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentTypeError

if TYPE_CHECKING:
    from dali_proxy._cluster.cluster_consumer import ClusterConsumer
    from dali_proxy._cluster.server_pool import ServerPool
    from dali_proxy._host import HostOptions
    from dali_proxy._transport.endpoint import Endpoint
    from dali_proxy.pipeline import Pipeline


class RemotePipeline:
    """A pipeline that servers in a cluster run.

    Args:
        pipeline: the pipeline.
        cluster: description of the servers.
        placement: placement that the user requests.

    Raises:
        ArgumentTypeError: `cluster` isn't a `RayCluster`.
        ArgumentMismatchError: the placement isn't "server", or the pipeline's data depends on earlier batches.
    """

    def __init__(self, pipeline: Pipeline, cluster: RayCluster, placement: Any) -> None:
        if not isinstance(cluster, RayCluster):
            raise ArgumentTypeError(f"DALIServer: cluster must be a RayCluster, not {type(cluster).__name__}")
        if placement != "server":
            raise ArgumentMismatchError(
                f"DALIServer: placement={placement!r} isn't possible with cluster=: all operators run in its servers"
            )
        if depends_on_order(pipeline):
            raise ArgumentMismatchError(
                "DALIServer: with cluster=, batches are computed by several servers, but this pipeline has an operator "
                "whose data depends on earlier batches: a reader, a source, or an operator that keeps a state"
            )
        self._cluster = cluster
        self._num_cpus = cluster.num_cpus or float(pipeline.num_threads)
        internals = pipeline._internals
        device_id = None if internals.on_cpu else internals.arguments.device_id
        self._on_gpu = tuple(device_id is not None and device == "gpu" for device in internals.graph.output_devices)
        self._device_id = device_id if any(self._on_gpu) else None
        if device_id is not None and not cluster.num_gpus:
            pipeline, device_id = on_cpu(pipeline), None
        threads = max(math.ceil(self._num_cpus), 1)
        on_node = {} if device_id is None else {"device_id": 0}  # Ray shows each server only its own GPU
        self._pipeline = with_graph(pipeline, pipeline._internals.graph, num_threads=threads, **on_node)

    def start(self, mode: str, endpoint: Endpoint, options: HostOptions) -> ServerPool:
        """Start the servers, and wait until one is ready; see `ServerPool`.

        Raises:
            DeviceError: this process can't receive the outputs on the GPU.
        """
        from dali_proxy._cluster.node_server import RemoteHost  # torch and Ray are needed only with a cluster
        from dali_proxy._cluster.server_pool import ServerPool

        if self._device_id is not None:
            require_device(self._device_id)
        host = RemoteHost(serialize_for_host(self._pipeline), mode, endpoint, options, home="")
        return ServerPool(self._cluster, self._num_cpus, host, self._device_id)

    def consumer(self, pool: ServerPool) -> ClusterConsumer:
        """Return the fetching side for the servers."""
        from dali_proxy._cluster.cluster_consumer import ClusterConsumer
        from dali_proxy._cluster.device_copies import DeviceCopies

        copies = None if self._device_id is None else DeviceCopies(self._device_id)
        return ClusterConsumer(pool, self._on_gpu, copies)
