"""`DALIServer`: the user's handle for a server."""

from __future__ import annotations

import copy
import inspect
import os
import secrets
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from dali_proxy._cluster.ray_cluster import RayCluster
from dali_proxy._common.folders import make_folder, remove_dead_folders
from dali_proxy._consumer.produce import EarlierShapes
from dali_proxy._host import HOSTS, AttachedHost, HostGroup, HostOptions, Name, ProcessHost, ThreadHost
from dali_proxy._pool.pool_process import PoolProcess
from dali_proxy._server.controller import Controller
from dali_proxy._server.dashboard import Dashboard
from dali_proxy._server.life import Life
from dali_proxy._server.limits import (
    accept_old_names,
    check_choices,
    check_limits,
    check_sizes,
    with_arguments,
    with_cache,
    with_default_threads,
)
from dali_proxy._server.metrics import MetricsCollector
from dali_proxy._server.naming import as_name, described
from dali_proxy._server.placement import Placement, Placing, depends_on_order
from dali_proxy._server.process_count import only_process, process_count
from dali_proxy._server.published import is_published, read_published
from dali_proxy._server.remote_pipeline import RemotePipeline
from dali_proxy._server.served import arguments_for_another, as_pipeline, check_replacement, is_function, new_endpoint
from dali_proxy._server.telemetry import LoopTimes, Losses, ServerStats
from dali_proxy._server.tracing import traced
from dali_proxy._transport.endpoint import Endpoint
from dali_proxy.errors import ProxyError, ServerClosedError, ServerDiedError
from dali_proxy.pipeline import Pipeline
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._compiler.partition import stages_by_device
from dali_proxy.pipeline._concurrency.finalizers import Finalizer
from dali_proxy.pipeline._concurrency.locks import Level, new_rlock
from dali_proxy.pipeline._definition.serializing import on_cpu, serialize_for_host
from dali_proxy.pipeline._ipc.signals import deferred_signals
from dali_proxy.pipeline.errors import ArgumentMismatchError, PipelineError

if TYPE_CHECKING:
    from dali_proxy._cluster.cluster_consumer import ClusterConsumer
    from dali_proxy._cluster.server_pool import ServerPool
    from dali_proxy._consumer.consumer import ConsumerClient
    from dali_proxy._consumer.consumer_group import ConsumerGroup
    from dali_proxy._consumer.ragged import Ragged
    from dali_proxy._pool.dataset_pool import DatasetPool
    from dali_proxy._worker.proxy import Proxy

#: Attributes that follow from the pipeline.
_OF_PIPELINE = (
    *("pipeline", "given_seed", "given_threads", "seed"),
    *("_chooses_threads", "_device_id", "_placing", "_remote"),
)


