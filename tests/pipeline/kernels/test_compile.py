"""Every .cu file compiles in every combination that the launchers use; needs NVRTC, but no GPU."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import dali_proxy.pipeline._kernels
from dali_proxy.pipeline._audio.resampling import SincFilter
from dali_proxy.pipeline._cuda.launch import CTYPES, Launch
from dali_proxy.pipeline._imaging.filter2d import Border
from dali_proxy.pipeline._imaging.patches import ORDERS, PatchLayout
from dali_proxy.pipeline._imaging.reductions import REDUCTIONS, result_dtype
from dali_proxy.pipeline._kernels.audio.elementwise import plan_preemphasize
from dali_proxy.pipeline._kernels.audio.matrix_axis import AxisMatrices, plan_matrix_axis
from dali_proxy.pipeline._kernels.audio.resample_signal import plan_resample_signal
from dali_proxy.pipeline._kernels.audio.silence import SilencePlan
from dali_proxy.pipeline._kernels.audio.spectrogram import SpectrogramPlan
from dali_proxy.pipeline._kernels.axes import axis_tables
from dali_proxy.pipeline._kernels.byte_map import CountedMap, Rule
from dali_proxy.pipeline._kernels.clahe import ClahePlan
from dali_proxy.pipeline._kernels.draws import plan_draws
from dali_proxy.pipeline._kernels.encode_boxes import SCALING, BoxEncoding
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.filter import plan_filter_images
from dali_proxy.pipeline._kernels.inflate import BLOCK, plan_inflate
from dali_proxy.pipeline._kernels.join import plan_join
from dali_proxy.pipeline._kernels.jpeg import JpegPlan
from dali_proxy.pipeline._kernels.lookup import plan_look_up
from dali_proxy.pipeline._kernels.noise import Noise
from dali_proxy.pipeline._kernels.nv12 import plan_nv12_to_pixels
from dali_proxy.pipeline._kernels.one_hot import plan_one_hot
from dali_proxy.pipeline._kernels.paste_regions import REGION, plan_paste_regions
from dali_proxy.pipeline._kernels.point_maps import shifts
from dali_proxy.pipeline._kernels.reduce import ReductionPlan
from dali_proxy.pipeline._kernels.resample import ResamplePlan
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._kernels.standardize import Spread, plan_standardize
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._kernels.vectors import stored_vectors
from dali_proxy.pipeline._kernels.warp import plan_warp_affine
from dali_proxy.pipeline._rng import BatchKey, Distribution, RandomState
from pipeline.types import DALIInterpType
from tests.pipeline.kernels import nvrtc
from tests.pipeline.kernels.runners import cropped_resized_normalized
from tests.thorough import thorough_except

pytestmark = pytest.mark.skipif(nvrtc.library() is None, reason="needs the wheel nvidia-cuda-nvrtc")

HALF, FLOAT, BYTE = np.dtype("float16"), np.dtype("float32"), np.dtype("uint8")
DTYPES = list(CTYPES)
#: The kernels are templates: what compiles for these compiles for most others.
EACH_DTYPE = thorough_except(DTYPES, BYTE, HALF, FLOAT)


def batch(dtype: np.dtype, *shape: int) -> Samples:
    return Samples.from_arrays([np.zeros(shape, dtype)])


def copy(src: np.dtype, dst: np.dtype, ndim: int = 3, **options: object) -> Launch:
    launch = plan_strided_copy(batch(src, *[2] * ndim), batch(dst, *[2] * ndim), **options)  # type: ignore[arg-type]
    assert launch is not None
    return launch


def machine_code_of(dtype: np.dtype) -> str:
    """Return an architecture: machine code for one dtype, PTX, which takes half of the time, for the others."""
    return "sm_90" if dtype == HALF else "compute_80"


def check(launch: Launch, arch: str) -> None:
    assert nvrtc.compile(launch.file, launch.defines, arch) > 0


#: One dtype of each kind, for pairs of dtypes: conversions depend on the kinds and on which one is wider.
KINDS = [np.dtype(name) for name in ("bool", "uint8", "int64", "float16", "float32")]


@pytest.mark.parametrize("src", EACH_DTYPE, ids=str)
def test_copies_between_all_types_compile(src: np.dtype) -> None:
    for dst in DTYPES if src == FLOAT else KINDS:
        check(copy(src, dst, ndim=1), "compute_80")
    pixels = PixelExpression.from_samples(batch(src, 2, 2, 3), "HWC")
    assert pixels is not None
    for dst in (src, HALF, FLOAT):
        padded = pixels.normalize(2.0, 1.0, dst).with_channels(np.ones(1))
        check(padded.launch(batch(dst, 2, 2, 4)), "compute_80")


@pytest.mark.parametrize("ndim", thorough_except(range(7), 0, 1, 4))
def test_copies_of_all_ranks_compile_to_machine_code(ndim: int) -> None:
    check(copy(BYTE, FLOAT, ndim), "sm_90")
    check(copy(HALF, BYTE, ndim, fill=2.0, channel_axis=0 if ndim else None), "sm_80")


def test_copy_of_more_than_two_billion_elements_compiles() -> None:
    defines = dict(copy(BYTE, FLOAT).defines) | {"INDEX": "uint64"}
    assert nvrtc.compile("strided_copy.cu", tuple(defines.items()), "sm_90") > 0


@pytest.mark.parametrize("src", EACH_DTYPE, ids=str)
def test_resampling_compiles(src: np.dtype) -> None:
    for launch in ResamplePlan(batch(src, 4, 4, 3), batch(src, 2, 2, 3)).launches(0):
        check(launch, "compute_80")
    nearest = DALIInterpType.INTERP_NN
    plan = ResamplePlan(batch(src, 4, 4, 3), batch(src, 2, 2, 3), min_filter=nearest, mag_filter=nearest)
    check(plan.launches(0)[0], machine_code_of(src))


@pytest.mark.combinations
@pytest.mark.parametrize(("layout", "rounded"), list(itertools.product(("CHW", "HWC"), (True, False))))
@pytest.mark.parametrize("dst", [BYTE, HALF, FLOAT], ids=str)
def test_chain_of_operators_compiles(dst: np.dtype, layout: str, rounded: bool) -> None:
    for depth in (1, 3):
        shape = (depth, 2, 2) if layout == "CHW" else (2, 2, depth)
        launch = cropped_resized_normalized(
            batch(BYTE, 4, 4, depth), batch(dst, *shape), layout=layout, rounded=rounded
        )
        check(launch, machine_code_of(dst))


@pytest.mark.combinations
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dst", [BYTE, HALF, FLOAT], ids=str)
def test_patches_compile(dst: np.dtype, order: str) -> None:
    pixels = PixelExpression.from_samples(batch(BYTE, 16, 16, 3), "HWC")
    assert pixels is not None
    (y, x) = axis_tables(*np.array([[[0.0, 0.0]], [[16.0, 16.0]], [[16, 16]], [[28, 28]]]), [2], [2], True)
    resized = pixels.resize(y, x, np.array([[28, 28]]), BYTE)
    for layout in (PatchLayout(14, 2, 2, order), PatchLayout(7, order=order)):
        patches = resized.normalize(2.0, 1.0, dst).patches(layout)
        check(patches.launch(batch(dst, *patches.shapes[0].tolist())), machine_code_of(dst))


@pytest.mark.parametrize("dtype", EACH_DTYPE, ids=str)
def test_erased_and_noisy_elements_compile(dtype: np.dtype) -> None:
    for count in (1, 40):
        pixels = PixelExpression.from_elements(batch(dtype, 2, 2), "")
        assert pixels is not None
        erased = pixels.erase(np.zeros((1, count, 2, 2), np.int64), 0.0)
        if dtype != np.dtype("bool"):
            erased = erased.noise(Noise.GAUSSIAN.value, np.zeros(1, np.uint64), (0.5, 1), (0, 0))
        check(erased.launch(batch(dtype, 2, 2)), machine_code_of(dtype))


@pytest.mark.parametrize("dst", [BYTE, HALF, FLOAT, np.dtype("int32")], ids=str)
def test_matrices_of_vectors_compile(dst: np.dtype) -> None:
    for rows, columns in ((3, 3), (1, 3), (3, 1), (2, 9)):
        for src in (BYTE, HALF):
            vectors = stored_vectors(batch(src, 2, columns), "")
            assert vectors is not None
            matrix = vectors.matrix(np.ones((rows, columns)), 0.0, dst)
            check(matrix.launch(batch(dst, 2, rows)), "compute_80" if src == HALF else machine_code_of(dst))


@pytest.mark.parametrize("src", EACH_DTYPE, ids=str)
def test_warping_compiles(src: np.dtype) -> None:
    for ndim, nearest, dst in ((2, False, src), (2, True, FLOAT)):
        shape, matrix = [2] * (ndim + 1), np.zeros((1, ndim, ndim + 1))
        launch = plan_warp_affine(batch(src, *shape), batch(dst, *shape), matrix, nearest=nearest, fill=1.0)
        assert launch is not None
        check(launch, "compute_80")


def test_warping_volumes_compiles_to_machine_code() -> None:
    volume, matrix = batch(BYTE, 2, 2, 2, 2), np.zeros((1, 3, 4))
    launch = plan_warp_affine(volume, volume, matrix)
    assert launch is not None
    check(launch, "sm_90")


@pytest.mark.parametrize("src", EACH_DTYPE, ids=str)
def test_reductions_compile(src: np.dtype) -> None:
    mean = batch(FLOAT, 1)
    for name in ("min", "variance"):
        dst = batch(result_dtype(REDUCTIONS[name], src), 1)
        plan = ReductionPlan(
            batch(src, 2, 2), dst, REDUCTIONS[name], axes=(0, 1), mean=mean if name == "variance" else None
        )
        check(plan.launches(0)[0], "compute_80")
    whole = src if src.kind in "iu" else HALF
    check(ReductionPlan(batch(src, 2, 2), batch(whole, 2), REDUCTIONS["rms"], axes=(0,)).launches(0)[0], "sm_90")


@pytest.mark.parametrize("dst", EACH_DTYPE, ids=str)
def test_lookups_compile(dst: np.dtype) -> None:
    for src in ("uint8", "int64"):
        launch = plan_look_up(batch(np.dtype(src), 2), batch(dst, 2), np.zeros(3, dst))
        assert launch is not None
        check(launch, "compute_80")


@pytest.mark.parametrize("src", thorough_except([dtype for dtype in DTYPES if dtype != HALF], BYTE, FLOAT), ids=str)
def test_one_hot_codes_compile(src: np.dtype) -> None:
    launch = plan_one_hot(batch(src, 2), batch(HALF if src == BYTE else FLOAT, 2, 3), 1)
    assert launch is not None
    check(launch, "compute_80")


@pytest.mark.parametrize("dst", EACH_DTYPE, ids=str)
def test_joining_and_standardising_compile(dst: np.dtype) -> None:
    check(next(iter(plan_join([batch(dst, 2)], batch(dst, 2), 0))), "compute_80")
    values = {"factor": np.ones(1, np.float32), "deviations": batch(FLOAT, 1), "sums": batch(np.dtype("f8"), 1)}
    for name, value in values.items():
        source = batch(HALF if name == "factor" else BYTE, 2)
        launch = plan_standardize(source, batch(dst, 2), mean=batch(FLOAT, 1), spread=Spread(**{name: value}))
        assert launch is not None
        check(launch, "compute_80")


def test_tables_for_bytes_compile() -> None:
    image = batch(BYTE, 2, 2, 3)
    for launch in CountedMap(image, Rule.EQUALIZATION).launches(0):
        check(launch, "compute_80")
    pixels = PixelExpression.from_samples(image, "HWC")
    assert pixels is not None
    mapped = pixels.lookup(np.zeros(256, np.uint8)).lookup_stored(np.zeros(1, np.int64), None)
    check(mapped.launch(image), "sm_90")


@pytest.mark.parametrize(
    "src", thorough_except(["uint8", "int8", "uint16", "int16", "float16", "float32"], "uint8", "float16")
)
def test_filters_compile(src: str) -> None:
    window, anchor, dtype = batch(FLOAT, 3, 3), np.ones((1, 2), np.int64), np.dtype(src)
    for border, dst in [*((border, dtype) for border in range(5)), (0, FLOAT)]:
        launch = plan_filter_images(
            batch(dtype, 4, 4, 1), batch(dst, 4, 4, 1), windows=window, anchors=anchor, border=border
        )
        assert launch is not None
        check(launch, "compute_80")


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_frames_of_video_decoders_compile(dtype: str) -> None:
    kind = np.dtype(dtype)
    for channels in (1, 3):
        launch = plan_nv12_to_pixels(
            batch(kind, 4, 6), batch(kind, 2, 3, 2), batch(BYTE, 4, 6, channels), np.eye(channels, 4)
        )
        check(launch, "sm_90")


@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_elementwise_expressions_and_blurs_compile(dtype: str) -> None:
    kind = np.dtype(dtype)
    pixels = PixelExpression.from_samples(batch(kind, 4, 4, 3), "HWC")
    assert pixels is not None
    combined = pixels
    for operation in ("Add", "Subtract", "Multiply", "Divide", "Minimum", "Maximum"):
        combined = combined.combine(operation, pixels, kind)
    for noise in Noise:
        combined = combined.noise(
            noise.value, np.zeros(1, np.uint64), (0.1, 0.2), (1, 0), 2 if noise.value == 1 else None
        )
    combined = combined.erase(np.zeros((1, 1, 2, 3), np.int64), 7.0)
    window = np.ones((1, 3), np.float32), np.ones(1, np.int64), kind
    blurred = combined.convolve("H", *window).cached().convolve("W", *window)
    check(blurred.launch(batch(kind, 4, 4, 3)), "sm_90")


@pytest.mark.parametrize(("kind", "dtype"), list(enumerate(["float32", "int8", "bool", "uint64"])))
def test_draws_compile(kind: int, dtype: str) -> None:
    launch = plan_draws(batch(np.dtype(dtype), 5), RandomState(1, 2, BatchKey()).numbers, Distribution(kind))
    assert launch is not None
    check(launch, "sm_90")


def test_jpeg_compiles() -> None:
    plan = JpegPlan(batch(BYTE, 2, 2, 3), batch(BYTE, 2, 2, 3), np.array([50]))
    check(plan.launches(0)[0], "sm_90")


def test_sources_are_all_used_above() -> None:
    folder = Path(dali_proxy.pipeline._kernels.__file__).parent / "cuda"
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.cu")} == {
        "audio/elementwise.cu",
        "audio/matrix_axis.cu",
        "audio/resample_signal.cu",
        "audio/silence.cu",
        "audio/spectrogram.cu",
        "byte_map.cu",
        "clahe.cu",
        "draws.cu",
        "encode_boxes.cu",
        "evaluate.cu",
        "filter.cu",
        "inflate.cu",
        "join.cu",
        "jpeg.cu",
        "lookup.cu",
        "nv12.cu",
        "one_hot.cu",
        "paste_regions.cu",
        "reduce.cu",
        "resample.cu",
        "standardize.cu",
        "strided_copy.cu",
        "warp.cu",
    }


def test_neighborhoods_compile() -> None:
    image = PixelExpression.from_samples(batch(BYTE, 4, 4, 3), "HWC")
    mosaic = PixelExpression.from_samples(batch(BYTE, 4, 4), "HW")
    assert image is not None
    assert mosaic is not None
    pair, size = np.full((1, 2), 3), image.extents[:, 1:]
    drawn = shifts(np.ones(1), np.zeros(1, np.uint64), 2, size[:, 1])
    largest = image.without_grid(np.ones((1, 6))).extreme(pair, pair // 2, Border.WRAP, largest=True)
    for pixels in (
        largest.warp(drawn, size, BYTE, taps=8, border=Border.REFLECT_101).median(pair),
        mosaic.debayer(pair % 2, 1).cast(np.dtype("float64")).median(pair + 4),
        image.lightness().tiles(np.zeros(1, np.int64), (2, 2), pair, 1).colors(),
    ):
        check(pixels.launch(batch(pixels.dtype, 4, 4, 3)), "compute_80")
    check(ClahePlan(image.lightness(), (2, 2), 1.0, 1).tables(0), "compute_80")


def test_kernels_of_signals_compile() -> None:
    signal, spectrum, number = batch(HALF, 9), batch(FLOAT, 4, 5), batch(np.dtype("int32"))
    options = {"step": 2, "power": 1, "padding": 2, "time_first": False}
    window = np.ones(3, np.float32)
    for size in (6, 30_000):
        spectra = batch(FLOAT, size // 2 + 1, 5)
        plan = SpectrogramPlan(signal, spectra, window=window, size=size, **options)  # type: ignore[arg-type]
        check(plan.launch(0), "sm_90")
    silence = SilencePlan(signal, number, number, window=3, cutoff=-60.0, reference=None)
    filters = [SincFilter.of(50, 0.5, antialias=True), SincFilter.of(100, 1e-3, antialias=True)]
    resampled = [
        plan_resample_signal(signal, signal, np.ones(1), gain=1.0, offset=0.0, filters=[each]) for each in filters
    ]
    for launch in (
        silence.launches(0)[1],
        plan_matrix_axis(spectrum, spectrum, 0, AxisMatrices(lambda _: np.eye(4, dtype=np.float32))),
        plan_preemphasize(signal, batch(BYTE, 9), window[:1], "reflect"),
        *resampled,
    ):
        assert launch is not None
        check(launch, "compute_80")


def test_boxes_regions_and_blocks_compile() -> None:
    boxes, labels = batch(FLOAT, 2, 4), batch(np.dtype("int32"), 2)
    anchors, scaling = np.zeros((2, 4), np.float32), np.zeros(1, SCALING)
    plan = BoxEncoding(boxes, labels, boxes, labels, anchors=anchors, scaling=scaling, offset=True)
    paste = plan_paste_regions(batch(FLOAT, 2, 2, 3), np.zeros(1, REGION), np.ones(1, np.int64), BYTE)
    for launch in (plan.launches(0)[0], paste, plan_inflate(np.zeros(1, BLOCK))):
        assert launch is not None
        check(launch, "compute_80")
