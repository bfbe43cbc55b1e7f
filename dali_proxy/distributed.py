"""Training on several GPUs and machines: the place of this process in the run, and batches for its rank."""

from __future__ import annotations

import inspect
import os
import socket
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dali_proxy._common.core_budget import Shares, allowed_cores, core_budget, processes_sharing
from dali_proxy._loader.distributed_sampler import DistributedBatchSampler
from dali_proxy._server.published import publish
from dali_proxy._server.served import as_pipeline
from dali_proxy._server.server import DALIServer
from dali_proxy.errors import ProxyError, ServerClosedError, ServerDiedError
from dali_proxy.pipeline import Pipeline
from dali_proxy.pipeline._concurrency.numa import SYSFS, cores_near, gpu_node
from dali_proxy.pipeline._control_group import cgroup_cores
from dali_proxy.pipeline._definition.serializing import with_graph
from dali_proxy.pipeline._ipc.signals import deferred_signals, let_through
from dali_proxy.pipeline._ranks import Ranks, current_ranks
from dali_proxy.pipeline._ranks import set_ranks as _set_ranks
from dali_proxy.pipeline.errors import ArgumentMismatchError

if TYPE_CHECKING:
    from dali_proxy._server.placement import Placement

__all__ = ["DistributedBatchSampler", "Environment", "environment", "set_ranks", "shared_server"]

_LOOK = 0.1  # seconds between two looks at the ranks that still use a shared server


_unbound: list[int] = []  # the cores that this process could use before `Environment.bind`


@dataclass(frozen=True)
class Environment(Ranks):
    """The place of this process in a distributed run, and its share of the machine.

    Attributes:
        rank: number of this process, from 0.
        world_size: number of processes.
        local_rank: number of this process on its machine, from 0.
        local_world_size: number of processes on its machine.
        source: where these numbers come from; see `environment`.
        device_id: number of this rank's GPU, or None if the machine has no usable GPU.
        cores: cores on the same NUMA node as this rank's GPU, or all if these are too few for the ranks whose GPUs are
            on that node; without a GPU, the nodes are divided among the ranks.
        core_budget: number of cores that the processes of this rank should use together.
    """

    device_id: int | None = None
    cores: tuple[int, ...] = ()
    core_budget: int = 1

    @property
    def num_workers(self) -> int:
        """Number of workers for the rank's `DataLoader`: a quarter of the budget, at least 1."""
        return Shares(self.core_budget).num_workers

    @property
    def num_threads(self) -> int:
        """Number of threads for the rank's pipeline: the rest of the budget, without a core for the training loop."""
        return Shares(self.core_budget).num_threads

    @property
    def shard(self) -> dict[str, int | bool]:
        """Arguments of a reader, so that the ranks read different entries and have the same number of batches."""
        return {"shard_id": self.rank, "num_shards": self.world_size, "pad_last_batch": True}

    def bind(self) -> None:
        """Run this process on `cores` from now on.

        Call it before the server starts. The server, the workers and all threads that start later inherit the cores.
        Linux allocates memory on the NUMA node of the thread that first writes to it, so their memory is near, too.
        """
        if self.cores and hasattr(os, "sched_setaffinity"):
            _unbound.extend(allowed_cores() if not _unbound else ())
            tasks = os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ["0"]
            for task in tasks:  # libraries have started threads already
                try:
                    os.sched_setaffinity(int(task), self.cores)
                except ProcessLookupError:  # the thread has ended
                    continue


def environment(
    *, allowed: Collection[int] | None = None, cgroup_limit: float | None = None, sysfs: Path = SYSFS
) -> Environment:
    """Return the place of this process in the run.

    The ranks come from `set_ranks`; from torch.distributed, if the process group is initialized; from the variables of
    torchrun; or from those of a SLURM step (`srun`). Otherwise, the process is alone.

    Args:
        allowed: cores that the process may use; by default, those of its affinity mask.
        cgroup_limit: number of cores that its control group may use; by default, the limit of the system.
        sysfs: root of sysfs, which describes the NUMA nodes.

    Raises:
        ArgumentValueError: the variables contradict each other.

    Example:
        >>> here = environment()
        >>> here.rank, here.world_size
        (0, 1)
    """
    ranks = current_ranks()
    usable = allowed_cores() if allowed is None else tuple(sorted(allowed))
    limit = cgroup_cores() if cgroup_limit is None else cgroup_limit
    sharing = processes_sharing(ranks, len(usable))
    device_id, address = _gpu(ranks.local_rank)
    node = None if address is None else gpu_node(address, sysfs)
    near = cores_near(usable, ranks.local_rank if sharing > 1 else 0, sharing, node, sysfs)
    budget = core_budget(len(usable), limit, sharing)
    neighbours = _ranks_near(node, sharing, sysfs)
    if neighbours > 1 and len(near) < neighbours * budget:
        near = usable  # the ranks near this node need more cores than it has, and other nodes would be idle
    return Environment(**vars(ranks), device_id=device_id, cores=near, core_budget=min(budget, len(near)))


