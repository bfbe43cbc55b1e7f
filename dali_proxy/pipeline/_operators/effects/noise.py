"""Adds Gaussian, shot, and salt-and-pepper noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert, gaussian_noise, salt_and_pepper, shot_noise
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.noise import Noise
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._rng import philox
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import FLOAT, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64

_DTYPES = (UINT8, INT8, UINT16, INT16, UINT32, INT32, UINT64, INT64, FLOAT)
_INPUT = Input("data", "Samples of any shape: integers or FLOAT. The output has their shape and dtype.")

GAUSSIAN = declare_operator(
    name="noise.gaussian",
    random=True,
    doc="Adds an independent, normally distributed random number to each value.",
    inputs=(_INPUT,),
    arguments=(
        Argument("mean", Kind.FLOAT, "Mean of the distribution.", 0.0, per_sample=True),
        Argument("stddev", Kind.FLOAT, "Standard deviation of the distribution.", 1.0, per_sample=True),
    ),
    devices=("cpu", "gpu"),
)
SHOT = declare_operator(
    name="noise.shot",
    random=True,
    doc="Replaces each value by factor * Poisson(value / factor), like a detector that counts events.",
    inputs=(_INPUT,),
    arguments=(Argument("factor", Kind.FLOAT, "Value of one event; 0 doesn't change samples.", 20.0, per_sample=True),),
    devices=("cpu", "gpu"),
)
SALT_AND_PEPPER = declare_operator(
    name="noise.salt_and_pepper",
    random=True,
    doc="Replaces randomly chosen values by the value of salt or of pepper.",
    inputs=(_INPUT,),
    arguments=(
        Argument("prob", Kind.FLOAT, "Probability that a value is replaced.", 0.05, per_sample=True),
        Argument("salt_vs_pepper", Kind.FLOAT, "Probability that a replaced value is salt.", 0.5, per_sample=True),
        Argument(
            "salt_val", Kind.FLOAT, "Value of salt; by default the dtype's largest, or 1.0 for FLOAT.", per_sample=True
        ),
        Argument(
            "pepper_val",
            Kind.FLOAT,
            "Value of pepper; by default the dtype's smallest, or -1.0 for FLOAT.",
            per_sample=True,
        ),
        Argument(
            "per_channel",
            Kind.BOOL,
            "Replace the channels of a pixel independently. Otherwise the layout must have C; without a layout, C "
            "is the last dimension.",
            False,
        ),
    ),
    devices=("cpu", "gpu"),
)


@dataclass(frozen=True)
class _State:
    """Resolved arguments of a batch, as arrays of (batch,).

    Attributes:
        seeds: seeds of the samples' generators.
        first: mean, factor, or probability of salt.
        second: standard deviation, or probability of salt or pepper.
        salt: values of salt; None for the default.
        pepper: values of pepper; None for the default.
        channel_axis: dimension whose values are replaced together; -1 is the last one.
    """

    seeds: Array
    first: Array
    second: Array
    salt: Array | None = None
    pepper: Array | None = None
    channel_axis: int | None = None

    @classmethod
    def from_batch(cls, node: GraphNode, batch: Batch, layout: str) -> _State:
        arguments = batch.arguments(node)
        seeds = batch.sample_seeds(node)
        if node.operator == "noise.gaussian":
            return cls(seeds, arguments.scalars("mean"), arguments.scalars("stddev"))
        if node.operator == "noise.shot":
            return cls(seeds, arguments.scalars("factor"), np.zeros(batch.size))
        either, ratio = arguments.scalars("prob"), arguments.scalars("salt_vs_pepper")
        for name, values in (("prob", either), ("salt_vs_pepper", ratio)):
            if not ((values >= 0) & (values <= 1)).all():
                raise ArgumentValueError(f"argument {name!r} must be between 0 and 1")
        axis = None
        if not arguments.constant("per_channel"):
            if layout and "C" not in layout:
                raise ArgumentValueError(f"the layout {layout!r} has no channels; use per_channel=True")
            axis = layout.index("C") if layout else -1
        salt, pepper = (arguments.optional(arguments.scalars, name) for name in ("salt_val", "pepper_val"))
        return cls(seeds, either * ratio, either, salt, pepper, axis)

    def axis(self, ndim: int) -> int | None:
        """Return the dimension whose values are replaced together; None for samples without dimensions."""
        return None if self.channel_axis is None or not ndim else self.channel_axis % ndim

    def salt_of(self, dtype: np.dtype[Any]) -> Array:
        """Return the values of salt in a dtype, (batch,)."""
        return self._converted(self.salt, 1.0 if dtype.kind == "f" else np.iinfo(dtype).max, dtype)

    def pepper_of(self, dtype: np.dtype[Any]) -> Array:
        """Return the values of pepper in a dtype, (batch,)."""
        return self._converted(self.pepper, -1.0 if dtype.kind == "f" else np.iinfo(dtype).min, dtype)

    def _converted(self, values: Array | None, default: float, dtype: np.dtype[Any]) -> Array:
        if values is None:
            return np.full(len(self.seeds), default, dtype)
        return convert(values if dtype.kind == "f" else np.trunc(values), dtype)


@implements(GAUSSIAN, "cpu")
@implements(SHOT, "cpu")
@implements(SALT_AND_PEPPER, "cpu")
class NoiseCpu(SampleOperator[_State]):
    """Draws the noise of each sample with a separate generator."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        state = _State.from_batch(self.node, batch, data.layout)
        return state, [describe(data.layout, known, data.dtype)]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, _DTYPES)
        if out is None:
            out = np.empty(data.shape, data.dtype)
        generator = philox(np.array([state.seeds[sample], 0], np.uint64))
        first, second = float(state.first[sample]), float(state.second[sample])
        if self.node.operator == GAUSSIAN.name:
            return gaussian_noise(data, generator, first, second, out)
        if self.node.operator == SHOT.name:
            return shot_noise(data, generator, first, out)
        salt, pepper = state.salt_of(data.dtype)[sample], state.pepper_of(data.dtype)[sample]
        return salt_and_pepper(data, generator, second, first, salt, pepper, out, state.axis(data.ndim))


