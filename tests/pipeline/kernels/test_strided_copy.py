"""The general copy against NumPy, its table against a short interpreter, and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dali_proxy.pipeline._cuda.launch import CTYPES, Launch
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from pipeline.errors import PipelineError
from tests.pipeline.kernels import reference
from tests.pipeline.kernels.runners import GpuRunner


def sample_images(seed: int, count: int = 5, channels: int = 3) -> list[npt.NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, (count, 2))
    return [rng.integers(0, 256, (*size, channels), dtype=np.uint8) for size in sizes]


def outputs(shapes: Any, dtype: npt.DTypeLike) -> list[npt.NDArray[Any]]:
    return [np.zeros(shape, dtype) for shape in shapes]


def windowed(
    source: npt.NDArray[Any], start: Any, step: Any, axes: Any, shape: Any, fill: Any
) -> npt.NDArray[np.float64]:
    """Copy one element at a time: the definition of a copy with these arguments."""
    out = np.empty(shape, np.float64)
    for index in np.ndindex(*shape):
        at = [0] * source.ndim
        for d, axis in enumerate(axes):
            at[axis] = start[axis] + index[d] * step[axis]
        inside = all(0 <= k < extent for k, extent in zip(at, source.shape, strict=True))
        out[index] = source[tuple(at)] if inside else fill
    return out


def interpret(launch: Launch) -> None:
    """Compute the kernel's index arithmetic in Python from the table alone: strides, begin, end, fill; uint8 only."""
    table, fills = launch.tables
    axis = int(launch.scalars[0])
    for sample in table:
        extents = sample["dims"]["extent"].tolist()
        out = np.empty(int(sample["count"]), np.uint8)
        for element in range(len(out)):
            at = np.unravel_index(element, extents)
            fill = fills[int(sample["fills"]) + (int(at[axis]) if axis >= 0 else 0)]
            dims = list(zip(at, sample["dims"], strict=True))
            if all(dim["begin"] <= i < dim["end"] for i, dim in dims):
                address = int(sample["src"]) + sum(int(i) * int(dim["stride"]) for i, dim in dims)
                out[element] = np.frombuffer((np.ctypeslib.ctypes.c_uint8).from_address(address), np.uint8)[0]
            else:
                out[element] = fill
        target = (np.ctypeslib.ctypes.c_uint8 * len(out)).from_address(int(sample["dst"]))
        np.frombuffer(target, np.uint8)[:] = out


@pytest.mark.parametrize("seed", range(6))
def test_table_describes_windows_flips_and_permutations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(1, 5))
    axes = rng.permutation(ndim).tolist()
    src = [rng.integers(0, 256, rng.integers(1, 6, ndim), dtype=np.uint8) for _ in range(3)]
    start, step = rng.integers(-3, 6, (3, ndim)), rng.choice([-2, -1, 1, 3], (3, ndim))
    dst = outputs(rng.integers(1, 6, (3, ndim)), np.uint8)
    launch = plan_strided_copy(
        Samples.from_arrays(src), Samples.from_arrays(dst), start=start, step=step, axes=axes, fill=77
    )
    assert launch is not None
    assert launch.kernel == "strided_copy"
    interpret(launch)
    for i, (source, out) in enumerate(zip(src, dst, strict=True)):
        np.testing.assert_array_equal(out, windowed(source, start[i], step[i], axes, out.shape, 77))