def set_ranks(rank: int | None, world_size: int = 1, local_rank: int = 0, local_world_size: int = 1) -> None:
    """Choose the ranks instead of taking them from the environment.

    With tensor or pipeline parallelism, several processes need the same data: pass their number among the groups with
    different data. Call this before you create pipelines, servers and samplers.

    Args:
        rank: number of this process among those that read different data; None for the environment's ranks again.
        world_size: number of processes that read different data.
        local_rank: number of this process on its machine.
        local_world_size: number of processes on its machine.
    """
    chosen = None if rank is None else Ranks(rank, world_size, local_rank, local_world_size, "set_ranks")
    _set_ranks(chosen)


@contextmanager
def shared_server(
    pipeline: Pipeline | Callable[..., Any],
    *,
    num_workers: int | None = None,
    num_processes: int | Literal["auto"] = "auto",
    placement: Placement | None = None,
    **options: Any,
) -> Iterator[DALIServer]:
    """Run one server, with one pool of dataset workers, for all ranks of this machine.

    All ranks call this with the same arguments, except for the pipeline's `device_id`, after
    `torch.distributed.init_process_group`. Local rank 0 starts the server, and the others connect to it. Each rank has
    its own loaders, with its own shard, order and state. Its batches and random numbers are those that a separate
    server would return. A rank that ends doesn't stop the others. If the process of local rank 0 ends, or the server,
    all ranks of the machine get an error. At the end of the block, local rank 0 waits until the other ranks have left.

    Args:
        pipeline: the same pipeline or function of `pipeline.dynamic` on all ranks; the seed of local rank 0 applies.
            Without `num_threads`, it gets the cores of the machine that remain for threads.
        num_workers: number of dataset workers; by default, a quarter of the machine's cores.
        num_processes: as for `DALIServer`; by default, the server has a process for each rank of the machine, if its
            pipeline allows that.
        placement: as for `DALIServer`, but not "auto". The default is "consumer" for a pipeline with a `device_id`: the
            server decodes on the CPU, and each rank's GPU runs its own GPU operators.
        **options: other arguments of `DALIServer`, for a function also those of `pipeline.dynamic.trace`.

    Yields:
        The server.

    Raises:
        ArgumentMismatchError: the ranks pass different pipelines, or an argument isn't possible here.
        ProxyError: torch.distributed isn't initialized, or another rank couldn't start the server or connect to it.

    Example:
        >>> with shared_server(image_pipe(batch_size=64, device_id=here.device_id, seed=7)) as server:  # doctest: +SKIP
        ...     dataset = ImageDataset(folder, transform=server.proxy)
        ...     batches = DistributedBatchSampler(dataset, batch_size=64, seed=7)
        ...     for images, labels in DataLoader(server, dataset, batch_sampler=batches):
        ...         train(images, labels)
    """
    ranks = current_ranks()
    with _all_cores():
        shares = Shares.of_machine()
    described = inspect.signature(Pipeline).parameters
    pipeline = as_pipeline(pipeline, {name: options.pop(name) for name in [*options] if name in described})
    if pipeline.num_threads < 1:
        pipeline = with_graph(pipeline, pipeline._internals.graph, num_threads=shares.num_threads)
    if placement is None:
        placement = "server" if pipeline._internals.arguments.device_id is None else "consumer"
    if placement == "auto" or options.get("cluster") is not None or options.get("mode") == "thread":
        raise ArgumentMismatchError('shared_server: placement="auto", cluster= and mode="thread" have one user only')
    options |= {"placement": placement, "num_processes": num_processes}
    options |= {"num_workers": shares.num_workers if num_workers is None else num_workers}
    if ranks.world_size == ranks.local_world_size == 1:
        with DALIServer(pipeline, **options) as server:
            yield server
        return
    server = _connected(pipeline, options, ranks)
    try:
        yield server
        if server.owned:
            _await_others(server)
    finally:
        server.stop()


