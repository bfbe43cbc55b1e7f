"""Run augmentations here and in NVIDIA DALI."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import Array, difference

#: Function of the modules `auto_aug` and `types` of a side, and of the inputs. It returns one output.
Graph = Callable[..., Any]


def run(side: str, graph: Graph, *feeds: Sequence[Array], layout: str = "HWC", seed: int = 7) -> list[Array]:
    """Run one batch on "pipeline" or "nvidia.dali"; the first input is images."""
    pytest.importorskip(side)
    root = importlib.import_module(side)
    auto_aug = importlib.import_module(f"{side}.auto_aug")
    for name in ("augmentations", "auto_augment", "core", "rand_augment", "trivial_augment"):
        importlib.import_module(f"{side}.auto_aug.{name}")

    @root.pipeline_def(batch_size=len(feeds[0]), num_threads=2, device_id=None, seed=seed, enable_conditionals=True)  # type: ignore[untyped-decorator]
    def described() -> Any:
        inputs = [
            root.fn.external_source(name=f"in{number}", layout="" if number else layout) for number in range(len(feeds))
        ]
        return graph(auto_aug, root.types, *inputs), *inputs[1:]  # unused inputs would be pruned

    pipe = described()
    try:
        pipe.build()
        for number, feed in enumerate(feeds):
            pipe.feed_input(f"in{number}", list(feed))
        output = pipe.run()[0]
        return [np.array(output.at(index)) for index in range(len(output))]
    finally:
        if side == "pipeline":
            pipe.close()


def check_same(graph: Graph, *feeds: Sequence[Array], layout: str = "HWC", tolerance: float = 1) -> None:
    """Assert that both sides compute the same, within a tolerance."""
    ours, theirs = (run(side, graph, *feeds, layout=layout) for side in ("pipeline", "nvidia.dali"))
    for our, their in zip(ours, theirs, strict=True):
        assert our.shape == their.shape
        assert our.dtype == their.dtype
        assert difference(our, their) <= tolerance
