"""Random windows: distributions compared with their definition and with DALI's, seeds, and batch sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging import resize
from dali_proxy.pipeline._operators.geometry import random_windows
from dali_proxy.pipeline._operators.geometry.random_windows import RandomWindows
from pipeline.errors import PipelineError
from pipeline.types import FLOAT, INTERP_CUBIC
from tests.pipeline.imaging.images import pillow, smooth, with_orientation
from tests.pipeline.operators.both import Array, refused_by_both, run_dali, run_ours

COUNT = 4000


def draw(
    height: int,
    width: int,
    count: int = COUNT,
    *,
    seed: int = 7,
    dali: bool = False,
    dtype: str = "int64",
    **arguments: Any,
) -> Array:
    """Return windows (y, x, height, width)."""
    run = run_dali if dali else run_ours
    shapes = [np.array([height, width, 3], dtype)] * count
    anchor, shape = run(lambda fn, _, x: fn.random_crop_generator(x, **arguments), shapes, seed=seed)
    assert (anchor.layout, shape.layout) == ("", "")
    assert anchor.samples[0].dtype == shape.samples[0].dtype == np.int32
    return np.concatenate([np.stack(anchor.samples), np.stack(shape.samples)], axis=1)


def distance(ours: Array, theirs: Array) -> float:
    """Return the Kolmogorov-Smirnov distance: the largest difference of the two distribution functions."""
    values = np.sort(np.concatenate([ours, theirs]))
    first, second = (np.searchsorted(np.sort(sample), values, side="right") / len(sample) for sample in (ours, theirs))
    return float(np.abs(first - second).max())


#: A distance that pairs of COUNT draws of equal distributions exceed once in a million.
LIMIT = 2.7 * (2 / COUNT) ** 0.5


def test_area_and_aspect_ratio_are_distributed_as_documented() -> None:
    y, x, height, width = draw(10000, 10000, random_area=[0.05, 0.15], random_aspect_ratio=[0.5, 2.0]).T
    area, ratio = height * width / 1e8, width / height
    uniform = np.linspace(0, 1, COUNT)
    assert distance((area - 0.05) / 0.1, uniform) < LIMIT
    assert distance((np.log(ratio) / np.log(2) + 1) / 2, uniform) < LIMIT
    assert distance(y / (10000 - height), uniform) < LIMIT
    assert distance(x / (10000 - width), uniform) < LIMIT
    correlations = np.corrcoef([area, np.log(ratio), y / (10000 - height), x / (10000 - width)])
    assert np.abs(correlations - np.eye(4)).max() < 0.08


@pytest.mark.parity
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((375, 500), {}),
        ((500, 333), {"random_area": [0.3, 1.0]}),
        ((100, 100), {"random_area": [0.5, 0.9], "random_aspect_ratio": [0.5, 2.0], "num_attempts": 2}),
        ((50, 200), {"random_area": [0.4, 1.0], "random_aspect_ratio": [0.8, 1.2], "num_attempts": 1}),
    ],
)
def test_windows_are_distributed_as_in_dali(size: tuple[int, int], arguments: dict[str, Any]) -> None:
    ours, theirs = (draw(*size, dali=dali, **arguments) for dali in (False, True))
    for column, name in enumerate(("y", "x", "height", "width")):
        assert distance(ours[:, column], theirs[:, column]) < LIMIT, name
    assert distance(ours[:, 2] * ours[:, 3], theirs[:, 2] * theirs[:, 3]) < LIMIT


@pytest.mark.parity
@pytest.mark.parametrize(
    ("size", "area", "ratio"),
    [
        ((12, 12), [0.08, 1.0], [0.75, 1.333333]),
        ((10, 14), [0.2, 0.5], [0.5, 2.0]),
        ((12, 12), [0.2, 0.6], [1.0, 1.3]),
        ((8, 8), [0.05, 0.1], [0.8, 1.25]),
    ],
)
def test_whole_pixels_are_distributed_as_in_dali(size: tuple[int, int], area: list[float], ratio: list[float]) -> None:
    """With few pixels, rounding and rejection determine the distribution. Chi-squared test of all windows."""
    count = 12000
    ours, theirs = (
        draw(*size, count, dali=dali, random_area=area, random_aspect_ratio=ratio)[:, 2:] for dali in (False, True)
    )
    cells = np.zeros((2, size[0] + 1, size[1] + 1))
    for side, windows in enumerate((ours, theirs)):
        np.add.at(cells[side], tuple(windows.T), 1)
    used = cells.sum(axis=0) > 0
    statistic = ((cells[0] - cells[1])[used] ** 2 / cells.sum(axis=0)[used]).sum()
    freedom = int(used.sum()) - 1
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5 + 10


@pytest.mark.parity
@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        ((60, 90), {"num_attempts": 0}),
        ((90, 60), {"num_attempts": 0}),
        ((60, 61), {"num_attempts": 0}),
        ((60, 90), {"random_area": [1.0, 1.0], "random_aspect_ratio": [3.0, 4.0]}),
        ((60, 90), {"random_area": [5.0, 5.0], "random_aspect_ratio": [0.2, 0.3]}),
        ((60, 90), {"random_area": [0.9, 0.95], "random_aspect_ratio": [0.2, 0.3], "num_attempts": 3}),
        ((1, 1), {}),
        ((1, 100), {}),
        ((60, 90), {"random_area": [0.0, 0.0]}),
        ((0, 20), {}),
    ],
)
def test_windows_without_a_fitting_attempt_equal_those_of_dali(
    size: tuple[int, int], arguments: dict[str, Any]
) -> None:
    ours, theirs = (draw(*size, 200, dali=dali, **arguments) for dali in (False, True))
    assert np.unique(ours[:, 2:], axis=0).tolist() == np.unique(theirs[:, 2:], axis=0).tolist()
    assert np.abs(ours[:, :2].max(axis=0) - theirs[:, :2].max(axis=0)).max() <= 3


def test_windows_lie_inside_and_reach_every_position() -> None:
    windows = draw(4, 5, random_area=[0.2, 0.5])
    assert (windows[:, :2] >= 0).all()
    assert (windows[:, 2:] >= 1).all()
    assert (windows[:, 0] + windows[:, 2] <= 4).all()
    assert (windows[:, 1] + windows[:, 3] <= 5).all()
    twos = windows[(windows[:, 2] == 2) & (windows[:, 3] == 2)]
    assert set(twos[:, 0]) == {0, 1, 2}
    assert set(twos[:, 1]) == {0, 1, 2, 3}


def test_sample_is_independent_of_the_size_of_its_batch() -> None:
    assert np.array_equal(draw(300, 400, 3), draw(300, 400, 50)[:3])


def test_seeds() -> None:
    assert np.array_equal(draw(300, 400, 20), draw(300, 400, 20))
    assert not np.array_equal(draw(300, 400, 20), draw(300, 400, 20, seed=8))
    own = {"random_area": [0.1, 0.9]}
    first, second = (
        run_ours(
            lambda fn, _, x, k=k: fn.random_crop_generator(x, **own, **({"seed": 5} if k else {})),
            [np.array([300, 400])] * 9,
            seed=seed,
        )
        for seed, k in ((1, True), (2, True))
    )
    assert np.array_equal(first[0].samples, second[0].samples)


def test_batches_differ() -> None:
    import pipeline
    from pipeline import fn

    with pipeline.Pipeline(batch_size=4, num_threads=1, device_id=None, seed=1) as pipe:
        pipe.set_outputs(*fn.random_crop_generator(fn.external_source(name="x")))
    feed = np.array([[300, 400]] * 4)
    first, second = (np.array(pipe.run(x=feed)[1].as_array()) for _ in range(2))
    assert not np.array_equal(first, second)
    pipe.close()


def test_decoder_cuts_the_generators_windows() -> None:
    """With the same seed, also for images that EXIF rotates."""
    feed = [np.frombuffer(pillow(smooth(40, 50 + index), "JPEG"), np.uint8) for index in range(4)]
    feed += [np.frombuffer(with_orientation(smooth(40, 50), "JPEG", 6), np.uint8)]
    arguments = {"random_area": [0.1, 0.6], "seed": 11}

    def graph(fn: Any, _: Any, x: Any) -> Any:
        anchor, shape = fn.random_crop_generator(fn.peek_image_shape(x), **arguments)
        images = fn.decoders.image(x)
        cropped = fn.decoders.image_random_crop(x, **arguments)
        by_shape = fn.random_crop_generator(images.shape(), **arguments)
        return cropped, fn.slice(images, anchor, shape, axes=[0, 1]), fn.slice(images, *by_shape, axes=[0, 1])

    cropped, *sliced = run_ours(graph, feed)
    assert cropped.layout == "HWC"
    for other in sliced:
        assert all(map(np.array_equal, cropped.samples, other.samples))
    assert len({sample.shape for sample in cropped.samples}) > 1


@pytest.mark.parametrize("arguments", [{}, {"interp_type": INTERP_CUBIC}, {"antialias": False}, {"dtype": FLOAT}])
def test_resized_crop_is_a_resize_of_the_generators_window(arguments: dict[str, Any]) -> None:
    feed = [smooth(40, 50 + index) for index in range(4)]

    def graph(fn: Any, _: Any, x: Any) -> Any:
        begin, extent = fn.random_crop_generator(x.shape(), seed=11)
        resized = fn.resize(x, size=[9, 12], roi_start=begin, roi_end=begin + extent, **arguments)
        return fn.random_resized_crop(x, size=[9, 12], seed=11, **arguments), resized

    output, expected = run_ours(graph, feed, layouts=["HWC"])
    assert output.layout == "HWC"
    for sample, other in zip(output.samples, expected.samples, strict=True):
        np.testing.assert_array_equal(sample, other)


@pytest.mark.parity
@pytest.mark.parametrize("dali", [False, True])
def test_resized_crop_reads_across_the_windows_border(dali: bool) -> None:
    """For any window, the result is that of a region of the image, not of pixels that were cut out."""
    image = np.random.default_rng(0).integers(0, 256, (12, 12, 3), np.uint8)
    arguments = {"size": 4, "random_area": [0.25, 0.25], "random_aspect_ratio": [1.0, 1.0]}
    run = run_dali if dali else run_ours
    (output,) = run(lambda fn, _, x: fn.random_resized_crop(x, **arguments), [image] * 5, layouts=["HWC"])
    corners = [(y, x) for y in range(7) for x in range(7)]
    for sample in output.samples:
        assert any(np.array_equal(sample, resize(image, (4, 4), region=(y, x, y + 6, x + 6))) for y, x in corners)


def test_frames_of_a_sequence_have_one_window() -> None:
    frame = smooth(30, 40)
    feed = [np.stack([frame] * 3)]
    (output,) = run_ours(lambda fn, _, x: fn.random_resized_crop(x, size=8), feed, layouts=["FHWC"])
    assert output.samples[0].shape == (3, 8, 8, 3)
    assert (output.samples[0] == output.samples[0][:1]).all()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"size": [0, 8]}, "'size' must be one or two positive numbers"),
        ({"size": [8, 8, 8]}, "'size' must be one or two positive numbers"),
        ({"size": 8, "random_area": [0.5, 0.2]}, "'random_area' must be a range"),
    ],
)
def test_resized_crop_refuses_bad_calls(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        run_ours(lambda fn, _, x: fn.random_resized_crop(x, **arguments), [smooth(30, 40)], layouts=["HWC"])


def test_whole_range_may_be_one_number() -> None:
    windows = draw(1000, 1000, 50, random_area=0.25, random_aspect_ratio=1.0)
    assert (windows[:, 2:] == 500).all()


@pytest.mark.parity
@pytest.mark.parametrize(
    ("shape", "arguments", "match"),
    [
        ([48, 64], {"random_area": [0.5, 0.2]}, "'random_area' must be a range"),
        ([48, 64], {"random_aspect_ratio": [2.0, 1.0]}, "'random_aspect_ratio' must be a range"),
        ([48], {}, "2 or 3 elements"),
        ([5, 48, 64, 3], {}, "2 or 3 elements"),
    ],
)
def test_bad_calls_are_refused(shape: list[int], arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: fn.random_crop_generator(x, **arguments), [np.array(shape)], match=match)


@pytest.mark.parity
def test_shapes_that_are_not_integers_are_refused() -> None:
    refused_by_both(
        lambda fn, _, x: fn.random_crop_generator(x), [np.float32([48, 64])], match="must be integers, not float32"
    )


@pytest.mark.parametrize("options", [{}, {"num_attempts": 0}, {"random_area": [0.9, 2.0]}, {"num_attempts": 1}])
@pytest.mark.parametrize("native", [False, True])
def test_windows_of_a_batch_are_those_of_its_samples(
    monkeypatch: pytest.MonkeyPatch, native: bool, options: dict[str, Any]
) -> None:
    if not native:
        monkeypatch.setattr(random_windows, "compiled", None)
    sizes = [(30, 40), (1, 500), (500, 1), (7, 7), (0, 5), (300, 20), (1080, 1920), (2, 3)] * 8
    together = RandomWindows.choose_all
    compared = []

    def choose_all(windows: RandomWindows, heights: Array, widths: Array) -> Array:
        found = together(windows, heights, widths)
        for sample, size in enumerate(sizes):
            assert tuple(found[sample].tolist()) == windows.choose(sample, *size)
            compared.append(sample)
        return found

    monkeypatch.setattr(RandomWindows, "choose_all", choose_all)
    shapes = [np.array([*size, 3]) for size in sizes]
    run_ours(lambda fn, _, x: fn.random_crop_generator(x, **options), shapes, seed=5)
    assert compared == list(range(len(sizes)))