class _SharedServer(DALIServer):
    """A server that all ranks of this machine use."""

    @property
    def _num_ranks(self) -> int:  # type: ignore[override]
        return current_ranks().local_world_size


def _connected(pipeline: Pipeline, options: dict[str, Any], ranks: Ranks) -> DALIServer:
    """Start the server, or connect to that of local rank 0. All ranks raise if one of them can't."""
    server: DALIServer | None = None
    failure: Exception | None = None
    found: list[_Address] = []
    try:
        if ranks.local_rank == 0:
            try:
                server = _SharedServer(pipeline, **options)
                with _all_cores():
                    server.start()
                publish(server.endpoint)
            except Exception as error:  # noqa: BLE001  # raised below, when all ranks know
                failure = error
        folder = "" if server is None or failure else os.path.dirname(server.endpoint.path)
        found = _gathered(
            _Address(ranks.rank, socket.gethostname(), folder, pipeline._internals.arguments.drawn_seed), failure
        )
        if server is None:
            try:
                owner = _owner(found, ranks)
                server = _SharedServer(with_graph(pipeline, pipeline._internals.graph, seed=owner.seed), **options)
                server.attach(owner.folder)
            except Exception as error:  # noqa: BLE001  # likewise
                failure = error
        _gathered(None, failure)
        assert server is not None  # otherwise, `_gathered` has raised
        return server
    except BaseException:
        if server is not None:
            server.stop()
        raise


class _Address(NamedTuple):
    """The address of a server, from the rank that has started it.

    Attributes:
        rank: the rank.
        host: its machine.
        folder: the server's folder; empty for other ranks.
        seed: seed of its pipeline.
    """

    rank: int
    host: str
    folder: str
    seed: int


def _owner(found: list[_Address], ranks: Ranks) -> _Address:
    """Return the address of the server that local rank 0 of this machine has started."""
    host = socket.gethostname()
    owners = [each for each in found if each.folder and each.host == host and each.rank <= ranks.rank]
    if not owners:
        raise ProxyError(
            f"shared_server: no local rank 0 has started a server on {host}. Check the ranks (LOCAL_RANK, or "
            "set_ranks); all ranks of a machine must be in the same container"
        )
    return max(owners)


def _gathered(value: Any, failure: Exception | None) -> list[Any]:
    """Return the values of all ranks.

    Raises:
        ProxyError: a rank has failed. That rank raises `failure`.
    """
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        raise failure or ProxyError("shared_server: call torch.distributed.init_process_group first")
    pairs: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(pairs, (value, failure and f"{type(failure).__name__}: {failure}"))
    if failure is not None:
        raise failure
    for rank, (_, error) in enumerate(pairs):
        if error is not None:
            raise ProxyError(f"shared_server: rank {rank} failed: {error}")
    return [value for value, _ in pairs]


def _await_others(server: DALIServer) -> None:
    """Wait until no other process uses the server. One that has died doesn't use it."""
    with suppress(ServerClosedError, ServerDiedError), deferred_signals:
        while server.consumer.statistics()["consumers"] > 1:
            let_through(time.sleep, _LOOK)


@contextmanager
def _all_cores() -> Iterator[None]:
    """Run this thread, and the processes that it starts, on all cores that this process could use before `bind`."""
    bound = allowed_cores()
    if _unbound:
        os.sched_setaffinity(0, _unbound)
    try:
        yield
    finally:
        if _unbound:
            os.sched_setaffinity(0, bound)


def _gpu(local_rank: int) -> tuple[int | None, str | None]:
    """Return the number and the PCI address of a rank's GPU. A launcher may have hidden the GPUs of other ranks."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        return None, None
    number = local_rank % count
    if sys.platform != "linux":
        return number, None
    try:
        import cupy

        return number, str(cupy.cuda.Device(number).pci_bus_id)
    except Exception:  # noqa: BLE001  # without CuPy or its driver, only the placement is less precise
        return number, None


def _ranks_near(node: int | None, ranks: int, sysfs: Path) -> int:
    """Return how many of this machine's ranks have a GPU on a NUMA node; 0 if a launcher has hidden their GPUs."""
    import torch

    if node is None or torch.cuda.device_count() < ranks:
        return 0
    addresses = [_gpu(rank)[1] for rank in range(ranks)]
    return sum(address is not None and gpu_node(address, sysfs) == node for address in addresses)
