"""A program for the tests of servers in a cluster: runs all scenarios in a local Ray cluster, and prints the outcomes.

Ray leaves threads and caches in a process, so it doesn't run in the process of the tests. Each scenario is a function
of a running server, which takes seconds to start, and returns plain objects. The last line of the output is a JSON
object with the outcomes by name.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import ray
import torch
from ray.cluster_utils import Cluster

from dali_proxy import BatchError, DALIServer, DataLoader, LastBatchPolicy, RayCluster
from dali_proxy._cluster import server_pool
from dali_proxy.distributed import DistributedBatchSampler, environment
from dali_proxy.errors import ProxyError
from pipeline import fn, pipeline_def

SAMPLES = 48
PATIENCE = 400.0  # seconds until a server has started, on a busy machine
SYSTEM = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
NODE = {"num_cpus": 1, "object_store_memory": 100 << 20}
BATCH = 4 * 3 * 64 * 64 * 4  # bytes of the images of a batch
FOLDER = Path(sys.argv[1])
cluster: Cluster


@pipeline_def(batch_size=5, num_threads=1, device_id=None, seed=3)
def augment() -> Any:
    image = fn.decoders.image(fn.external_source(name="image"))
    image = fn.resize(image, size=[80, 80])
    return fn.crop_mirror_normalize(
        image, mirror=fn.random.coin_flip(), crop=(64, 64), crop_pos_x=fn.random.uniform(range=(0.0, 1.0))
    )


def no_fault(index: int) -> None:
    """Read the sample as usual."""


class Images(torch.utils.data.Dataset[Any]):
    """Encoded images, and numbers that the dataset draws.

    Args:
        proxy: the proxy.
        fault: called with each index; if it returns bytes, they replace the image.
    """

    def __init__(self, proxy: Any, fault: Callable[[int], Any] = no_fault) -> None:
        self.proxy = proxy
        self.fault = fault

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        pixels = np.random.default_rng(index).integers(0, 256, (48, 64, 3), np.uint8)
        image = self.fault(index) or b"P6 64 48 255\n" + pixels.tobytes()
        return self.proxy(image), index, random.random(), float(torch.rand(()))


def broken_at_9(index: int) -> Any:
    return b"broken" if index == 9 else None


def fails_at_9(index: int) -> None:
    if index == 9:
        raise ValueError("sample 9 is bad")


def exits_once_at_9(index: int) -> None:
    marker = FOLDER / "exited"
    if index == 9 and not marker.exists():
        marker.touch()
        os._exit(7)


def always_exits_at_9(index: int) -> None:
    if index == 9:
        os._exit(7)


def is_slow(index: int) -> None:
    time.sleep(0.02)


def notes(index: int) -> None:
    (FOLDER / "read" / str(index)).touch()


def loader_of(server: DALIServer, fault: Any = no_fault, **options: Any) -> DataLoader:
    torch.manual_seed(11)
    return DataLoader(server, Images(server.proxy, fault), **{"batch_size": 4, "shuffle": True, **options})


def digests(loader: Any) -> list[Any]:
    return [[batch[0].double().sum(dim=(1, 2, 3)).tolist(), *(each.tolist() for each in batch[1:])] for batch in loader]


def results(batches: list[Any]) -> list[Any]:
    """The results of the pipeline and the indices, without the numbers that the dataset has drawn."""
    return [batch[:2] for batch in batches]


def expected(epochs: int = 1) -> list[Any]:
    with DALIServer(augment(), mode="thread") as server:
        loader = loader_of(server, num_workers=1)  # a worker has separate generators, like a server in a cluster
        return results([batch for _ in range(epochs) for batch in digests(loader)])


def same_bits(server: DALIServer) -> Any:
    loader = loader_of(server, num_workers=3)
    batches = digests(loader) + digests(loader)
    stats = server.stats()
    loader = loader_of(server, is_slow)
    again = digests(loader) + digests(loader)
    return {
        "as_here": results(batches) == expected(epochs=2),
        "numbers_of_the_dataset": batches == again,
        "servers": server.pool.ready,
        "batches": stats.batches,
        "samples": stats.samples,
        "operators": sorted(stats.operators),
    }


def errors(server: DALIServer) -> Any:
    seen: dict[str, Any] = {}
    for on_error in ("raise", "skip", "replace"):
        loader = iter(loader_of(server, broken_at_9, shuffle=False, on_error=on_error))
        indices: list[Any] = []
        while True:
            try:
                indices.append(next(loader)[1].tolist())
            except StopIteration:
                break
            except BatchError as error:
                seen["pipeline"] = [str(error), error.dataset_indices, error.source_line, error.remote_traceback]
                seen["cause"] = type(error.__cause__).__name__
        seen[on_error] = indices[1:4]
    loader = iter(loader_of(server, fails_at_9, shuffle=False))
    next(loader), next(loader)
    try:
        next(loader)
    except ValueError as error:
        seen["dataset"] = str(error)
    seen["next"] = next(loader)[1].tolist()
    try:
        server.proxy(b"")
    except ProxyError as error:
        seen["proxy"] = str(error)
    return seen


def resumed(server: DALIServer) -> Any:
    loader = loader_of(server)
    iterator = iter(loader)
    for _ in range(5):
        next(iterator)
    state = loader.state_dict()
    rest = results(digests(iterator))
    loader = loader_of(server)
    loader.load_state_dict(state)
    in_cluster = results(digests(loader)) == rest
    with DALIServer(augment(), mode="thread") as here:
        loader = loader_of(here)
        loader.load_state_dict(state)
        return {"in_cluster": in_cluster, "here": results(digests(loader)) == rest, "batches": len(rest)}


def policies_and_forms(server: DALIServer) -> Any:
    filled = loader_of(server, batch_size=5, last_batch_policy=LastBatchPolicy.FILL)
    single = loader_of(server, batch_size=None, shuffle=False, sampler=[3, 4])
    unordered = loader_of(server, num_workers=1, in_order=False)
    for batch in loader_of(server):
        batch[0].zero_()  # the memory is writable
    return {
        "filled": [len(batch[1]) for batch in filled],
        "single": [tuple(batch[0].shape) for batch in single],
        "unordered": sorted(index for batch in unordered for index in batch[1].tolist()) == list(range(SAMPLES)),
    }


def back_pressure(server: DALIServer) -> Any:
    (FOLDER / "read").mkdir()
    iterator = iter(loader_of(server, notes, shuffle=False))
    for _ in range(3):
        next(iterator)
    time.sleep(0.5)  # further batches would be read meanwhile
    in_flight = server.stats().in_flight["loader"]
    return {"read": len(list((FOLDER / "read").iterdir())), "in_flight": [in_flight.batches, in_flight.reason]}


def interrupted_loop(server: DALIServer) -> Any:
    """A signal handler that raises loses no batch."""

    class Interrupt(Exception):
        pass

    def interrupt(number: int, frame: Any) -> None:
        raise Interrupt

    signal.signal(signal.SIGALRM, interrupt)
    batches, interrupts = [], 0
    iterator = iter(loader_of(server, is_slow))
    while True:
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        try:
            batches.append(next(iterator))
        except Interrupt:
            interrupts += 1
        except StopIteration:
            break
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return {"interrupts": interrupts > 0, "same_bits": results(digests(batches)) == expected()}


def process_exits(server: DALIServer) -> Any:
    lost = server.pool.lost
    batches = results(digests(loader_of(server, exits_once_at_9)))
    return {"lost": server.pool.lost - lost, "same_bits": batches == expected()}


def sample_that_always_crashes(server: DALIServer) -> Any:
    server_pool._LOSSES = 1
    indices, message = [], ""
    iterator = iter(loader_of(server, always_exits_at_9, shuffle=False))
    while True:
        try:
            indices += next(iterator)[1].tolist()
        except StopIteration:
            break
        except ProxyError as error:
            message = f"{type(error).__name__}: {error}"
    return {"missing": sorted(set(range(SAMPLES)) - set(indices)), "message": message}


def node_is_killed_and_another_joins(server: DALIServer) -> Any:
    pool = server.pool
    victim = cluster.add_node(**NODE)
    while pool.ready < 3:
        pool.wait()
    lost = pool.lost
    loader = loader_of(server, is_slow)
    batches: list[Any] = []
    for batch in loader:
        batches += digests([batch])
        if len(batches) == 2:
            kill(victim)
            cluster.add_node(**NODE, wait=False)
    while pool.ready < 3:
        pool.wait()
    batches += digests(loader)
    return {"lost": pool.lost - lost, "same_bits": results(batches) == expected(epochs=2)}


def kill(node: Any) -> None:
    """End all processes of a node, like the loss of its machine."""
    for each in [each.process.pid for processes in node.all_processes.values() for each in processes]:
        for process in [*psutil.Process(each).children(recursive=True), psutil.Process(each)]:
            process.send_signal(signal.SIGKILL)


def server_is_stopped_in_a_loop(server: DALIServer) -> Any:
    iterator = iter(loader_of(server))
    next(iterator)
    server.stop()
    try:
        list(iterator)
    except ProxyError as error:
        return {"message": f"{type(error).__name__}: {error}"}
    return {}


def cluster_without_room(server: DALIServer) -> Any:
    begin = time.monotonic()
    try:
        DALIServer(augment(), cluster=RayCluster(num_cpus=64, start_timeout=1)).start()
    except ProxyError as error:
        return {"message": f"{type(error).__name__}: {error}", "seconds": time.monotonic() - begin}
    return {}


def page_runs(server: DALIServer) -> Any:
    """The script of the documentation, with the servers of a cluster that has no room beside this server."""
    server.stop()
    os.chdir(FOLDER)
    sys.path.insert(0, str(FOLDER))
    scope: dict[str, Any] = {}
    script = (FOLDER / "page.py").read_text(encoding="utf-8")
    assert "RayCluster(num_cpus=1)" in script
    exec(script.replace("RayCluster(num_cpus=1)", f"RayCluster(num_cpus=1, start_timeout={PATIENCE})"), scope)
    return {"images": list(scope["images"].shape)}


def divided(server: DALIServer) -> list[Any]:
    """Return the batches of this rank."""
    dataset = Images(server.proxy)
    batches = DistributedBatchSampler(dataset, 4, seed=11)
    return results(digests(DataLoader(server, dataset, batch_sampler=batches)))


def train() -> None:
    """A training loop, in a worker of Ray Train. No worker knows how many servers there may be."""
    with DALIServer(augment(), cluster=RayCluster(start_timeout=PATIENCE), mode="thread") as server:
        rank = environment().rank
        (FOLDER / f"trained-{rank}").write_text(json.dumps(divided(server)), encoding="utf-8")


def ray_train(server: DALIServer) -> Any:
    server.stop()
    if importlib.util.find_spec("pydantic") is None:
        return {"missing": "ray[train]"}
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    scaling = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.01})  # on the same node
    TorchTrainer(train, scaling_config=scaling, run_config=RunConfig(storage_path=str(FOLDER / "train"))).fit()
    trained = [json.loads((FOLDER / f"trained-{rank}").read_text(encoding="utf-8")) for rank in range(2)]
    with DALIServer(augment(), mode="thread") as here:
        alone = divided(here)
    return {"same_bits": [batch for step in zip(*trained, strict=True) for batch in step] == alone}


SCENARIOS = (
    same_bits,
    errors,
    resumed,
    policies_and_forms,
    back_pressure,
    interrupted_loop,
    process_exits,
    sample_that_always_crashes,
    node_is_killed_and_another_joins,
    server_is_stopped_in_a_loop,
    cluster_without_room,
    page_runs,
    ray_train,
)


def run(scenarios: list[Callable[[DALIServer], Any]]) -> dict[str, Any]:
    outcomes: dict[str, Any] = {}
    with DALIServer(
        augment(), cluster=RayCluster(in_flight_bytes=4 * BATCH + 1000, start_timeout=PATIENCE), mode="thread"
    ) as server:
        while server.pool.ready < 2:
            server.pool.wait()
        for scenario in scenarios:
            begin = time.monotonic()
            try:
                outcomes[scenario.__name__] = scenario(server)
            except Exception:  # noqa: BLE001  # its test fails with this text
                outcomes[scenario.__name__] = {"error": traceback.format_exc()}
            print(f"{scenario.__name__}: {time.monotonic() - begin:.1f} s", file=sys.stderr)
    return outcomes


def main() -> None:
    global cluster
    warnings.simplefilter("ignore", RuntimeWarning)  # of on_error
    head = {"num_cpus": 0, "object_store_memory": 100 << 20, "include_dashboard": False, "_system_config": SYSTEM}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(**NODE)
        ray.init(address=cluster.address, log_to_driver=False)
        outcomes = run([each for each in SCENARIOS if not sys.argv[2:] or each.__name__ in sys.argv[2:]])
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
