"""Pipelines with a cache, for its tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._cache.value_cache import ValueCache
from pipeline import Pipeline, fn

Samples = Sequence[npt.NDArray[np.uint8]]
BATCH = 8


def crops(data: Any) -> Any:
    return fn.random_resized_crop(fn.decoders.image(data), size=(32, 32))


class Run:
    """A pipeline that counts the samples that it decodes."""

    def __init__(
        self,
        describe: Callable[[Any], Any],
        cache: Any = "100MB",
        shared: ValueCache | None = None,
        **others: int,
    ) -> None:
        arguments: dict[str, Any] = {
            "batch_size": BATCH,
            "num_threads": 2,
            "device_id": None,
            "seed": 3,
            "cache": cache,
        }
        self.pipe = Pipeline(**{**arguments, **others})
        self.pipe._internals.cache = shared
        with self.pipe:
            outputs = describe(fn.external_source(name="data"))
            self.pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
        self.pipe.build()

    def epochs(self, samples: Samples, epochs: int = 3) -> list[Any]:
        """Return all results of shuffled epochs."""
        results = []
        for epoch in range(epochs):
            order = np.random.default_rng(epoch).permutation(len(samples)).tolist()
            for begin in range(0, len(order), BATCH):
                results += self.batch([samples[index] for index in order[begin : begin + BATCH]])
        return results

    def batch(self, samples: Samples) -> list[Any]:
        inputs: dict[str, Any] = {"data": list(samples)}
        if "size" in self.pipe._internals.graph.fed_inputs:
            inputs["size"] = [np.array([len(sample) % 9 + 3, 7], np.float32) for sample in samples]
        outputs = self.pipe.run(**inputs)
        return [(output.layout(), [np.array(sample) for sample in output]) for output in outputs]

    @property
    def report(self) -> dict[str, Any]:
        cache = self.pipe._internals.cache
        assert cache is not None
        return cache.report()


def check_equal(found: list[Any], expected: list[Any]) -> None:
    for (layout, samples), (right_layout, right_samples) in zip(found, expected, strict=True):
        assert layout == right_layout
        for sample, right in zip(samples, right_samples, strict=True):
            np.testing.assert_array_equal(sample, right, strict=True)
