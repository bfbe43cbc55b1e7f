"""Train a network step by step, with one launch per kernel or one launch per step."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import torch

from benchmarks.measurement import tree_cpu

MOST_LABELS = 4096
"""Number of labels: more than samples in any batch."""

REHEARSALS = 3
"""Steps before the capture: cuDNN chooses its kernels, and the optimizer creates its state."""

AHEAD = 2
"""Number of steps that may be launched before the GPU has finished the first of them."""

Step = Callable[[torch.Tensor], None]
"""Function that trains on one batch."""


@dataclass(frozen=True)
class Speed:
    """The speed of training, and what it used.

    Attributes:
        rate: Samples per second.
        cores: Cores that this process and its descendants used.
        taking: Milliseconds of processor time that the training's thread spent on taking a batch, without waiting.
    """

    rate: float
    cores: float
    taking: float


@cache
def trainer_of(device: str, network: str) -> Trainer:
    """Return the trainer of this process: one for all batch sizes."""
    return Trainer(device, network)


class Trainer:
    """A network in bfloat16 and channels_last, with momentum, as in ImageNet training.

    Args:
        device: Name of the device in torch.
        network: A model of torchvision, or ``"tiny"`` for a network that trains on a CPU immediately.
    """

    def __init__(self, device: str, network: str) -> None:
        self.device = torch.device(device)
        self.on_gpu = self.device.type == "cuda"
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.benchmark_limit = 3  # of ten: the choice took half of the time of training with a loader
        made = _tiny() if network == "tiny" else _of_torchvision(network)
        self.model = made.to(self.device, memory_format=torch.channels_last).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9, fused=self.on_gpu)
        self.labels = torch.randint(0, 1000, (MOST_LABELS,), device=self.device)

    def step(self, images: torch.Tensor) -> None:
        """Train on one batch."""
        images = images.to(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=False):
            loss = torch.nn.functional.cross_entropy(self.model(images), self.labels[: len(images)])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def replayed(self, like: torch.Tensor) -> Step:
        """Capture a step as a CUDA graph, so that the CPU launches it at once and doesn't limit its speed.

        Args:
            like: Batch whose shape and dtype all other batches must have.

        Returns:
            A step that copies its batch into the graph's input and launches the graph. It waits for the GPU if that is
            several steps behind, like a training loop that reads its loss.
        """
        images = torch.empty_like(like, memory_format=torch.channels_last)
        before = torch.cuda.current_stream(self.device)
        aside = torch.cuda.Stream(self.device)
        aside.wait_stream(before)
        with torch.cuda.stream(aside):
            for _ in range(REHEARSALS):
                self.step(images)
        before.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # The loader's threads may allocate during the capture.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.step(images)

        done = deque(torch.cuda.Event(blocking=True) for _ in range(AHEAD))

        def replay(batch: torch.Tensor) -> None:
            done[0].synchronize()
            images.copy_(batch)
            graph.replay()
            done[0].record()
            done.rotate(-1)

        return replay

    def rate(
        self,
        batches: Iterator[torch.Tensor],
        seconds: float,
        warm_up: int,
        step: Step | None = None,
        on_begin: Callable[[], None] = lambda: None,
    ) -> Speed:
        """Train for a given time.

        Args:
            batches: Batches to train on.
            seconds: Duration.
            warm_up: Number of batches before the measurement.
            step: `step`, or a replayed one.
            on_begin: Called after the warm-up.
        """
        step = step or self.step
        for images in itertools.islice(batches, warm_up):
            step(images)
        self.wait()
        on_begin()
        samples, steps, taking, cpu, begin = 0, 0, 0.0, tree_cpu(), time.perf_counter()
        while self.goes_on(not steps or time.perf_counter() - begin < seconds):
            before = time.thread_time()
            images = next(batches)
            taking += time.thread_time() - before
            step(images)
            samples += len(images)
            steps += 1
        self.wait()
        elapsed = time.perf_counter() - begin
        return Speed(samples / elapsed, (tree_cpu() - cpu) / elapsed, taking / steps * 1e3)

    def goes_on(self, wanted: bool) -> bool:
        """Return whether another step follows; `wanted` is the answer of this process."""
        return wanted

    def wait(self) -> None:
        """Wait for the device."""
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def free(self) -> None:
        """Release GPU memory that other batch sizes and other processes need."""
        self.optimizer.zero_grad(set_to_none=True)
        if self.on_gpu:
            torch.cuda.empty_cache()


def _of_torchvision(name: str) -> torch.nn.Module:
    from torchvision import models

    made: torch.nn.Module = getattr(models, name)()
    return made


def _tiny() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 7, stride=16), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 14 * 14, 1000)
    )
