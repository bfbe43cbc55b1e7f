"""Measure how much a thread that decodes on the JPEG engine slows down a training in the same process.

The training replays CUDA graphs with batches that stay on the GPU; the thread decodes as many images per second as it
trains on, or works as described. Between two measurements with the thread there is one without it.

    taskset -c 0-2 python -m benchmarks.engine --network resnet50 --json engine.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.profiler import ProfilerActivity

from benchmarks.engine.work import EngineThread
from benchmarks.gpu.trainer import trainer_of
from benchmarks.graphs.data import write_images


class Mode(NamedTuple):
    """What the thread does for a batch."""

    planes: bool
    decodes: bool
    launches: bool
    speed: float = 1.0  # images that are decoded for each image of the training


MODES = {
    "thread alone": Mode(planes=True, decodes=False, launches=False),
    "launch alone": Mode(planes=False, decodes=False, launches=True),
    "planes": Mode(planes=True, decodes=True, launches=False),
    "planes, launch": Mode(planes=True, decodes=True, launches=True),
    "colours": Mode(planes=False, decodes=True, launches=False),
    "colours, launch": Mode(planes=False, decodes=True, launches=True),
    "planes, launch, half": Mode(planes=True, decodes=True, launches=True, speed=0.5),
    "planes, launch, double": Mode(planes=True, decodes=True, launches=True, speed=2.0),
}


def main() -> None:
    """Measure, print, and write a JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--batches", default="256,64,32")
    parser.add_argument("--size", default="small", choices=("small", "large"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--priority", type=int, default=0, help="priority of the thread's streams: 0 is the lowest")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=[*MODES])
    parser.add_argument("--own-stream", action="store_true", help="train on a stream that isn't the default one")
    parser.add_argument("--profile", action="store_true", help="print what the thread's calls and kernels wait for")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        write_images(Path(folder), 256, options.size)
        files = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    own: Any = torch.cuda.Stream  # torch declares no types for it
    with torch.cuda.stream(own() if options.own_stream else torch.cuda.default_stream()):
        found = [
            measured
            for batch_size in map(int, options.batches.split(","))
            for measured in measure(options.network, files[:batch_size], options.modes, options)
        ]
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(0), "rows": found}, indent=1))


def measure(network: str, files: list[bytes], modes: list[str], options: Any) -> list[dict[str, Any]]:
    """Return a row for each mode."""
    size, rows = len(files), []
    thread = EngineThread(files, options.priority)
    trainer = trainer_of("cuda:0", network)
    images = [torch.randn(size, 3, 224, 224, device="cuda:0") for _ in range(2)]
    step, batches = trainer.replayed(images[0]), itertools.cycle(images)
    _report_pixels(thread)
    for name in ("planes", "colours"):
        before, begin = thread.batches, time.perf_counter()
        thread.work(-1, planes=name == "planes", decodes=True, launches=True)
        time.sleep(0.7)
        rate = (thread.batches - before) / (time.perf_counter() - begin) * size
        thread.work(0, planes=False, decodes=False, launches=False)
        print(f"{network} {size:>4} {name} without a training: {rate:,.0f} images/s", flush=True)
        rows.append({"network": network, "batch": size, "mode": f"{name} without a training", "rate": rate})
    alone = trainer.rate(batches, options.seconds, 4, step).rate
    shares: dict[str, list[float]] = {name: [] for name in modes}
    decoded: dict[str, list[float]] = {name: [] for name in modes}
    for _, name in itertools.product(range(options.rounds), modes):
        mode, before_alone = MODES[name], alone
        thread.work(mode.speed * alone / size, planes=mode.planes, decodes=mode.decodes, launches=mode.launches)
        before, begin = thread.batches, time.perf_counter()
        rate = trainer.rate(batches, options.seconds, 2, step).rate
        decoded[name].append((thread.batches - before) * size / (time.perf_counter() - begin) / rate)
        thread.work(0, planes=False, decodes=False, launches=False)
        alone = trainer.rate(batches, options.seconds, 2, step).rate
        shares[name].append(2 * rate / (before_alone + alone))
    for name in modes:
        share, low, high = statistics.median(shares[name]), min(shares[name]), max(shares[name])
        ratio = statistics.median(decoded[name])
        print(
            f"{network} {size:>4} {name:<24} {share:7.2%} ({low:.1%}..{high:.1%}) of {alone:,.0f} images/s, "
            f"{ratio:.2f} images per trained one",
            flush=True,
        )
        rows.append({"network": network, "batch": size, "mode": name, "shares": shares[name], "alone": alone,
                     "decoded": decoded[name]})  # fmt: skip
    if options.profile:
        for name in modes:
            mode = MODES[name]
            thread.work(mode.speed * alone / size, planes=mode.planes, decodes=mode.decodes, launches=mode.launches)
            print(
                f"{network} {size} {name}", profiled(lambda: trainer.rate(batches, 0.3, 1, step)), sep="\n", flush=True
            )
    thread.close()
    trainer.free()
    return rows


def profiled(train: Callable[[], Any]) -> str:
    """Return the longest calls of CUDA, by thread, and the kernels, by stream, while a function runs."""
    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        train()
    with TemporaryDirectory() as folder:
        profiler.export_chrome_trace(f"{folder}/trace.json")
        events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
    sums: dict[tuple[str, Any, str], list[float]] = {}
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver"):
            place = event.get("args", {}).get("stream") if event["cat"][:4] != "cuda" else event["tid"]
            sums.setdefault((event["cat"], place, event["name"][:60]), []).append(event["dur"])
    ranked = sorted(sums.items(), key=lambda item: (item[0][0], str(item[0][1]), -sum(item[1])))
    lines, shown = [], Counter[tuple[str, Any]]()
    for (kind, place, name), times in ranked:
        shown[kind, place] += 1
        if shown[kind, place] <= 7:
            lines.append(f"  {kind:<12} {place!s:>8} {len(times):>5} x {statistics.mean(times):>9.1f} us, "
                         f"most {max(times):>9.1f}  {name}")  # fmt: skip
    return "\n".join(lines)


def _report_pixels(thread: EngineThread) -> None:
    """Print how much the outputs of both modes differ, as a check that both decode and resize."""
    outputs = []
    for planes in (True, False):
        before = thread.batches
        thread.work(-1, planes=planes, decodes=True, launches=True)
        while thread.batches < before + 6:
            time.sleep(1e-3)
        thread.work(0, planes=planes, decodes=False, launches=False)
        outputs.append(thread.output())
    difference = np.abs(outputs[0] - outputs[1]) * 58
    print(f"planes and colours differ by {difference.mean():.2f} of 255; standard deviation {outputs[0].std():.2f}")


if __name__ == "__main__":
    main()