_KINDS = {GAUSSIAN.name: Noise.GAUSSIAN, SHOT.name: Noise.SHOT, SALT_AND_PEPPER.name: Noise.SALT_AND_PEPPER}


@implements(GAUSSIAN, "gpu")
@implements(SHOT, "gpu")
@implements(SALT_AND_PEPPER, "gpu")
class NoiseGpu(PixelOperator):
    """One launch per batch."""

    traits = replace(PixelOperator.traits, elementwise=True)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression:
        if self.node.argument_inputs or not pixels.recurs:
            return self._noisy(batch, pixels)
        noisy = pixels.kept(self, lambda: self._noisy(batch, pixels))
        return noisy.over(pixels).updated(seed=batch.sample_seeds(self.node))

    def _noisy(self, batch: Batch, pixels: PixelExpression) -> PixelExpression:
        state = _State.from_batch(self.node, batch, pixels.layout)
        return self._add(pixels, state, state.axis(pixels.ndim))

    def _add(self, pixels: PixelExpression, state: _State, axis: int | None) -> PixelExpression:
        check_samples(pixels.dtype, _DTYPES)
        replacements = state.salt_of(pixels.dtype), state.pepper_of(pixels.dtype)
        kind = _KINDS[self.node.operator].value
        return pixels.noise(kind, state.seeds, (state.first, state.second), replacements, axis)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Do the same for samples of any dimensions, described by three: only those that share a draw matter."""
        data = self.contiguous(inputs[0], batch.stream)
        source, state = samples_of(data), _State.from_batch(self.node, batch, data.layout())
        axis = state.axis(data.ndim)
        output, target = allocate(source.shapes, source.dtype, data.layout())
        elements = PixelExpression.from_elements(_elements(source, axis), "", data)
        assert elements is not None  # it has at most three dimensions
        self.launch(self._add(elements, state, None if axis is None else 1).launch(_elements(target, axis)), batch)
        return [output]


def _elements(samples: Samples, axis: int | None) -> Samples:
    """Return contiguous samples with at most three dimensions; the second is `axis`, and the third one is long."""
    if axis is None:
        return samples.folded()
    around = samples.around(axis)
    if (around.shapes[:, 2] > 1).any():
        return around
    order = [2, 1, 0]
    return Samples(around.pointers, around.shapes[:, order], around.strides[:, order], around.dtype)
