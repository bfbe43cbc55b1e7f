"""Predict the throughput of many loader nodes and GPUs from measured costs: ``python -m benchmarks.cost_model``.

A batch uses several resources in turn: storage, cores of loaders, networks, a thread of the training process, the GPU.
The asymptotic bound of a pipeline is that of its slowest resource: capacity divided by what one sample needs of it.
`cluster` and `local` return the bounds of all resources, so the smallest names the bottleneck. `simulate` adds what a
bound leaves out: batches take different times, arrive in order, and only some are in flight.

The program prints the predictions, and draws them (``docs/figures/scaling.png``). It also predicts the measurements of
``python -m benchmarks.scale`` for several ranks and nodes from the costs that its measurement of one rank or node
found, and draws both (``docs/figures/scaling-check.png``).
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.plots import COLORS, missing_matplotlib
from benchmarks.session import RESULTS

FIGURES = Path(__file__).resolve().parent.parent / "docs" / "figures"
NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
GPUS = tuple(2**power for power in range(11))

Bounds = dict[str, float]
"""Images per second that each resource allows, for all GPUs together."""


@dataclass(frozen=True)
class Costs:
    """Measured costs.

    Attributes:
        encoded: bytes of a JPEG; `benchmarks.workload` creates such files.
        result: bytes of an image of float32, 3 x 224 x 224. With uint8, it is a quarter.
        loader_ms: milliseconds of processor time per image: read, decode, crop, resize, normalize, transport
            (2026-11-22-cpu-2-cores.json: dali-proxy, bytes).
        local_ms: the same on the cores of an H100's machine while it trains (2026-11-22-nvidia-h100-80gb-hbm3-gpu.json:
            training, batches of 256, consumer: 7.0 cores more than the training alone, for 3,958 images/s).
        gpu_rate: images per second that a ResNet-50 trains on with an H100, from resident batches (same file).
        decoder_rate: images per second of a server that decodes on the same GPU (same file).
        decoder_share: speed that training keeps when such a server uses its GPU (same file).
        decoder_ms: processor time per image of such a server (same file).
        sample_ms: milliseconds that the thread of a server that reads the dataset needs for a sample
            (2026-11-24-cpu-2-cores-scale.json: tiny, one node, whose elapsed time is an upper bound).
        send_ms: milliseconds of processor time of a loader node per MB of results, for their way (same file: arrays and
            tiny, one node, without the training process).
        receive_ms: the same of the training process (same file).
        batch_ms: milliseconds that the training process needs for a batch of any size in a training loop
            (docs/performance.md: with placement="consumer").
    """

    encoded: float = 57e3
    result: float = 4 * 3 * 224 * 224
    loader_ms: float = 0.98
    local_ms: float = 1.77
    gpu_rate: float = 4_000
    decoder_rate: float = 31_500
    decoder_share: float = 0.85
    decoder_ms: float = 0.11
    sample_ms: float = 0.12
    send_ms: float = 0.40
    receive_ms: float = 0.27
    batch_ms: float = 1.8


@dataclass(frozen=True)
class Site:
    """An assumed site: nothing here is measured. Change what differs.

    Attributes:
        batch: samples of a batch of one GPU.
        gpus_per_node: GPUs of a training node.
        cores_per_gpu: cores of a training node, divided by its GPUs.
        node_cores: cores of a loader node.
        server_cores: `num_cpus` of a server: a loader node runs one for each so many cores.
        node_network: bytes per second of the network of a loader node.
        training_network: bytes per second of the network of a training node, without that between the GPUs.
        storage: bytes per second of the shared storage.
        in_flight_bytes: argument of `RayCluster`; its default with 256 GiB of free memory and 8 ranks.
        variation: coefficient of variation of the time that a server needs for a batch.
    """

    batch: int = 256
    gpus_per_node: int = 8
    cores_per_gpu: float = 16
    node_cores: int = 32
    server_cores: int = 4
    node_network: float = 25e9 / 8
    training_network: float = 100e9 / 8
    storage: float = 100e9
    in_flight_bytes: float = 8 << 30
    variation: float = 0.3


def shared(costs: Costs, site: Site, gpus: int) -> Bounds:
    """Return the bounds that don't depend on the way of loading."""
    return {"GPUs": gpus * costs.gpu_rate, "shared storage": site.storage / costs.encoded}


