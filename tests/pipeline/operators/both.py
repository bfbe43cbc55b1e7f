"""Runs the same graph here and in NVIDIA DALI, on the CPU, and compares outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest

import pipeline
from pipeline.errors import PipelineError

Array = npt.NDArray[Any]
#: Takes the modules `fn` and `types` of either side, and the inputs; returns one output or a tuple.
Graph = Callable[..., Any]


@dataclass(frozen=True)
class Output:
    """A batch on the CPU."""

    samples: list[Array]
    layout: str


def run_ours(
    graph: Graph, *feeds: Sequence[Array], layouts: Sequence[str | None] = (), seed: int = 7, **options: Any
) -> list[Output]:
    """Run one batch here."""
    pipe = pipeline.Pipeline(
        **{
            "batch_size": len(feeds[0]) if feeds else 1,
            "num_threads": 1,
            "device_id": None,
            "seed": seed,
            **options,
        }
    )
    made = _run(pipe, pipeline.fn, pipeline.types, graph, feeds, layouts)
    try:
        outputs = [value.as_cpu() for value in made()]
        return [
            Output([np.array(output.at(index)) for index in range(len(output))], output.layout()) for output in outputs
        ]
    finally:
        pipe.close()


def as_dali() -> AbstractContextManager[Any]:
    """Return a context in which arguments have DALI's defaults, as in scripts that import `nvidia.dali`."""
    return patch("dali_proxy.pipeline._graph.nodes.follows_dali", lambda: True)


def run_dali(
    graph: Graph,
    *feeds: Sequence[Array],
    layouts: Sequence[str | None] = (),
    seed: int = 7,
    batch_size: int | None = None,
) -> list[Output]:
    """Run one batch in DALI."""
    dali = pytest.importorskip("nvidia.dali")
    size = batch_size or (len(feeds[0]) if feeds else 1)
    pipe = dali.Pipeline(batch_size=size, num_threads=1, device_id=None, seed=seed)
    made = _run(pipe, dali.fn, dali.types, graph, feeds, layouts)
    return [Output([np.array(output.at(index)) for index in range(len(output))], output.layout()) for output in made()]


def _run(
    pipe: Any, fn: Any, types: Any, graph: Graph, feeds: Sequence[Sequence[Array]], layouts: Sequence[str | None]
) -> Callable[[], Any]:
    with pipe:
        chosen = [*layouts, *[None] * (len(feeds) - len(layouts))]
        inputs = [fn.external_source(name=f"in{number}", layout=layout) for number, layout in enumerate(chosen)]
        outputs = graph(fn, types, *inputs)
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple | list) else (outputs,)))
    pipe.build()
    for number, feed in enumerate(feeds):
        pipe.feed_input(f"in{number}", list(feed))
    return pipe.run  # type: ignore[no-any-return]


def compare(graph: Graph, *feeds: Sequence[Array], layouts: Sequence[str | None] = (), tolerance: float = 0.0) -> float:
    """Assert that both make the same: shapes, dtypes, layouts, and values within a tolerance.

    Returns:
        the largest difference.
    """
    largest = 0.0
    ours, theirs = (run(graph, *feeds, layouts=layouts) for run in (run_ours, run_dali))
    assert len(ours) == len(theirs)
    for our_output, their_output in zip(ours, theirs, strict=True):
        assert our_output.layout == their_output.layout
        for sample, (our, their) in enumerate(zip(our_output.samples, their_output.samples, strict=True)):
            assert our.shape == their.shape, f"sample {sample}"
            assert our.dtype == their.dtype
            largest = max(largest, difference(our, their))
    assert largest <= tolerance, f"differs by {largest}"
    return largest


def difference(ours: Array, theirs: Array) -> float:
    """Return the largest difference; equal infinities and NaNs count as none."""
    if not ours.size:
        return 0.0
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        return float(np.where(same, 0.0, np.abs(ours - theirs)).max())


def refused_by_both(
    graph: Graph, *feeds: Sequence[Array], layouts: Sequence[str | None] = (), match: str
) -> PipelineError:
    """Assert that both refuse a graph, when it is described or run; return our error."""
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        run_dali(graph, *feeds, layouts=layouts)
    with pytest.raises(PipelineError, match=match) as caught:
        run_ours(graph, *feeds, layouts=layouts)
    return caught.value


def sample_images(
    *shapes: tuple[int, ...], dtype: npt.DTypeLike = np.uint8, seed: int = 0, low: float = 0, high: float = 255
) -> list[Array]:
    """Return noise of some shapes."""
    generator = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return [generator.uniform(low, high, shape).astype(dtype) for shape in shapes]
    return [generator.integers(int(low), int(high), shape, endpoint=True).astype(dtype) for shape in shapes]


#: A ragged batch of HWC images.
RAGGED = ((17, 23, 3), (31, 12, 3), (20, 20, 3))
