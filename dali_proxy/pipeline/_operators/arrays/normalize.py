"""`normalize`: data minus mean, divided by standard deviation, both given or computed from the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._imaging.normalize import scale_numbers
from dali_proxy.pipeline._imaging.reductions import REDUCTIONS, Reduction, reduce
from dali_proxy.pipeline._imaging.rows import standardize_rows
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.reduce import ReductionPlan
from dali_proxy.pipeline._kernels.standardize import Spread, plan_standardize
from dali_proxy.pipeline._operator_api.axes import AXES, AXIS_NAMES, chosen_axes
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, samples_of
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.upload import upload
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.types import FLOAT, to_numpy_type

_GIVEN = "by default that of the data. A number, or samples whose extents are 1 or the input's"

NORMALIZE = declare_operator(
    name="normalize",
    doc="Computes (data - mean) / stddev * scale + shift. The result is `shift` where all data is the same.",
    inputs=(Input("data", "Samples of any shape."),),
    arguments=(
        Argument("mean", Kind.FLOAT, f"Mean; {_GIVEN}.", per_sample=True),
        Argument("stddev", Kind.FLOAT, f"Standard deviation; {_GIVEN}.", per_sample=True),
        AXES,
        AXIS_NAMES,
        Argument("batch", Kind.BOOL, "Compute mean and deviation over all samples of the batch.", False),
        Argument("ddof", Kind.INT, "Subtracted from the number of elements in the divisor of the variance.", 0),
        Argument("epsilon", Kind.FLOAT, "Added to the variance.", 0.0),
        Argument("scale", Kind.FLOAT, "Factor of the result.", 1.0),
        Argument("shift", Kind.FLOAT, "Added to the scaled result.", 0.0),
        Argument("dtype", Kind.DTYPE, "Dtype of the output; integers are rounded and clamped.", FLOAT),
    ),
    devices=("cpu", "gpu"),
)

# Batches below this size, in bytes, are computed on the calling thread.
_SMALL = 1 << 20
# Number of elements of a sample up to which NumPy sums along the last axes in the same order in a batch as alone.
_SAME_SUMS = 8192

_MEAN = REDUCTIONS["mean"]
#: Sums of values, and of squared differences from a mean.
_SUM, _SQUARES = Reduction(), Reduction("difference")
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


@dataclass(frozen=True)
class _Settings:
    """The evaluated arguments for one batch.

    Attributes:
        shapes: shapes of the samples.
        axes: axes along which means and deviations are computed.
        mean: given means, one array per sample that broadcasts to it; or None.
        stddev: given deviations, like `mean`.
        scalar_stddev: given deviation, if it is one number for all samples.
        epsilon: number added to the variance.
        scale: factor of the result.
        shift: number added to the scaled result.
        ddof: number subtracted from the count of elements.
        dtype: dtype of the output.
        batch: whether mean and deviation are computed over the full batch.
    """

    shapes: list[tuple[int, ...]]
    axes: tuple[int, ...]
    mean: Sequence[Array] | None
    stddev: Sequence[Array] | None
    scalar_stddev: float | None
    epsilon: float
    scale: float
    shift: float
    ddof: int
    dtype: np.dtype[Any]
    batch: bool

    @classmethod
    def from_arguments(cls, node: GraphNode, batch: Batch, data: Any) -> _Settings:
        arguments = batch.arguments(node)
        shapes, ndim = data.shape(), data.ndim
        whole = bool(node.argument("batch"))
        given = {name: arguments.optional(arguments.arrays, name, np.float32) for name in ("mean", "stddev")}
        tensors = [arrays for arrays in given.values() if arrays is not None and arrays[0].ndim]
        named = node.argument("axes") is not None or node.argument("axis_names") is not None
        if not tensors and named and None not in given.values():
            raise ArgumentValueError("axes have no effect if mean and stddev are numbers")
        if whole and tensors:
            raise ArgumentValueError(
                "Batch normalization cannot be used with parameters specified as TensorList inputs: with batch=True, "
                "pass "
                "mean and stddev as constants"
            )
        for arrays in tensors:
            if any(array.ndim != ndim for array in arrays):
                raise ArgumentValueError(
                    f"means and deviations must be numbers or have {ndim} dimensions, like the samples; they have "
                    f"{arrays[0].ndim}"
                )
        if tensors and not named:
            axes = tuple(axis for axis in range(ndim) if all(array.shape[axis] == 1 for array in tensors[0]))
        else:
            axes = chosen_axes(node, data.layout(), ndim)
        if not axes and ndim and named:
            raise ArgumentValueError("mean and deviation need at least one axis")
        reduced = [
            tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
            for shape in shapes
            if tensors or whole  # otherwise there is nothing to check
        ]
        for arrays in tensors:
            for sample, (array, expected) in enumerate(zip(arrays, reduced, strict=True)):
                if array.shape != expected:
                    raise ArgumentValueError(
                        f"sample {sample}: a mean or deviation has the shape {array.shape}; with the axes {list(axes)} "
                        f"it must be {expected}"
                    )
        if whole and len(set(reduced)) > 1:
            raise ArgumentValueError(f"with batch=True, extents of axes other than {list(axes)} must be the same")
        stddev = given["stddev"]
        constant = not arguments.per_sample("stddev") and stddev is not None and not stddev[0].ndim
        return cls(
            shapes,
            axes,
            given["mean"],
            stddev,
            float(stddev[0]) if constant and stddev is not None else None,
            float(node.argument("epsilon")),
            float(node.argument("scale")),
            float(node.argument("shift")),
            int(node.argument("ddof")),
            to_numpy_type(node.argument("dtype")),
            whole,
        )

    def reduced(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the means of a sample."""
        return tuple(1 if axis in self.axes else extent for axis, extent in enumerate(shape))

    def counts(self) -> Int64s:
        """Return the number of elements per mean: shape (N,), or (1,) for the full batch."""
        shapes = np.array(self.shapes, np.int64).reshape(len(self.shapes), -1)
        counts: Int64s = shapes[:, list(self.axes)].prod(axis=1)
        return counts.sum(keepdims=True) if self.batch else counts

    def factor(self, deviation: float) -> float:
        """Return the factor of differences for a given deviation."""
        if self.epsilon:
            return self.scale / math.sqrt(deviation**2 + self.epsilon)
        return self.scale / deviation if deviation else math.copysign(math.inf, self.scale)

    def factors(self, variance: Array) -> Array:
        """Return the factors of differences for variances; 0 where the variance is 0."""
        root = np.sqrt(variance + self.epsilon)
        return np.divide(self.scale, root, out=np.zeros_like(root), where=root > 0).astype(np.float32)

    def given_factors(self, sample: int) -> Array:
        """Return the factors of the differences of a sample, for given deviations."""
        assert self.stddev is not None
        if self.scalar_stddev is not None:
            return np.asarray(self.factor(self.scalar_stddev), np.float32)
        deviations = self.stddev[sample].astype(np.float64)
        if self.epsilon:
            return self.factors(deviations**2)
        factors = np.divide(self.scale, deviations, out=np.zeros_like(deviations), where=deviations != 0)
        return factors.astype(np.float32)