def local(costs: Costs, site: Site, gpus: int, decoder: str = "cpu") -> Bounds:
    """Return the bounds of one server per GPU on the training nodes.

    Args:
        costs: measured costs.
        site: assumed site.
        gpus: number of GPUs.
        decoder: "cpu", or "gpu" for a server that decodes on the GPU that trains.
    """
    machines = math.ceil(gpus / site.gpus_per_node)
    found = shared(costs, site, gpus)
    found["training network"] = machines * site.training_network / costs.encoded
    found["training process"] = gpus * 1e3 * site.batch / costs.batch_ms
    cores = gpus * (site.cores_per_gpu - 1)  # one for the training loop
    if decoder == "cpu":
        found["cores of training nodes"] = cores * 1e3 / costs.local_ms
    else:
        found["cores of training nodes"] = cores * 1e3 / costs.decoder_ms
        found["GPU decoders"] = gpus * costs.decoder_rate
        found["GPUs"] *= costs.decoder_share
    return found


def cluster(costs: Costs, site: Site, gpus: int, nodes: int) -> Bounds:
    """Return the bounds of servers on loader nodes. Each rank needs at least one server."""
    machines = math.ceil(gpus / site.gpus_per_node)
    servers = nodes * (site.node_cores // site.server_cores) // gpus  # of each rank
    found = shared(costs, site, gpus)
    found["loader cores"] = nodes * site.node_cores * 1e3 / image_ms(costs)
    found["reading threads"] = nodes * (site.node_cores // site.server_cores) * 1e3 / costs.sample_ms
    found["loader network"] = nodes * site.node_network / max(costs.result, costs.encoded)  # full duplex
    found["training network"] = machines * site.training_network / costs.result
    found["training process"] = gpus * site.batch / receive_seconds(costs, site)
    found["servers per rank"] = math.inf if servers else 0.0
    in_flight = gpus * window(costs, site, servers) * site.batch
    found["bytes in flight"] = in_flight / (service_seconds(costs, site) + receive_seconds(costs, site))
    return found


def image_ms(costs: Costs) -> float:
    """Return milliseconds of a loader node's processor time per image, with its way."""
    return costs.loader_ms + costs.send_ms * costs.result / 1e6


def service_seconds(costs: Costs, site: Site) -> float:
    """Return how long a server needs for a batch: cores, the thread that reads, or its share of the node's network."""
    network = costs.result / site.node_network * (site.node_cores // site.server_cores)
    return site.batch * max(image_ms(costs) / site.server_cores / 1e3, costs.sample_ms / 1e3, network)


def receive_seconds(costs: Costs, site: Site) -> float:
    """Return how long the training process needs to receive a batch."""
    return (costs.batch_ms + costs.receive_ms * site.batch * costs.result / 1e6) / 1e3


def window(costs: Costs, site: Site, servers: int) -> int:
    """Return the number of batches in flight of one rank."""
    return max(1, min(3 * servers, int(site.in_flight_bytes // (site.batch * costs.result))))


def bottleneck(bounds: Bounds) -> tuple[str, float]:
    """Return the resource with the smallest bound, and that bound."""
    name = min(bounds, key=lambda each: bounds[each])
    return name, bounds[name]


def simulate(servers: int, in_flight: int, service: float, take: float, variation: float, batches: int = 4000) -> float:
    """Return batches per second of one rank whose loop takes batches in order.

    Args:
        servers: number of servers, each of which computes one batch after another. The one with the fewest requests
            gets the next batch.
        in_flight: number of batches that are requested, and that the loop hasn't taken.
        service: mean seconds that a server needs for a batch. The times have a gamma distribution.
        take: seconds that the loop needs for a batch: the slowest of receiving, network and training.
        variation: coefficient of variation of the service times.
        batches: number of batches.
    """
    draw = random.Random(1)
    shape = 1 / variation**2
    idle_at = [0.0] * servers
    fewest = [(0, server) for server in range(servers)]  # requests of each server
    load = [0] * servers
    running: list[tuple[float, int]] = []  # end and server of each request
    ends: deque[float] = deque()
    now = 0.0
    half = 0.0
    for number in range(batches + in_flight):
        if number >= in_flight:  # the window is full: take one
            now = max(now, ends.popleft()) + take
            if number - in_flight == batches // 2:
                half = now
        while running and running[0][0] <= now:
            server = heapq.heappop(running)[1]
            load[server] -= 1
            heapq.heappush(fewest, (load[server], server))
        while fewest[0][0] != load[fewest[0][1]]:  # outdated
            heapq.heappop(fewest)
        server = heapq.heappop(fewest)[1]
        load[server] += 1
        heapq.heappush(fewest, (load[server], server))
        idle_at[server] = max(now, idle_at[server]) + draw.gammavariate(shape, service / shape)
        heapq.heappush(running, (idle_at[server], server))
        ends.append(idle_at[server])
    return (batches - batches // 2 - 1) / (now - half)


def simulated(costs: Costs, site: Site, gpus: int, nodes: int) -> float:
    """Return the images per second of a cluster by simulation of one of its ranks."""
    bounds = cluster(costs, site, gpus, nodes)
    servers = nodes * (site.node_cores // site.server_cores) // gpus
    if not servers:
        return 0.0
    rest = [bounds[name] for name in ("GPUs", "shared storage", "training network", "training process")]
    take = gpus * site.batch / min(rest)
    in_flight = window(costs, site, servers)
    return gpus * site.batch * simulate(servers, in_flight, service_seconds(costs, site), take, site.variation)


def predict_check(document: dict[str, Any]) -> dict[str, list[tuple[int, float, float]]]:
    """Predict the measurements of ``benchmarks.scale`` from those of one rank and one node.

    The ranks and nodes of one machine share its cores. So the bounds are the rate of one, times their number, and the
    cores that other programs left free, divided by the processor time of a sample.

    Args:
        document: JSON of ``benchmarks.scale``.

    Returns:
        By job, the number of ranks or nodes, and the predicted and the measured samples per second.
    """
    cores = document["machine"]["cores"]
    series: dict[str, list[tuple[int, list[dict[str, Any]]]]] = {
        "ranks": [(int(count), ranks) for count, ranks in document["ranks"].items()]
    }
    for each in document["nodes"]:
        series.setdefault(f"nodes, {each['job']}", []).append((each["nodes"], [each]))
    found: dict[str, list[tuple[int, float, float]]] = {}
    for name, points in series.items():
        first = points[0][1][0]
        each, cost = first["samples"] / first["seconds"], first["cpu_seconds"] / first["samples"]
        for count, parts in points:
            measured = sum(part["samples"] / part["seconds"] for part in parts)
            own = sum(part["cpu_seconds"] / part["seconds"] for part in parts)
            free = cores - max(parts[0]["machine_cpu_seconds"] / parts[0]["seconds"] - own, 0.0)
            found.setdefault(name, []).append((count, min(count * each, free / cost), measured))
    return found


def plot(costs: Costs, site: Site, path: Path) -> None:
    """Draw the predictions by loader nodes and by GPUs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 7.2), layout="constrained")
    *by_nodes, by_gpus = figure.subplot_mosaic([["uint8", "float32"], ["gpus", "gpus"]]).values()
    small = replace(costs, result=costs.result / 4)
    for axes, each, name in ((by_nodes[0], small, "uint8"), (by_nodes[1], costs, "float32")):
        for color, gpus in zip(COLORS, (1, 8, 64, 256, 1024), strict=False):
            bounds = partial(cluster, each, site, gpus)
            nodes = [count for count in NODES if bounds(count)["servers per rank"]]
            rates = [bottleneck(bounds(count))[1] for count in nodes]
            axes.plot(nodes, rates, color=color)
            axes.plot(nodes, [simulated(each, site, gpus, count) for count in nodes], ".", color=color)
            label = f"{gpus:,} GPU{'s' * (gpus > 1)}"
            axes.annotate(label, (nodes[-1], rates[-1]), (0, 4), textcoords="offset points", ha="right", color=color)
        axes.set_title(f"loader nodes that send {name}")
        axes.set_xlabel("loader nodes (lines: model, dots: simulation)")
        axes.set_ylim(3000, 3e6)
    few = replace(site, cores_per_gpu=4)
    ways: Sequence[tuple[str, Callable[[int], Bounds]]] = (
        ("GPUs alone", lambda gpus: {"": gpus * costs.gpu_rate}),
        (f"CPU, {site.cores_per_gpu:g} cores per GPU", lambda gpus: local(costs, site, gpus)),
        (f"CPU, {few.cores_per_gpu:g} cores per GPU", lambda gpus: local(costs, few, gpus)),
        ("the GPU that trains decodes", lambda gpus: local(costs, few, gpus, "gpu")),
        ("loader nodes: 1 per 4 GPUs", lambda gpus: cluster(small, site, gpus, math.ceil(gpus / 4))),
        ("the same, float32", lambda gpus: cluster(costs, site, gpus, math.ceil(gpus / 4))),
    )
    for (name, way), color in zip(ways, ("#bbbbbb", *COLORS), strict=False):
        each_gpu = [bottleneck(way(count))[1] / count for count in GPUS]
        by_gpus.plot(GPUS, each_gpu, "--" if "nodes" in name else "-", color=color, label=name)
    by_gpus.set_title("ways of loading, of which some are equal")
    by_gpus.set_xlabel("GPUs")
    by_gpus.set_ylabel("images/s of each GPU")
    by_gpus.set_ylim(bottom=0)
    by_gpus.legend(fontsize=9, loc="lower left", ncols=2)
    by_nodes[0].set_ylabel("images/s of all GPUs")
    for axes in by_nodes:
        axes.set_yscale("log")
    for axes in (*by_nodes, by_gpus):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def plot_check(document: dict[str, Any], path: Path) -> None:
    """Draw the predicted and the measured rates of several ranks and nodes of one machine."""
    from matplotlib.figure import Figure

    checks = predict_check(document)
    lines = -(-len(checks) // 3)
    figure = Figure(figsize=(8.4, 2.8 * lines), layout="constrained")
    grid = figure.subplots(lines, 3, squeeze=False).flatten()
    for empty in grid[len(checks) :]:
        empty.remove()
    for axes, (name, points) in zip(grid, checks.items(), strict=False):
        counts = [count for count, *_ in points]
        axes.plot(counts, [predicted for _, predicted, _ in points], "-", color=COLORS[0], label="predicted")
        axes.plot(counts, [measured for *_, measured in points], "o", color=COLORS[1], label="measured")
        axes.set_xticks(counts)
        axes.set_ylim(0, 1.25 * max(max(pair) for _, *pair in points))
        axes.set_xlabel(name)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("samples/s")
    figure.axes[0].legend(fontsize=8)
    figure.suptitle(f"{document['machine']['processor']}, {document['machine']['cores']} cores, {document['date']}")
    figure.savefig(path, dpi=110)


def tables(costs: Costs, site: Site) -> Iterable[str]:
    """Yield lines of Markdown: the predictions, each with its bottleneck."""
    small, few = replace(costs, result=costs.result / 4), replace(site, cores_per_gpu=4)
    counts = (1, 10, 100, 1000)
    yield from _row("GPUs", *(f"{count:,} loader node{'s' * (count > 1)}" for count in counts))
    yield from _row("---", *("---" for _ in counts))
    for gpus in (1, 8, 64, 256, 1024):
        yield from _row(f"{gpus:,}", *(_cell(cluster(small, site, gpus, count)) for count in counts))
    yield ""
    cores = (f"CPU, {each.cores_per_gpu:g} cores per GPU" for each in (site, few))
    yield from _row("GPUs", *cores, "the GPU that trains decodes", "1 node per 4 GPUs", "the same, float32")
    yield from _row(*["---"] * 6)
    for gpus in (1, 8, 64, 256, 512, 1024):
        nodes = math.ceil(gpus / 4)
        ways = (
            local(costs, site, gpus),
            local(costs, few, gpus),
            local(costs, few, gpus, "gpu"),
            cluster(small, site, gpus, nodes),
            cluster(costs, site, gpus, nodes),
        )
        yield from _row(f"{gpus:,}", *map(_cell, ways))


def check_table(document: dict[str, Any]) -> Iterable[str]:
    """Yield lines of Markdown: the predicted and the measured samples per second of several ranks and nodes."""
    yield from _row("", "number", "predicted", "measured", "measured / predicted")
    yield from _row(*["---"] * 5)
    for name, points in predict_check(document).items():
        for count, predicted, measured in points:
            yield from _row(name, f"{count}", f"{predicted:,.0f}", f"{measured:,.0f}", f"{measured / predicted:.2f}")


def _row(*cells: str) -> Iterable[str]:
    yield f"| {' | '.join(cells)} |"


def _cell(bounds: Bounds) -> str:
    name, rate = bottleneck(bounds)
    return f"{float(f'{rate:.3g}'):,.0f} ({name})" if rate else "– (servers per rank)"


def main() -> int:
    """Print the predictions and the check, and draw them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", type=Path, help="JSON of benchmarks.scale (default: the last committed)")
    parser.add_argument("--output", type=Path, default=FIGURES, help="folder of the plots (default: docs/figures)")
    options = parser.parse_args()
    costs, site = Costs(), Site()
    latest = options.check or max(RESULTS.glob("*-cpu-*-scale.json"))
    document = json.loads(latest.read_text(encoding="utf-8"))
    print("\n".join([*tables(costs, site), "", *check_table(document)]))
    if (missing := missing_matplotlib()) is not None:
        print(missing)
        return 0
    plot(costs, site, options.output / "scaling.png")
    plot_check(document, options.output / "scaling-check.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