@pytest.mark.parametrize("seed", range(4))
def test_random_windows_with_fill(runner: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    src = sample_images(seed)
    start, step = rng.integers(-5, 30, (5, 3)), rng.choice([-1, 1], (5, 3))
    start[:, 2], step[:, 2] = 0, 1
    dst = outputs([(3, 9, 14)] * 5, np.uint8)
    runner.strided_copy(src, dst, start=start, step=step, axes=(2, 0, 1), channel_axis=0, fill=[1, 2, 3])
    for i in range(5):
        expected = windowed(src[i], start[i], step[i], (2, 0, 1), (3, 9, 14), np.nan)
        np.testing.assert_array_equal(
            dst[i], np.where(np.isnan(expected), np.array([1, 2, 3])[:, None, None], expected)
        )


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float64])
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_contiguous_samples_of_any_alignment(runner: Any, dtype: Any, shift: int) -> None:
    rng = np.random.default_rng(0)
    sizes = [1, 2, 15, 16, 17, 40, 5000]
    source = rng.integers(0, 255, (len(sizes), 5010)).astype(dtype)
    target = np.zeros_like(source)
    begins = range(len(sizes))
    src = [source[i, i + shift : i + shift + size] for i, size in zip(begins, sizes, strict=True)]
    dst = [target[i, i : i + size] for i, size in zip(begins, sizes, strict=True)]
    runner.strided_copy(src, dst)
    for one, other in zip(src, dst, strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(
        not target[i, :i].any() and not target[i, i + size :].any() for i, size in zip(begins, sizes, strict=True)
    )


def test_padded_channels_and_a_window_beyond_the_image(runner: Any) -> None:
    src = sample_images(3)
    dst = outputs([(4, 50, 48)] * 5, "float32")
    first, size = np.full((5, 3), [0, -4, -2]), np.full((5, 3), [1, 50, 48])

    def express(pixels: PixelExpression) -> PixelExpression:
        normalized = pixels.normalize(0.5, 1.0, np.dtype(np.float32))
        return normalized.window(first, 1, size, [5.0, 6, 7]).with_channels(np.array([8.0])).transposed("CHW")

    runner.evaluate(src, dst, express)
    for image, out in zip(src, dst, strict=True):
        expected = np.broadcast_to(np.array([5.0, 6, 7, 8])[:, None, None], (4, 50, 48)).copy()
        height, width = image.shape[:2]
        expected[:3, 4 : 4 + height, 2 : 2 + width] = (image * 0.5 + 1).transpose(2, 0, 1)
        expected[3] = 8
        np.testing.assert_array_equal(out, expected)


def test_sources_may_have_any_strides(runner: Any) -> None:
    base = np.random.default_rng(5).integers(0, 1000, (12, 14, 6)).astype(np.int32)
    src = [base[2:10:2, ::3, 1:4], base.transpose(1, 0, 2)[:4, :5, 3:], base[::-1, ::-1][:4, :5, :3]]
    dst = outputs([(4, 5, 3)] * 3, np.int32)
    runner.strided_copy(src, dst)
    for source, out in zip(src, dst, strict=True):
        np.testing.assert_array_equal(out, source)


def test_six_dimensions_and_scalars(runner: Any) -> None:
    rng = np.random.default_rng(6)
    src = [rng.normal(size=(2, 3, 1, 4, 2, 3)) for _ in range(3)]
    dst = outputs([(3, 4, 2, 3, 1, 2)] * 3, np.float64)
    runner.strided_copy(src, dst, axes=(5, 3, 4, 1, 2, 0))
    for source, out in zip(src, dst, strict=True):
        np.testing.assert_array_equal(out, source.transpose(5, 3, 4, 1, 2, 0))
    scalars = [np.array(2.5), np.array(-7.5)]
    rounded = outputs([(), ()], np.int16)
    runner.strided_copy(scalars, rounded)
    assert [int(value) for value in rounded] == [3, -8]


def test_ragged_shapes_with_empty_samples(runner: Any) -> None:
    src = [np.arange(n, dtype=np.uint8) for n in (3, 0, 700)]
    dst = outputs([source.shape for source in src], np.int64)
    runner.strided_copy(src, dst, start=-1, fill=[[1], [2], [3]])
    for source, out, fill in zip(src, dst, (1, 2, 3), strict=True):
        np.testing.assert_array_equal(out, [fill, *source][: len(source)])


def _edge_values(dtype: np.dtype) -> npt.NDArray[Any]:
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "f":
        small = [0, 0.4, 0.49999997, 0.5, 1.5, 2.5, -0.5, -1.5, -3, 127.5, 254.5, 255.5, 300, -200, 6e4]
        large = [] if dtype.itemsize == 2 else [3e9, -3e9, 1e19, -1e19, 1e20]
        return np.array([*small, *large, np.inf, -np.inf, np.nan], dtype)
    limits = np.iinfo(dtype)
    inner = [value for value in (-129, -128, -1, 127, 128, 255, 256, 65536) if limits.min <= value <= limits.max]
    return np.array([limits.min, 0, 1, *inner, limits.max], dtype)


@pytest.mark.parametrize("dst_dtype", ["bool", "uint8", "int8", "uint16", "int32", "int64", "uint64", "float16"])
def test_casts_clamp_and_round(runner: Any, dst_dtype: str) -> None:
    for src_dtype in [*CTYPES][:: 1 if isinstance(runner, GpuRunner) else 5]:
        values = _edge_values(src_dtype)
        (out,) = outputs([values.shape], dst_dtype)
        runner.strided_copy([values], [out])
        with np.errstate(over="ignore"):
            expected = reference.cast(values, dst_dtype)
        np.testing.assert_array_equal(out, expected, err_msg=f"{src_dtype} to {dst_dtype} of {values}")


def test_casts_are_those_of_dali() -> None:
    backend = pytest.importorskip("nvidia.dali")
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, 300, -200, 0.4, 0.49999997], np.float32)
    for dtype in ("uint8", "int8", "int32", "bool"):
        pipe = backend.Pipeline(batch_size=1, num_threads=1, device_id=None)
        with pipe:
            data = backend.fn.external_source(lambda: [values])
            pipe.set_outputs(backend.fn.cast(data, dtype=getattr(backend.types, dtype.upper())))
        pipe.build()
        np.testing.assert_array_equal(reference.cast(values, dtype), np.asarray(pipe.run()[0].at(0)), err_msg=dtype)


