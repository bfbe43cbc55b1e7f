"""A training beside the decoding: frames of three cameras, and the training's own speed with batches that stay."""

from __future__ import annotations

import itertools
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.measurement import tree_cpu
from benchmarks.video_pool.moments import CAMERAS, SIZE, cameras, cameras_on_gpu, loader_of, write_clips
from dali_proxy import DALIServer

_CLIPS, _PASSES = 16, 20  # files of a camera, and how often an epoch reads each
_WIDTH, _PATCH = 512, 32
_IDLE = 0.1  # cores that all processes use together when nothing is decoded
_AHEAD = 16  # batches that may wait on the GPU when a block begins: they don't count


class Policy(nn.Module):
    """A transformer over the patches of one frame of each camera."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded = nn.Conv2d(3, _WIDTH, _PATCH, _PATCH)
        self.blocks = nn.ModuleList()
        self.head = nn.Linear(_WIDTH, 7)

    def grow(self, depth: int) -> None:
        """Add blocks until there are so many."""
        while len(self.blocks) < depth:
            block = nn.TransformerEncoderLayer(_WIDTH, 8, 4 * _WIDTH, 0.0, batch_first=True, norm_first=True)
            self.blocks.append(block.to(self.head.weight.device))

    def forward(self, frames: list[torch.Tensor]) -> torch.Tensor:
        pixels = torch.cat([each.flatten(0, 1) for each in frames]).permute(0, 3, 1, 2)
        x = self.embedded(pixels.to(self.head.weight.dtype) / 255).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1)).square().mean()


def measure_training(
    device: str,
    cores: int,
    batch_size: int,
    rate: float,
    seconds: float,
    mode: Any,
    threads: int | None = None,
    placement: Any = "server",
    own_stream: bool = False,
    rounds: int = 3,
    folder: Path | None = None,
    episodes: int = _CLIPS,
) -> dict[str, Any]:
    """Return samples per second and shares of the training's own speed.

    Args:
        device: "cuda:0", or "cpu" to try it.
        cores: number of cores for all processes, after the clips are drawn.
        batch_size: samples of a batch.
        rate: samples per second of the training alone: the model gets so many blocks.
        seconds: duration of a block of steps.
        mode: mode of the server.
        threads: threads of the server; None for one for each core.
        placement: placement of the pipeline: with "cores", the server decodes on cores, and the training's process
            copies the frames.
        own_stream: whether the training runs on a stream of its own, instead of CUDA's default stream.
        rounds: number of blocks of steps on loaded batches, each between two on batches that stay.
        folder: folder to keep the clips in, for further runs.
        episodes: number of files of each camera.
    """
    with tempfile.TemporaryDirectory() as name:
        clips = folder or Path(name)
        allowed = sorted(os.sched_getaffinity(0))
        write_clips(clips, "h264", 30, range(episodes), threads=min(len(allowed), 16))
        os.sched_setaffinity(0, allowed[:cores])
        torch.set_num_threads(cores)
        on_gpu = device != "cpu"
        options: dict[str, Any] = {"mode": mode, "placement": placement}
        if on_gpu:
            options["device_id"] = torch.device(device).index or 0
        graph = cameras_on_gpu if on_gpu else cameras
        stream = torch.cuda.stream(torch.cuda.Stream(device)) if own_stream else nullcontext()
        with stream, DALIServer(graph, batch_size=batch_size, num_threads=threads or cores, **options) as server:
            trainer = _Trainer(torch.device(device), batch_size, rate)
            batches = iter(loader_of(server, clips, [*range(episodes)] * _PASSES, batch_size))
            first = next(batches)
            assert all(each.device.type == torch.device(device).type for each in first)
            alone = _rate(batches, seconds, lambda batch: None, trainer.wait, batch_size)
            resident = [trainer.rate(_alone(first), seconds, ahead=2)]
            fed = []
            for _ in range(rounds):
                fed.append(trainer.rate(batches, seconds))
                resident.append(trainer.rate(_alone(first), seconds, ahead=2))
            stats = server.stats()
    shares = [
        each / ((a + b) / 2) for (each, _), ((a, _), (b, _)) in zip(fed, itertools.pairwise(resident), strict=True)
    ]
    return {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "cores": cores,
        "threads": threads or cores,
        "mode": mode,
        "placement": placement,
        "own_stream": own_stream,
        "batch_size": batch_size,
        "blocks_of_the_model": len(trainer.model.blocks),
        "samples_per_second_without_training": round(alone[0]),
        "samples_per_second_in_training": round(statistics.median([each for each, _ in fed])),
        "training_alone": round(statistics.median([each for each, _ in resident])),
        "share": round(statistics.median(shares), 4),
        "shares": [round(each, 4) for each in shares],
        "cores_used": round(statistics.median([each for _, each in fed]), 2),
        "cores_used_alone": round(statistics.median([each for _, each in resident]), 2),
        "decoded_per_used": round(stats.video_decoded / stats.video_used, 3),
    }


def _alone(batch: Any) -> Iterator[Any]:
    """Return the same batch again and again, after the server has filled its queues and waits."""
    busy, deadline = math.inf, time.monotonic() + 8
    while busy > _IDLE and time.monotonic() < deadline:
        cpu = tree_cpu()
        time.sleep(0.5)
        busy = (tree_cpu() - cpu) / 0.5
    return itertools.repeat(batch)


def _rate(
    batches: Iterator[Any], seconds: float, step: Any, wait: Any, batch_size: int, ahead: int = _AHEAD
) -> tuple[float, float]:
    """Return samples per second, and cores of all processes."""
    for batch in itertools.islice(batches, ahead):
        step(batch)
    wait()
    count, cpu, begin = 0, tree_cpu(), time.perf_counter()
    while not count or time.perf_counter() - begin < seconds:
        step(next(batches))
        count += 1
    wait()
    elapsed = time.perf_counter() - begin
    return count * batch_size / elapsed, (tree_cpu() - cpu) / elapsed


class _Trainer:
    """A model that trains on so many samples per second."""

    def __init__(self, device: torch.device, batch_size: int, rate: float) -> None:
        self.device, self._batch_size = device, batch_size
        self.model = Policy().to(device)
        batch = [torch.zeros(batch_size, 1, *SIZE[::-1], 3, dtype=torch.uint8, device=device) for _ in CAMERAS]
        times = {}
        for depth in (1, 5):
            self.model.grow(depth)
            self._optimizer = torch.optim.AdamW(self.model.parameters(), 1e-5, fused=device.type == "cuda")
            for _ in range(3):
                self.step(batch)
            self.wait()
            begin = time.perf_counter()
            for _ in range(3):
                self.step(batch)
            self.wait()
            times[depth] = (time.perf_counter() - begin) / 3
        each = max((times[5] - times[1]) / 4, 1e-6)
        self.model.grow(5 + max(0, min(60, round((batch_size / rate - times[5]) / each))))
        self._optimizer = torch.optim.AdamW(self.model.parameters(), 1e-5, fused=device.type == "cuda")

    def step(self, batch: Any) -> None:
        """Train on a batch."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = self.model(list(batch))
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()

    def wait(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def rate(self, batches: Iterator[Any], seconds: float, ahead: int = _AHEAD) -> tuple[float, float]:
        """Return samples per second, and cores of all processes."""
        return _rate(batches, seconds, self.step, self.wait, self._batch_size, ahead)


def print_training(**options: Any) -> None:
    """Measure, and print the figures as JSON."""
    begin = time.perf_counter()
    print(json.dumps({**measure_training(**options), "seconds": round(time.perf_counter() - begin)}, indent=1))