@implements(NORMALIZE, "cpu")
class NormalizeCpu(BatchOperator):
    """Computes sample by sample on all threads, in one round each for means, deviations and results."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        settings = _Settings.from_arguments(self.node, batch, data)
        if not settings.batch and settings.mean is None and settings.stddev is None:
            is_trailing = settings.axes == tuple(range(data.ndim - len(settings.axes), data.ndim))
            array = data.small_array() if is_trailing else None
            if array is not None and array.dtype.kind == "f" and array.size < _SAME_SUMS * batch.size:
                return [TensorListCPU(self._apply_to_all(settings, array), data.layout())]
        samples: Sequence[Array] = [np.asarray(sample) for sample in data.samples]
        means = settings.mean
        if means is None:
            sums = self._each(batch, samples, lambda i: reduce(samples[i], _SUM, settings.axes, _DOUBLE))
            means = [mean.astype(np.float32) for mean in self._over(settings, sums, settings.counts())]
        factors: Sequence[Array]
        if settings.stddev is None:
            chosen = means
            sums = self._each(
                batch, samples, lambda i: reduce(samples[i], _SQUARES, settings.axes, _DOUBLE, mean=chosen[i])
            )
            factors = [
                settings.factors(variance) for variance in self._over(settings, sums, settings.counts() - settings.ddof)
            ]
        else:
            factors = [settings.given_factors(sample) for sample in range(batch.size)]
        return [self._apply(batch, settings, samples, means, factors, data.layout())]

    def _apply_to_all(self, settings: _Settings, data: Array) -> Array:
        """Return the normalized samples of a batch of small samples of one shape, in a call of NumPy for each step."""
        axes = tuple(axis + 1 for axis in settings.axes)
        count = math.prod([data.shape[axis] for axis in axes])
        mean = (reduce(data, _SUM, axes, _DOUBLE) / max(1, count)).astype(np.float32)
        squares = reduce(data, _SQUARES, axes, _DOUBLE, mean=mean)
        degrees = count - settings.ddof
        factors = settings.factors(squares / degrees if degrees > 0 else np.zeros_like(squares))
        work = np.empty(data.shape, np.float32)
        with np.errstate(invalid="ignore"):
            standardize_rows(data, mean, factors, work)
            if settings.shift:
                work += np.float32(settings.shift)
        return convert(work, settings.dtype)

    def _over(self, settings: _Settings, sums: list[Array], divisors: Int64s) -> list[Array]:
        """Divide sums, which are added up first for a full batch. Division by 0 returns 0."""
        if settings.batch:
            sums = [np.sum(sums, axis=0)] * len(sums)
            divisors = np.repeat(divisors, len(sums))
        return [
            total / divisor if divisor > 0 else np.zeros_like(total)
            for total, divisor in zip(sums, divisors.tolist(), strict=True)
        ]

    def _apply(
        self,
        batch: Batch,
        settings: _Settings,
        samples: Sequence[Array],
        means: Sequence[Array],
        factors: Sequence[Array],
        layout: str,
    ) -> TensorListCPU:
        owner: Any = None
        made: Any = None
        if len(set(settings.shapes)) == 1:
            made, owner = batch.allocate(Edge(self.node.index), (batch.size, *settings.shapes[0]), settings.dtype)

        def normalize(sample: int) -> Array:
            data, shape = samples[sample], settings.shapes[sample]
            plain = made is not None and settings.dtype == np.float32
            if plain and means[sample].size == factors[sample].size == 1:
                gain = float(factors[sample].item())
                offset = settings.shift - float(means[sample].item()) * gain
                result: Array = made[sample, ...]
                if math.isfinite(offset) and scale_numbers(data, result, gain, offset):
                    return result
            work = np.atleast_1d(made[sample, ...] if plain else np.empty(shape, np.float32))
            with np.errstate(invalid="ignore"):
                standardize_rows(np.atleast_1d(data), means[sample], factors[sample], work)
                if settings.shift:
                    work += np.float32(settings.shift)
            if plain:
                return work
            return convert(work.reshape(shape), settings.dtype, None if made is None else made[sample, ...])

        arrays = self._each(batch, samples, normalize)
        output = TensorListCPU(arrays if made is None else made, layout)
        output.owner = owner
        return output

    def _each(self, batch: Batch, samples: Sequence[Array], task: Any) -> list[Array]:
        results: list[Any] = [None] * batch.size

        def work(sample: int) -> None:
            results[sample] = task(sample)

        small = samples[0].nbytes * batch.size < _SMALL
        errors = (batch.pool.run_here if small else batch.pool.run)(work, batch.size)
        if errors:
            raise errors[0][1]
        return results


@implements(NORMALIZE, "gpu")
class NormalizeGpu(GpuOperator):
    """Uses two launches for means of the data, two for its deviations, and one for the result."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        #: Constant means and deviations on the GPU, as far as kernels read them there.
        self._constants: dict[str, Any] = {}
        for name in ("mean", "stddev"):
            value = None if name in node.argument_inputs else node.argument(name)
            if value is not None and setup.kernels is not None:
                self._constants[name] = _on_gpu(np.ascontiguousarray(value, np.float32), setup.kernels.device_id)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        settings = _Settings.from_arguments(self.node, batch, data)
        source = samples_of(data)
        made, target = allocate(source.shapes, settings.dtype, data.layout())
        if not source.ndim:  # kernels need at least one dimension
            source, target = (_with_dimension(samples) for samples in (source, target))
        mean = self._mean(batch, settings, source)
        spread = self._spread(batch, settings, source, mean)
        factors = {"scale": settings.scale, "shift": settings.shift}
        self.launch(plan_standardize(source, target, mean=mean, spread=spread, **factors), batch)
        return [made]

    def _mean(self, batch: Batch, settings: _Settings, source: Samples) -> Samples:
        if settings.mean is not None:
            return self._given(batch, "mean", settings.mean, source.ndim)
        if not settings.batch:
            return samples_of(self._reduce(batch, settings, source, _MEAN, _SINGLE))
        total = self._add_up(self._reduce(batch, settings, source, _SUM, _DOUBLE))
        return self._for_all(batch, settings, (total / max(1, int(settings.counts()[0]))).astype(np.float32))

    def _spread(self, batch: Batch, settings: _Settings, source: Samples, mean: Samples) -> Spread:
        if settings.scalar_stddev is not None:
            return Spread(factor=np.full(len(source), settings.factor(settings.scalar_stddev), np.float32))
        if settings.stddev is not None:
            deviations = self._given(batch, "stddev", settings.stddev, source.ndim)
            return Spread(deviations=deviations, epsilon=settings.epsilon)
        made = self._reduce(batch, settings, source, _SQUARES, _DOUBLE, mean)
        sums = self._for_all(batch, settings, self._add_up(made)) if settings.batch else samples_of(made)
        return Spread(sums=sums, degrees=settings.counts() - settings.ddof, epsilon=settings.epsilon)

    def _reduce(
        self,
        batch: Batch,
        settings: _Settings,
        source: Samples,
        reduction: Reduction,
        dtype: np.dtype[Any],
        mean: Samples | None = None,
    ) -> TensorListGPU:
        shapes = source.shapes.copy()
        axes = settings.axes if settings.shapes[0] else (0,)
        shapes[:, list(axes)] = 1
        made, target = allocate(shapes, dtype)
        self.launch(ReductionPlan(source, target, reduction, axes=axes, mean=mean), batch)
        batch.keep_alive.append(made)  # kernels that are launched later read it
        return made

    def _add_up(self, sums: TensorListGPU) -> Any:
        assert sums.dense is not None  # with batch=True, all samples have the same number of means
        self.kernels.flush()  # CuPy adds up the results of the launches
        return sums.dense.sum(axis=0)

    def _for_all(self, batch: Batch, settings: _Settings, values: Any) -> Samples:
        """Return the description of one array that all samples share."""
        batch.keep_alive.append(values)
        return Samples.from_arrays([values]).take(np.zeros(len(settings.shapes), np.int64))

    def _given(self, batch: Batch, name: str, values: Sequence[Array], ndim: int) -> Samples:
        """Return given means or deviations on the GPU."""
        constant = self._constants.get(name)
        if constant is not None:
            array = constant.reshape([1] * ndim) if constant.size == 1 else constant
            return Samples.from_arrays([array]).take(np.zeros(len(values), np.int64))
        arrays = [value.reshape([1] * ndim) if value.size == 1 else value for value in values]
        held = upload(batch, TensorListCPU([np.ascontiguousarray(array, np.float32) for array in arrays]))
        batch.keep_alive.append(held)
        return samples_of(held)


def _on_gpu(array: Array, device_id: int) -> Any:
    """Return a copy of an array that is complete, for batches on any stream."""
    import cupy

    with cupy.cuda.Device(device_id):
        copy = cupy.asarray(array)
        cupy.cuda.get_current_stream().synchronize()
    return copy


def _with_dimension(samples: Samples) -> Samples:
    ones = np.ones((len(samples), 1), np.int64)
    return Samples(samples.pointers, ones, ones * samples.dtype.itemsize, samples.dtype)
