"""`patchify` and `smart_resize`: compared with a reference, on the CPU and the GPU, and with image processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._imaging import patches
from dali_proxy.pipeline._imaging.patches import PatchLayout, smart_sizes
from pipeline import types
from pipeline.errors import PipelineError
from tests import host_cupy
from tests.pipeline.kernels import emulator
from tests.pipeline.operators.both import Array, Output, run_ours, sample_images

IMAGES = sample_images((24, 36, 3), (12, 12, 3), (36, 12, 3))
VIDEOS = sample_images((3, 24, 12, 3), (2, 12, 12, 3), (1, 12, 24, 3))
NORMALIZED: dict[str, Any] = {"mean": [100.0, 110.0, 120.0], "std": [50.0, 60.0, 70.0]}


def reference(frames: Array, layout: PatchLayout) -> Array:
    """Return the patches of (F, H, W, C), one element after another."""
    missing = -len(frames) % layout.temporal_patch_size
    frames = np.concatenate([frames, *[frames[-1:]] * missing])
    size, merge, duration = layout.patch_size, layout.merge_size, layout.temporal_patch_size
    rows = []
    for time in range(0, len(frames), duration):
        for y in range(0, frames.shape[1], layout.factor):
            for x in range(0, frames.shape[2], layout.factor):
                for row in range(merge):
                    for column in range(merge):
                        top, left = y + row * size, x + column * size
                        patch = frames[time : time + duration, top : top + size, left : left + size]
                        rows.append((patch if layout.channels_last else patch.transpose(3, 0, 1, 2)).ravel())
    return np.array(rows)


def run(data: list[Array], layout: str, gpu: bool = False, **arguments: Any) -> Output:
    def graph(fn: Any, types: Any, images: Any) -> Any:
        result = fn.patchify(images.gpu() if gpu else images, **arguments)
        return result.cpu() if gpu else result

    return run_ours(graph, data, layouts=[layout], device_id=0 if gpu else None)[0]


@pytest.fixture(params=["native", "NumPy", "emulated GPU", pytest.param("GPU", marks=pytest.mark.gpu)])
def patchified(request: pytest.FixtureRequest) -> Any:
    """Return a function that runs the operator with the C module, without it, or on a GPU."""
    if request.param == "GPU":
        yield lambda *data, **arguments: run(*data, gpu=True, **arguments)
    elif request.param == "emulated GPU":
        if emulator.COMPILER is None:
            pytest.skip("needs a C++ compiler")
        with host_cupy.installed():
            yield lambda *data, **arguments: run(*data, gpu=True, **arguments)
    elif request.param == "NumPy":
        with patch.object(patches, "compiled", None):
            yield run
    else:
        yield run


@pytest.mark.parametrize("order", patches.ORDERS)
@pytest.mark.parametrize("sizes", [(6, 2, 2), (4, 3, 1), (12, 1, 3)])
def test_patches_equal_the_reference(
    patchified: Callable[..., Output], order: str, sizes: tuple[int, int, int]
) -> None:
    layout = PatchLayout(*sizes, order)
    arguments = dict(zip(("patch_size", "merge_size", "temporal_patch_size"), sizes, strict=True))
    for data, letters in ((IMAGES, "HWC"), (VIDEOS, "FHWC")):
        output = patchified(data, letters, **arguments, order=order, **NORMALIZED)
        assert output.layout == ""
        for made, image in zip(output.samples, data, strict=True):
            frames = image[None] if letters == "HWC" else image
            mean, std = (np.array(NORMALIZED[name], np.float32) for name in ("mean", "std"))
            np.testing.assert_allclose(made, reference((frames - mean) / std, layout), atol=1e-5)


@pytest.mark.parametrize("dtype", [types.UINT8, types.FLOAT16, types.INT32])
def test_dtypes_and_planes(patchified: Callable[..., Output], dtype: types.DALIDataType) -> None:
    planes = [image.transpose(2, 0, 1).copy() for image in IMAGES]
    for made, image in zip(patchified(planes, "CHW", patch_size=6, dtype=dtype).samples, IMAGES, strict=True):
        assert made.dtype == types.to_numpy_type(dtype)
        assert np.array_equal(made, reference(image[None], PatchLayout(6)))


def test_means_may_differ_between_samples(patchified: Callable[..., Output]) -> None:
    def graph(fn: Any, types: Any, images: Any, means: Any) -> Any:
        return fn.patchify(images, patch_size=6, mean=means)

    means = [np.float32(index) for index in range(3)]
    output = run_ours(graph, IMAGES, means, layouts=["HWC"])[0]
    for index, (made, image) in enumerate(zip(output.samples, IMAGES, strict=True)):
        assert np.array_equal(made, reference(image[None] - np.float32(index), PatchLayout(6)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"patch_size": 5},
            r"an image of 24 x 36 .* multiples of patch_size \* merge_size = 5; resize it by smart_res",
        ),
        ({"patch_size": 6, "merge_size": 4}, "for sample [01]: an image of"),
        ({"patch_size": 0}, "'patch_size' must be 1 or more, not 0"),
        ({"patch_size": 6, "mean": [1.0, 2.0]}, "per-channel arguments should match"),
    ],
)
def test_wrong_sizes_are_errors(patchified: Callable[..., Output], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        patchified(IMAGES, "HWC", **arguments)


def patches_of(images: list[Array], gpu: bool = False, cast: bool = False, **arguments: Any) -> list[Array]:
    def graph(fn: Any, types: Any, data: Any) -> Any:
        data = data.gpu() if gpu else data
        data = fn.smart_resize(data, interp_type=types.INTERP_CUBIC, **arguments)
        result = fn.patchify(data, patch_size=14, merge_size=2, temporal_patch_size=2, mean=127.5, std=127.5)
        result = fn.cast(result * 2, dtype=types.FLOAT16) if cast else result
        return result.cpu() if gpu else result

    return run_ours(graph, images, layouts=["HWC"], device_id=0 if gpu else None)[0].samples


@pytest.mark.skipif(emulator.COMPILER is None, reason="needs a C++ compiler")
def test_resized_patches_are_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    images = sample_images((60, 90, 3), (100, 40, 3), (33, 33, 3))
    launches = []
    run_launch = KernelContext.run

    def counted(self: KernelContext, launch: Any, stream: Any) -> None:
        launches.append(launch.file)
        run_launch(self, launch, stream)

    monkeypatch.setattr(KernelContext, "run", counted)
    with host_cupy.installed():
        made = patches_of(images, gpu=True, max_pixels=28 * 28 * 6)
        assert launches == ["evaluate.cu"]
        wide = patches_of(images, gpu=True, cast=True, max_pixels=28 * 28 * 6)
    for ours, doubled, expected in zip(made, wide, patches_of(images, max_pixels=28 * 28 * 6), strict=True):
        assert ours.shape == expected.shape
        assert np.abs(ours - expected).max() <= 1.01 / 127.5  # rounding of the resize
        assert np.array_equal(doubled, (ours * 2).astype(np.float16))


def test_sizes_are_multiples_within_limits() -> None:
    extents = np.random.default_rng(0).integers(10, 3000, (500, 2))
    extents = extents[extents.max(axis=1) <= 200 * extents.min(axis=1)]
    for largest in (False, True):
        sizes = smart_sizes(extents, 28, 3136, 100_000, largest=largest)
        pixels, ratios = sizes.prod(axis=1), (sizes[:, 0] / sizes[:, 1]) / (extents[:, 0] / extents[:, 1])
        long = extents.max(axis=1) > 8 * extents.min(axis=1)
        assert not (sizes % 28).any()
        assert (pixels[~long] <= 100_000).all()
        assert largest or (pixels >= 3136).all()
        assert (np.abs(np.log(ratios[~long & (sizes.min(axis=1) > 100)])) < 0.3).all()
        if largest:  # a larger scale would exceed the limit
            assert (np.ceil(extents * (np.sqrt(100_000 / extents.prod(axis=1)) * 1.01)[:, None] / 28) * 28).prod(
                axis=1
            ).min() > 90_000


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        ((2, 500, 3), {}, "an image of 2 x 500 can't be resized to patches"),
        ((20, 20, 3), {"min_pixels": 10_000, "max_pixels": 5_000}, "must be at least 'min_pixels'"),
        ((20, 20, 3), {"factor": 0}, "'factor' must be 1 or more"),
    ],
)
def test_impossible_sizes_are_errors(shape: tuple[int, ...], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        run_ours(lambda fn, types, x: fn.smart_resize(x, **arguments), sample_images(shape), layouts=["HWC"])


def photographs() -> list[Array]:
    data = pytest.importorskip("skimage.data")
    return [np.asarray(data.astronaut())[:300], np.asarray(data.coffee()), np.asarray(data.chelsea())[:, :200]]


def test_qwen_vl_processor_makes_the_same_patches() -> None:
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "Qwen2VLImageProcessorPil"):
        pytest.skip("needs a version of transformers with this processor")
    images = photographs()
    processor = transformers.Qwen2VLImageProcessorPil(min_pixels=3136, max_pixels=200_000)
    expected = processor(list(images), return_tensors="np", input_data_format="channels_last")
    mean, std = ([255 * value for value in values] for values in (processor.image_mean, processor.image_std))

    def graph(fn: Any, types: Any, data: Any) -> Any:
        data = fn.smart_resize(data, max_pixels=200_000, interp_type=types.INTERP_CUBIC)
        return fn.patchify(data, patch_size=14, merge_size=2, temporal_patch_size=2, mean=mean, std=std)

    made = np.concatenate(run_ours(graph, images, layouts=["HWC"])[0].samples)
    assert made.shape == expected["pixel_values"].shape
    distance = np.abs(made - expected["pixel_values"]) * min(std)  # in steps of 8 bits, nearly
    assert (distance > 1.1).mean() < 1e-3  # where the cubic filter of PIL clips between its passes
    grids = smart_sizes(np.array([image.shape[:2] for image in images]), 28, 3136, 200_000) // 14
    assert expected["image_grid_thw"][:, 1:].tolist() == grids.tolist()


def test_siglip_2_processor_makes_the_same_patches() -> None:
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "Siglip2ImageProcessorPil"):
        pytest.skip("needs a version of transformers with this processor")
    images = photographs()
    expected = transformers.Siglip2ImageProcessorPil()(list(images), return_tensors="np")

    def graph(fn: Any, types: Any, data: Any) -> Any:
        data = fn.smart_resize(data, factor=16, max_pixels=256 * 16 * 16, mode="largest")
        return fn.patchify(data, patch_size=16, order="THWC", mean=127.5, std=127.5)

    for made, padded in zip(run_ours(graph, images, layouts=["HWC"])[0].samples, expected["pixel_values"], strict=True):
        assert np.abs(made - padded[: len(made)]).max() <= 4.1 / 127.5
        assert not padded[len(made) :].any()