class DALIServer:
    """Server that runs a pipeline for the samples of torch datasets.

    Use it as a context manager, or call `start` and `stop`. While it runs, pass `proxy` to the dataset, and the dataset
    to `DataLoader`. A stopped server can be started again.

    A server may be pickled and forked. The processes that receive it can use the server, but not start or stop it.

    Args:
        pipeline: pipeline to run. It needs at least one `external_source` without a source: these become the inputs of
            the proxy. Pipelines of NVIDIA's package are accepted, too, if that is installed. A function of
            `dali_proxy.dynamic` is traced: its parameters become the inputs of the proxy.
        deterministic: accepted for compatibility. With `dali_proxy.DataLoader`, results never depend on the number or
            the speed of the workers.
        mode: "process" runs the pipeline in a separate process, which shares neither the GIL nor the CUDA context with
            the training; "thread" runs it on threads of this process.
        arena_bytes: initial shared memory of each worker for samples. It grows if a batch needs more. Deprecated name:
            `ring_bytes`.
        arena_bytes_limit: largest size of that memory. Deprecated name: `ring_bytes_limit`.
        unclaimed_bytes: limit for the memory of unfetched results of loaders other than `dali_proxy.DataLoader`.
        timeout: seconds that the server may take for a batch; None for no limit while the server is alive.
        restart: "on-failure" restarts a server that died, when the next batch is requested. `dali_proxy.DataLoader`
            then recomputes the lost batches in this process and continues: no batch is lost or repeated, and random
            numbers stay the same. Batches of iterable datasets can't be recomputed. With "never", waiting callers get a
            `ServerDiedError`, and so do loops that begin later, until `start` is called.
        placement: where the stages of a pipeline with a GPU run. "server" runs all operators in the server. With the
            others, the server uses its CPU threads and no GPU. "cores" runs all operators there that exist on the CPU,
            and the process that fetches the results copies them to its GPU. With "consumer", the server only decodes,
            and that process copies the images to its GPU and runs the GPU operators. With "engine", that process
            also decodes on its GPU, in the CUDA context of the training. Pixels are the same within the rounding of CPU
            and GPU. "auto" measures all four beside the first batches of the loop, uses the fastest,
            and measures again if the speed of the loop changes; see `placement` and `stats`.
        device: "cpu" runs the pipeline on the CPU, whatever the devices of its operators, its `device_id` and
            `placement`, for machines without a GPU. A warning lists what changes. The default is the environment
            variable `DALI_PROXY_DEVICE`; without it, operators run on the devices that they declare.
        num_workers: number of dataset workers of the server. They read the samples for all loaders of map-style
            datasets, in all processes that use the server, so that `num_workers` of these loaders has no meaning. With
            0, each loader starts its own workers. With "auto", as for `serve`, the number changes while loops run, from
            0, and loaders with a `num_workers` of their own don't use them; with ``mode="thread"`` it stays 0. With
            "auto", the pipeline's threads change, too, unless `num_threads` is passed or the server has a `name`: there
            is one for each core at first, and never more. See also `distributed.shared_server`.
        num_processes: number of processes that share the batches of the server, so that one Python interpreter isn't
            the limit: each batch runs in one of them. They divide the pipeline's threads. Results don't depend on the
            number. There is still one pool of dataset workers, and if one of the processes dies, the server has died.
            Pipelines whose data depends on earlier batches, and those with a cache, need one process. With "auto",
            `distributed.shared_server` has one for each rank of this machine if possible, other servers one.
        cache: bytes of memory of the server for decoded samples, such as "8GB". Later epochs, and all processes that
            use the server, then don't decode them again. The results are the same. `Pipeline.explain` says which
            operators it concerns, and `stats` what it saves. By default, the argument of the pipeline.
        cluster: runs servers in a Ray cluster instead of one on this machine; see `RayCluster`. The datasets of
            `dali_proxy.DataLoader` are read there, too, so that its `num_workers` has no meaning, and they must have
            indices. Lost servers are replaced and their batches recomputed, whatever `restart` is.
        name: starts a process that other jobs of this user on this machine may use, too, by this name; see
            `dali_proxy.attach`. It ends after the last job, whichever has started it.
        attach: with a `name`, whether to run the pipeline in the process with this name if there is one. Without, that
            is an error.
        linger: seconds that the process of the name waits for another job after the last one has ended. The job that
            starts the process decides.
        **arguments: arguments of `dali_proxy.dynamic.trace` for a function, such as `batch_size` and `seed`.

    Raises:
        TracingError: the function can't be traced; the message names the line.
        GraphError: the pipeline has no input, or an operator doesn't support `placement`.
        DeviceError: the pipeline runs on the CPU, but an operator exists only on the GPU.
        ArgumentMismatchError: the pipeline has no `device_id`, and `placement` isn't "server".
        MissingSizeError: the pipeline has no batch size or no number of threads.
        ArgumentValueError: the value of an argument is invalid.

    Example:
        >>> with DALIServer(image_pipe(batch_size=64, num_threads=2, device_id=None)) as server:  # doctest: +SKIP
        ...     dataset = ImageDataset(folder, transform=server.proxy)
        ...     for images, labels in DataLoader(server, dataset, batch_size=64, num_workers=2):
        ...         train(images, labels)
    """

    _split = staticmethod(stages_by_device)  # splits a graph for placement="consumer"
    _num_ranks = 1  # ranks of this machine that share the server

    @accept_old_names(ring_bytes="arena_bytes", ring_bytes_limit="arena_bytes_limit")
    def __init__(
        self,
        pipeline: Pipeline | Callable[..., Any],
        deterministic: bool = False,
        *,
        mode: Literal["process", "thread"] = "process",
        arena_bytes: int = 64 << 20,
        arena_bytes_limit: int = 4 << 30,
        unclaimed_bytes: int = 2 << 30,
        timeout: float | None = 300.0,
        restart: Literal["never", "on-failure"] = "never",
        placement: Placement = "server",
        device: Literal["cpu"] | None = None,
        num_workers: int | Literal["auto"] = 0,
        num_processes: int | Literal["auto"] = 1,
        cache: int | str | Mapping[str, Any] | None = None,
        cluster: RayCluster | None = None,
        name: str | None = None,
        attach: bool = False,
        linger: float = 0.0,
        **arguments: Any,
    ) -> None:
        left_out = is_function(pipeline) and arguments.get("num_threads") is None
        pipeline = as_pipeline(pipeline, arguments, inspect.signature(DALIServer).parameters)
        check_choices(mode, restart, device)
        num_workers = 0 if num_workers == "auto" and (mode == "thread" or cluster is not None) else num_workers
        if num_workers and cluster is not None:
            raise ArgumentMismatchError("DALIServer: the servers in a cluster read the datasets: leave out num_workers")
        self.given_seed = pipeline._internals.arguments.given_seed
        #: Number of threads of all processes that the user has fixed; None if they are left out.
        self.given_threads = None if left_out or pipeline.num_threads < 0 else pipeline.num_threads
        #: Whether the number of threads changes: other jobs may use a server with a name.
        self._chooses_threads = num_workers == "auto" and name is None and self.given_threads is None
        pipeline = on_cpu(pipeline) if device == "cpu" else pipeline
        pipeline = with_cache(with_default_threads(pipeline, self._chooses_threads), cache)
        check_sizes(pipeline)
        obstacle = only_process(mode, cluster is not None, name is not None or attach, placement)
        self.num_processes, self._processes_reason = process_count(num_processes, pipeline, obstacle, self._num_ranks)
        if self.num_processes > 1:
            pipeline = with_arguments(pipeline, num_threads=max(pipeline.num_threads // self.num_processes, 1))
            self._chooses_threads = False  # they divide them
        self.cluster = cluster
        if cluster is None and mode != "thread":  # this process builds the pipeline of a thread, which checks it
            pipeline._internals.check_gpu()
        self._remote = None if cluster is None else RemotePipeline(pipeline, cluster, placement)
        sizes = {"arena_bytes": arena_bytes, "arena_bytes_limit": arena_bytes_limit, "unclaimed_bytes": unclaimed_bytes}
        check_limits(timeout, num_workers, **sizes)
        limits = arena_bytes, arena_bytes_limit, timeout
        endpoint = new_endpoint(pipeline, *limits, cluster is not None, self.num_processes, self._num_ranks)
        self.pipeline = pipeline
        #: Seed of the pipeline, which may have been drawn; None if no operator uses it.
        self.seed = pipeline._internals.arguments.drawn_seed if pipeline._internals.graph.uses_seed else None
        self._device, self._cache = device, cache
        self._device_id = None if pipeline._internals.on_cpu else pipeline._internals.arguments.device_id
        self.deterministic = deterministic
        self.mode = mode
        self.restart = restart
        self._placing = Placing(placement, pipeline, self._split)
        self.num_workers = num_workers
        self.stops, self.stopped = 0, False  # number of calls of `stop`; whether there was one since the last start
        self.loop_times, self.losses = LoopTimes(), Losses()
        self._unclaimed_bytes = unclaimed_bytes
        self._earlier_shapes = EarlierShapes()  # for `produce_data`
        self._copied = False  # whether it was pickled
        self._name: Name | None = None
        if name is not None or attach or linger:
            self._name = as_name(name, attach, linger, mode, cluster)
        self._live(Life(endpoint, os.getpid()))

    def _live(self, life: Life) -> None:
        self._life = life
        self._lock = new_rlock(Level.SERVER, "server")
        self.controller = self._new_controller()
        Finalizer(self, partial(life.stop, "its handle is gone"))

    def _new_controller(self) -> Controller:
        weak = weakref.proxy(self)  # else the server would run until the garbage collector does
        return Controller(self.loop_times, self.losses, self._life, self._placing, partial(getattr, weak, "consumer"))

    @property
    def endpoint(self) -> Endpoint:
        """The server's address."""
        return self._life.endpoint

    @cached_property
    def proxy(self) -> Proxy:
        """Callable for datasets, which takes the inputs of one sample; see `Proxy`."""
        from dali_proxy._worker.proxy import Proxy

        return Proxy(self.endpoint)

    @property
    @deferred_signals  # `exists` would treat a handler's OSError as "missing"
    def running(self) -> bool:
        """Whether the server is running."""
        host = self._life.host
        if self.cluster is not None:
            return self.owned and host is not None and host.alive
        return (not self.owned or (host is not None and host.alive)) and not self._life.missing_socket

    @property
    def pid(self) -> int | None:
        """ID of the process that runs the pipeline, or None if the server isn't running."""
        return self._life.host.pid if self._life.host is not None else None

    @property
    def placement(self) -> Placement:
        """Placement of the stages: "server", "engine", "cores" or "consumer"; "auto" before the first start."""
        return self._placing.placement

    @property
    def consumer(self) -> ConsumerClient | ConsumerGroup | ClusterConsumer:
        """Connection of this process for fetching results.

        Raises:
            ServerClosedError: the server isn't running.
            ServerDiedError: the server died.
        """
        life = self._life
        with self._lock, deferred_signals:
            consumer = life.consumers.get(os.getpid())
            if consumer is not None and consumer.ended and self.running:
                life.disconnect()
                consumer = None
            if consumer is None:
                error = self.end_error()
                if error is not None:
                    raise error
                if self._remote is not None:
                    return life.consumers.setdefault(os.getpid(), self._remote.consumer(cast("ServerPool", self.pool)))
                try:
                    consumer = life.connect(self._placing.device_stages, self._device_id)
                except (ServerClosedError, ServerDiedError) as gone:
                    raise self.explain(gone) from None
            return consumer

    @property
    def reads_datasets(self) -> bool:
        """Whether the server reads the samples of loaders: in a cluster, or with its dataset workers."""
        return self.cluster is not None or self.num_workers != 0

    @property
    def pool(self) -> ServerPool | DatasetPool:
        """The processes that read the samples of loaders: the servers in the cluster, or the dataset workers."""
        host = self._life.host
        if self.num_workers:
            return self._dataset_pool
        if isinstance(host, AttachedHost | HostGroup | ProcessHost | ThreadHost | None):
            raise self.end_error() or ServerClosedError("the server reads no datasets")
        return host

    @cached_property
    def _dataset_pool(self) -> DatasetPool:
        from dali_proxy._pool.dataset_pool import DatasetPool

        return DatasetPool(self, self.num_workers)

    def end_error(self) -> ProxyError | None:
        """Return the error to raise if the server isn't running, or None while it runs."""
        return None if self.running else self._life.end_error(self.restart != "never")

    def explain(self, gone: ProxyError) -> ProxyError:
        """Return the error to raise after a connection failed; it says how the server ended, if this process knows."""
        host = self._life.host
        if self.owned and host is not None:
            host.describe_exit()  # waits for the end of the server
        self._life.last_end = self._life.last_end or copy.copy(gone)  # without the frames of its callers
        return self.end_error() or gone

    def start(self) -> None:
        """Start the server, and wait until it is ready. Do nothing while it runs.

        Raises:
            BuildError: the pipeline can't run here: the GPU, a library or a file is missing.
            ServerDiedError: the server's process ended while it started.
            ProxyError: the server didn't start within two minutes, for example because the machine is overloaded.
        """
        with self._lock:
            if self.running:
                return
            if not self.owned:
                raise ProxyError("the server is not running, and only the process that made it can start it")
            self.stopped = False
            self._life.stop("it is started again", restarts=True)  # releases the resources of a server that died
            remove_dead_folders()
            pipeline = self._placing.settle()
            options = HostOptions(
                path=self.endpoint.path,
                key=self.endpoint.key,
                server=secrets.token_bytes(16),
                unclaimed_bytes=self._unclaimed_bytes,
                arena_bytes_limit=self.endpoint.arena_bytes_limit,
                shares=not depends_on_order(self.pipeline),
                **self._placing.host_options(),
            )
            try:  # the folder's name is known before it exists, so an interrupt leaves no folder behind
                with make_folder(self._life.directory):
                    if self.num_workers not in (0, "auto"):  # they import torch while the host starts
                        self._life.dataset_workers = PoolProcess(self._life.directory)
                    if self._remote is not None:
                        self._life.host = self._remote.start(self.mode, self.endpoint, options)
                    elif self._name is not None:
                        name = described(self._name, self.pipeline, self.endpoint, self._placing.wanted)
                        self._life.host = AttachedHost(serialize_for_host(pipeline), options, name)
                        self._name = replace(self._name, attaches=True)  # later, other jobs may have restarted it
                    elif self.num_processes > 1:
                        self._life.host = HostGroup(serialize_for_host(pipeline), options, self.num_processes)
                    else:
                        self._life.host = HOSTS[self.mode](serialize_for_host(pipeline), options)
                    if self._life.dataset_workers is not None and self.num_workers != "auto":
                        self._life.dataset_workers.begin(self.endpoint, self.num_workers)
                    if any(self._placing.device_stages):
                        _ = self.consumer  # raises now if something is missing in this process
                    self.controller = self._new_controller()
                    threads = self.pipeline.num_threads if self._chooses_threads else 0
                    self.controller.begin(self.num_workers == "auto", threads)
                self._life.failure = ""
            except BaseException as error:
                self._life.stop("it couldn't start")
                self._life.failure = f"{type(error).__name__}: {error}"
                raise

    def stop(self) -> None:
        """Stop the server. Callers that wait for a batch get a `ServerClosedError`.

        Tensors stay valid, on the CPU and on the GPU. CUDA doesn't promise this for tensors of a server in another
        process, whose memory they are: copy those that you keep for long (`clone`).
        """
        with self._lock:
            self.stops, self.stopped = self.stops + 1, True
            self._life.failure = ""
            self._life.stop("it was stopped")

    def replace(self, pipeline: Pipeline | Callable[..., Any], **arguments: Any) -> None:
        """Run another pipeline from the next epoch on, for example after a change of the transform in a notebook.

        Datasets, workers and loaders stay. They continue to count epochs, so an epoch has the results that a new server
        with the new pipeline would give in the same epoch. A loop in an unfinished epoch gets a `ServerClosedError`: no
        epoch mixes two pipelines. Counters begin at 0. After an error, the old pipeline stays.

        Args:
            pipeline: new pipeline, with the inputs, outputs and batch size of the old one; or a function.
            **arguments: for a function, arguments of `dali_proxy.dynamic.trace` in place of those of the old pipeline.

        Raises:
            TracingError: the function can't be traced; the message names the line.
            ArgumentMismatchError: the inputs, the outputs or the batch size differ from those of the old pipeline.
            BuildError: the pipeline can't run here: the GPU, a library or a file is missing.
            ProxyError: other processes use the server.

        Example:
            >>> server.replace(augment)  # doctest: +SKIP
        """
        with self._lock:
            if not self.owned or is_published(self.endpoint):
                raise ProxyError("replace: other processes use the server, too: make a new one")
            if is_function(pipeline):
                given = self.given_seed, self.given_threads
                arguments = {**arguments_for_another(self.pipeline, *given), **arguments}
            options: dict[str, Any] = {
                **{"mode": self.mode, "device": self._device, "cluster": self.cluster, "cache": self._cache},
                **{"num_workers": self.num_workers, "name": None if self._name is None else self._name.name},
                **{"placement": self._placing.wanted, "num_processes": self.num_processes, **arguments},
            }
            other = DALIServer(pipeline, **options)  # checks the arguments
            check_replacement(self.endpoint, other.endpoint)
            if self._copied and not (self.placement == other.placement == "server"):
                raise ProxyError("replace: another process runs a stage of the old pipeline: make a new server")
            runs, before = self.running, {name: vars(self)[name] for name in _OF_PIPELINE}
            self.stops, self.stopped = self.stops + 1, False
            self._life.stop("its pipeline was replaced", restarts=True)
            try:
                vars(self).update({name: vars(other)[name] for name in _OF_PIPELINE})
                if runs:
                    self.start()
            except BaseException:
                vars(self).update(before)
                if runs:
                    self.start()
                raise

    def start_for_loop(self) -> None:
        """Start the server if it isn't running, because a loop begins.

        Raises:
            ServerDiedError: it died, and `restart` is "never".
            Exception: see `start`.
        """
        with self._lock:
            self._life.await_end()
            if self.restart == "never" and self.owned and self._life.host is not None and not self.running:
                raise self._life.end_error(restarts=False)
            self.start()

    def revive(self, stops: int) -> None:
        """Restart the server if it died. Do nothing while it runs.

        Args:
            stops: value of the attribute `stops` when the caller began to use the server.

        Raises:
            ServerClosedError: the server was stopped, even if it was started again since.
            ServerDiedError: the server died, and `restart` is "never".
        """
        with self._lock, deferred_signals:
            self._life.await_end()
            error = self.end_error()
            if self.stops != stops:
                raise ServerClosedError("the server was stopped")
            if error is not None:
                if not (self.owned and self.restart == "on-failure" and isinstance(error, ServerDiedError)):
                    raise error
                self.losses.restarts += 1
                try:
                    self.start()
                except (OSError, PipelineError):  # the cause of its end may persist for a moment: try once more
                    self.start()

    start_thread = start
    stop_thread = stop
    close = stop

    def __enter__(self) -> DALIServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def produce_data(self, batch: Any, ragged: Ragged | None = None) -> Any:
        """Replace the placeholders in a batch of `torch.utils.data.DataLoader` by tensors.

        `dali_proxy.DataLoader` does this automatically.

        Args:
            batch: batch of the loader: any nesting of tuples, lists, mappings, dataclasses and objects.
            ragged: as for `DataLoader`. For None, the first batch is the first one that this method produced.

        Raises:
            BatchError: the batch failed in the server; the next batch isn't affected.
            ServerDiedError: the batch was lost with the server, which is restarted if `restart` is "on-failure".
        """
        from dali_proxy._server.resolving import resolved  # it needs torch

        return resolved(self, batch, ragged, self._earlier_shapes)

    def stats(self) -> ServerStats:
        """Return the counters of the running server since its last start. They end with the server."""
        return ServerStats.from_report(
            self.consumer.statistics(),
            placement=self.placement,
            placement_reason=self._placing.reason,
            processes_reason=self._processes_reason,
            **self.loop_times.statistics(),
            **vars(self.losses),
        )

    def metrics(self, **labels: str) -> MetricsCollector:
        """Return the counters as a collector for Prometheus. It needs the extra `telemetry`.

        Args:
            **labels: labels of all metrics; by default ``server`` with the ID of this process.

        Raises:
            BuildError: `prometheus_client` isn't installed.

        Example:
            >>> prometheus_client.REGISTRY.register(server.metrics())  # doctest: +SKIP
            >>> prometheus_client.start_http_server(9400, addr="127.0.0.1")
        """
        return MetricsCollector(self.stats, labels or {"server": str(os.getpid())})

    def dashboard(self, port: int = 0) -> Dashboard:
        """Open a live page for this server, for browsers on this machine; see `Dashboard`.

        It shows throughput, waits, batches in flight, the pipeline's graph colored by time, and the images of the last
        batch. It ends with the server.

        Args:
            port: TCP port on the loopback interface; 0 for a free one.

        Raises:
            ProxyError: the port isn't free, the page's process can't start, or the servers are in a cluster.
            ServerClosedError: the server isn't running.

        Example:
            >>> print(server.dashboard().url)  # doctest: +SKIP
            http://127.0.0.1:43817/?token=...
        """
        if not self.owned:
            raise ProxyError("only the process that made the server can open its page; see also `dali-proxy top --web`")
        if self.cluster is not None:
            raise ProxyError("servers in a cluster have no page: use the dashboard of Ray, or server.stats()")
        with self._lock:
            error = self.end_error()
            if error is not None:
                raise error
            dashboard = Dashboard(self.endpoint.path, port)
            self._life.dashboards.append(dashboard)
            return dashboard

    def trace(self, path: str | Path) -> AbstractContextManager[None]:
        """Record what all processes do while a block runs, and write it to a file for Perfetto.

        The file has the training loop, the dataset's workers, and the server with its threads and CUDA streams, on one
        clock. Arrows follow a batch through the processes. Open it on https://ui.perfetto.dev or in chrome://tracing.

        Args:
            path: file to write, for example "trace.json".

        Raises:
            OSError: the file can't be written.
            ProxyError: the servers are in a cluster.
            ServerClosedError: the server isn't running.

        Example:
            >>> with server.trace("trace.json"):  # doctest: +SKIP
            ...     for images, labels in itertools.islice(loader, 50):
            ...         train(images, labels)
        """
        return traced(self.consumer, self.loop_times, path)

    def attach(self, folder: str) -> None:
        """Use the server of another process instead of starting one: `distributed.shared_server` calls this.

        Args:
            folder: folder of a published server that runs the same pipeline; see `read_published`. Its GPU results are
                copied to the GPU of this pipeline.
        """
        self._life.endpoint, self._life.owner = read_published(folder, self.endpoint), 0
        vars(self).pop("proxy", None)
        _ = self.consumer  # raises now if the server can't be reached

    @property
    def owned(self) -> bool:
        """Whether this process has created the server, and may start and stop it."""
        return os.getpid() == self._life.owner

    def __getstate__(self) -> dict[str, Any]:
        self._copied = True
        dropped = ("pipeline", "_life", "_lock", "_remote", "controller", "proxy", "_dataset_pool")
        return {
            **{name: value for name, value in vars(self).items() if name not in dropped},
            "endpoint": self.endpoint,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        endpoint = state.pop("endpoint")
        vars(self).update(state)
        self._remote = None
        self._live(Life(endpoint, owner=0))

    def __repr__(self) -> str:
        where = f"pid {self.pid}" if self.cluster is None else "in a cluster"
        state = f"running, {where}" if self.running else "not running"
        inputs = ", ".join(repr(spec.name) for spec in self.endpoint.inputs)
        return f"<DALIServer: inputs {inputs}; mode={self.mode}, placement={self.placement}; {state}>"
