"""Pipelines with a decoder on the GPU and a cache, for its tests.

Without a GPU, host memory stands for its memory, and nvImageCodec's decoders for the CPU for the GPU's libraries; see
`tests.host_cupy`.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

from dali_proxy.pipeline._cache.value_cache import ValueCache, total_report
from pipeline import Pipeline, fn
from tests.pipeline.compiler.cached_runs import BATCH, Samples

pipes: list[Pipeline] = []
"""The pipelines that a test has built."""


def encode(kind: str, pixels: Any, mode: str = "RGB") -> Any:
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8)


class GpuRun:
    """A pipeline with a decoder on the GPU."""

    def __init__(
        self, describe: Any = None, *, cache: Any = 0, shared: ValueCache | None = None, **arguments: Any
    ) -> None:
        self.pipe = Pipeline(batch_size=BATCH, num_threads=2, device_id=0, seed=3, cache=cache)
        self.pipe._internals.cache = shared
        with self.pipe:
            images = fn.decoders.image(fn.external_source(name="data"), device="mixed", **arguments)
            outputs = images if describe is None else describe(images)
            self.pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
        self.pipe.build()
        pipes.append(self.pipe)

    def epochs(self, samples: Samples, epochs: int = 3) -> list[Any]:
        """Return all results of shuffled epochs."""
        results = []
        for epoch in range(epochs):
            order = np.random.default_rng(epoch).permutation(len(samples)).tolist()
            for begin in range(0, len(order), BATCH):
                results += self.batch([samples[index] for index in order[begin : begin + BATCH]])
        return results

    def batch(self, samples: Samples) -> list[Any]:
        outputs = [each.as_cpu() for each in self.pipe.run(data=list(samples))]
        return [(each.layout(), [np.array(sample) for sample in each]) for each in outputs]

    @property
    def report(self) -> dict[str, Any]:
        executor = self.pipe._internals.executor
        assert executor is not None
        return dict(total_report(executor.caches))
