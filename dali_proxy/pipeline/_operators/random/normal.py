"""`random.normal`: normal distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind, implements
from dali_proxy.pipeline._imaging import gaussian_noise
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.noise import Noise
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import samples_of
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline._operators.random.distribution import TransformedCpu, TransformedGpu, declare, rows_of
from dali_proxy.pipeline._rng import Distribution
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

NORMAL = declare(
    "normal",
    "Draws numbers from a normal distribution. The GPU version returns the same numbers, except with `shape_like` and "
    "the dtype FLOAT: then each device returns those that its `noise.gaussian` adds to that input with the same seed.",
    Argument("mean", Kind.FLOAT, "Mean of the distribution.", 0.0, per_sample=True),
    Argument("stddev", Kind.FLOAT, "Standard deviation of the distribution.", 1.0, per_sample=True),
    dtypes="FLOAT, FLOAT64 or an integer",
)


@implements(NORMAL, "cpu")
class NormalCpu(TransformedCpu):
    """Scales numbers of the standard normal distribution."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        if not self._is_noise(batch, inputs):
            return super().run(batch, inputs)
        samples = []
        for shape, seed, mean, stddev in zip(*self._noise(batch, inputs), strict=True):
            out = np.zeros(shape, np.float32)
            generator = np.random.Generator(np.random.Philox(key=int(seed)))
            samples.append(gaussian_noise(out, generator, float(mean), float(stddev), out))
        return [TensorListCPU(samples)]

    def _is_noise(self, batch: Batch, inputs: Sequence[Any]) -> bool:
        """Return whether the numbers are those that `noise.gaussian` adds to the input, with the same seed."""
        arguments = batch.arguments(self.node)
        return bool(inputs) and not arguments.given("shape") and self.dtype(arguments, inputs) == np.float32

    def _noise(self, batch: Batch, inputs: Sequence[Any]) -> Any:
        """Return the shapes of the samples, the seeds of their generators, and the parameters of the distribution."""
        arguments = batch.arguments(self.node)
        return inputs[0].shape(), batch.sample_seeds(self.node), arguments.scalars("mean"), arguments.scalars("stddev")

    def distribution(self, arguments: Arguments, dtype: np.dtype[Any]) -> Distribution:
        return Distribution(Distribution.NORMAL, rows_of(arguments, "mean")[:, 0], rows_of(arguments, "stddev")[:, 0])


@implements(NORMAL, "gpu")
class NormalGpu(TransformedGpu, NormalCpu):
    """The same numbers, drawn on the GPU; with float32 `shape_like` those of `noise.gaussian` there."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        if not self._is_noise(batch, inputs):
            return super().run(batch, inputs)
        shapes, seeds, mean, stddev = self._noise(batch, inputs)
        output = upload(batch, TensorListCPU([np.zeros(shape, np.float32) for shape in shapes]))
        samples = samples_of(output).folded()
        zeros = PixelExpression.from_elements(samples, "", output)
        assert zeros is not None  # it has at most three dimensions
        noise = zeros.noise(Noise.GAUSSIAN.value, seeds, (mean, stddev), (0, 0))
        self.launch(noise.launch(samples), batch)
        return [output]