def test_windows_outside_are_an_error_that_names_the_sample() -> None:
    src, dst = Samples.from_arrays(sample_images(1)), Samples.from_arrays(outputs([(1, 1, 3)] * 5, np.uint8))
    start = np.zeros((5, 3), int)
    start[3, 1] = 1000
    with pytest.raises(PipelineError, match="sample 3"):
        plan_strided_copy(src, dst, start=start)


def test_arguments_that_do_not_fit_are_errors() -> None:
    src = Samples.from_arrays(sample_images(1))
    dst = Samples.from_arrays(outputs(src.shapes, np.uint8))
    for options in ({"axes": (0, 0, 1)}, {"step": 0}, {"fill": [1, 2], "channel_axis": 2}):
        with pytest.raises(PipelineError):
            plan_strided_copy(src, dst, **options)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="contiguous"):
        plan_strided_copy(dst, dst.window(0, np.maximum(1, dst.shapes - [0, 1, 0])), start=0)
    with pytest.raises(PipelineError, match="complex"):
        plan_strided_copy(src, Samples.from_arrays([np.zeros(shape, np.complex64) for shape in src.shapes]))


def test_defaults_are_planned_like_given_arguments() -> None:
    rng = np.random.default_rng(4)
    source = Samples.packed(1 << 20, rng.integers(1, 9, (5, 3)), np.uint8)[0]
    target = Samples.packed(1 << 24, rng.integers(1, 9, (5, 3)), np.float32)[0]  # larger, smaller, or both
    short = plan_strided_copy(source, target, fill=1.0)
    told = plan_strided_copy(source, target, start=(0, 0, 0), step=(1, 1, 1), axes=(0, 1, 2), fill=1.0)
    assert short is not None
    assert told is not None
    assert (short.kernel, short.defines, short.grid) == (told.kernel, told.defines, told.grid)
    assert [table.tobytes() for table in short.tables] == [table.tobytes() for table in told.tables]


def test_batches_without_samples_are_nothing_to_copy() -> None:
    nothing = Samples(np.zeros(0, np.int64), np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64), np.dtype(np.uint8))
    assert plan_strided_copy(nothing, nothing) is None
