"""Compiled loops over points, boxes, masks and signals compute the same as NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._audio import mel, silence, spectrum
from dali_proxy.pipeline._imaging import blobs, rows
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.points import map_points
from dali_proxy.pipeline._imaging.reductions import REDUCTIONS, reduce
from dali_proxy.pipeline._operators.audio import preemphasis_filter
from dali_proxy.pipeline._operators.boxes import bbox_windows, box_encoder, select_masks
from pipeline.tensors import TensorListCPU

pytestmark = pytest.mark.skipif(compiled is None, reason="the C module wasn't built")

RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 3), (4, 4), (2, 3), (1, 6)])
def test_points_equal_products_of_matrices(rows: int, columns: int) -> None:
    points, matrices, offsets = normal(5, 100, columns), normal(5, rows, columns), normal(5, rows)
    mapped = map_points(list(points), 100, matrices, offsets)
    assert mapped is not None
    expected = points.astype(np.float64) @ matrices.swapaxes(1, 2) + offsets[:, None]
    np.testing.assert_allclose(mapped, expected, rtol=1e-5, atol=1e-5)


def test_points_of_samples_with_different_counts_equal_those_of_each_sample() -> None:
    counts, matrices, offsets = np.array([3, 0, 7]), normal(3, 4, 4), normal(3, 4)
    points = normal(10, 4)
    expected = [
        map_points([own], len(own), matrices[index : index + 1], offsets[index : index + 1])
        for index, own in ((0, points[:3]), (2, points[3:]))
    ]
    mapped = map_points(points, counts, matrices, offsets)
    assert mapped is not None
    assert mapped.tolist() == np.concatenate([each[0] for each in expected if each is not None]).tolist()
    assert map_points(points[1:], counts, matrices, offsets) is None


def test_points_that_are_not_contiguous_are_left_to_numpy() -> None:
    assert map_points([normal(100, 4)[:, :2]], 100, normal(1, 2, 2), normal(1, 2)) is None


def test_matched_boxes_equal_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    corners = RNG.uniform(0, 0.8, (300, 2))
    planes = np.concatenate([corners, corners + RNG.uniform(0.05, 0.2, (300, 2))], axis=1).astype(np.float32)
    planes[7] = planes[3]  # equal overlaps
    anchors = box_encoder._Anchors(
        np.ascontiguousarray(planes.T),
        box_encoder._to_centers(planes),
        box_encoder._areas(planes),
        normal(4),
        normal(4),
    )
    boxes = np.concatenate([planes[:20], planes[3:4], np.zeros((1, 4), np.float32)])  # the last one has no area
    matched = anchors.match(boxes, 0.4)
    monkeypatch.setattr(box_encoder, "compiled", None)
    assert matched.tolist() == anchors.match(boxes, 0.4).tolist()


@pytest.mark.parametrize("border", ["zero", "clamp", "reflect"])
@pytest.mark.parametrize("length", [0, 1, 2, 1000])
def test_filtered_signal_equals_that_of_numpy(border: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    signal, results = normal(length), np.zeros((2, length), np.float32)
    preemphasis_filter._filter(signal, np.float32(0.97), border, results[0])
    monkeypatch.setattr(preemphasis_filter, "compiled", None)
    preemphasis_filter._filter(signal, np.float32(0.97), border, results[1])
    assert results[0].tolist() == results[1].tolist()


@pytest.mark.parametrize("shape", [(1,), (70,), (1, 1), (20, 31), (4, 5, 6), (2, 3, 4, 5)])
@pytest.mark.parametrize("density", [0.0, 0.3, 0.6, 1.0])
def test_boxes_of_blobs_equal_those_of_opencv(
    shape: tuple[int, ...], density: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = RNG.random(shape) < density
    boxes = blobs.blob_boxes(mask)
    monkeypatch.setattr(blobs, "compiled", None)
    expected = blobs.blob_boxes(mask)
    assert (boxes.tolist(), boxes.shape) == (expected.tolist(), expected.shape)


@pytest.mark.parametrize("name", ["sum", "mean_square", "variance"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1), (2,)])
def test_sums_of_rows_equal_those_of_numpy(
    name: str, dtype: str, axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    array, mean = normal(3, 7, 45), normal(3, 7, 45).mean(axes, keepdims=True)
    means = mean if name == "variance" else None
    sums = reduce(array, REDUCTIONS[name], axes, np.dtype(dtype), mean=means)
    monkeypatch.setattr(rows, "compiled", None)
    expected = reduce(array, REDUCTIONS[name], axes, np.dtype(dtype), mean=means)
    np.testing.assert_allclose(sums, expected, rtol=1e-7 if dtype == "float32" else 1e-13, atol=1e-12)


@pytest.mark.parametrize("shapes", [((3, 1, 1), (3, 1, 1)), ((1, 1, 1), (3, 1, 1)), ((3, 7, 1), ()), ((1, 7, 1),) * 2])
def test_standardized_rows_equal_those_of_numpy(
    shapes: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    array, results = normal(3, 7, 45), np.zeros((2, 3, 7, 45), np.float32)
    mean, factor = (np.asarray(normal(*shape)) for shape in shapes)
    rows.standardize_rows(array, mean, factor, results[0])
    monkeypatch.setattr(rows, "compiled", None)
    rows.standardize_rows(array, mean, factor, results[1])
    assert results[0].tolist() == results[1].tolist()


@pytest.mark.parametrize("reference", [None, 0.1])
@pytest.mark.parametrize("special", [0.0, np.nan, np.inf])
def test_sound_equals_that_of_numpy(special: float, reference: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    signals = [normal(length) * (RNG.random(length) < 0.2).astype(np.float32) for length in (1, 2, 50, 300)]
    for signal in signals:
        signal[len(signal) // 2] = special
    with np.errstate(invalid="ignore"):
        found = [silence.nonsilent_region(signal, 5, -3.0, reference) for signal in signals]
        monkeypatch.setattr(silence, "compiled", None)
        assert found == [silence.nonsilent_region(signal, 5, -3.0, reference) for signal in signals]


@pytest.mark.parametrize("size", [4, 5, 40, 130])
@pytest.mark.parametrize("length", [1, 3, 900])
@pytest.mark.parametrize("options", [(True, True, 1), (True, False, 2), (False, False, 2)])
def test_spectrograms_equal_those_of_numpy(
    size: int, length: int, options: tuple[bool, bool, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    signal, window = normal(2 * length)[::2], normal(min(size, 33))
    monkeypatch.setattr(spectrum, "_BLOCK", 64 * size)
    centered, reflected, power = options

    def compute(by_bin: bool) -> Any:
        return spectrum.spectrogram(
            signal, window, 7, size, power, centered=centered, reflected=reflected, by_bin=by_bin
        )

    found = compute(True), compute(False)
    monkeypatch.setattr(spectrum, "compiled", None)
    np.testing.assert_array_equal(found[0], compute(True))
    np.testing.assert_array_equal(found[1], compute(False))


def test_arguments_of_spectrograms_that_do_not_fit_are_errors() -> None:
    assert compiled is not None
    with pytest.raises(ValueError, match="doesn't fit"):
        compiled.wave_powers(normal(3, 8), normal(3, 4), False)
    for signal, factors in ((normal(0), normal(2)), (normal(9), normal(5))):
        with pytest.raises(ValueError, match="don't fit"):
            compiled.take_windows(signal, factors, 0, 1, True, normal(3, 4))


def test_mel_filters_equal_products_of_matrices() -> None:
    filters = mel.mel_filters(257, 40, 16_000.0, 0.0, 8_000.0, "slaney", normalize=True)
    spectra = RNG.random((2, 257, 30)).astype(np.float32)
    expected = filters.weights.astype(np.float64) @ spectra
    np.testing.assert_allclose(filters.apply(spectra, 1), expected, rtol=1e-6)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("prune", [None, 0.4])
@pytest.mark.parametrize("iou", [False, True])
@pytest.mark.parametrize("every", [False, True])
def test_random_windows_equal_those_of_numpy(
    axes: int, prune: float | None, iou: bool, every: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = RNG.integers(0, 4, 20)
    corners = RNG.uniform(0, 0.7, (counts.sum(), axes))
    boxes = np.concatenate([corners, corners + RNG.uniform(0, 0.3, corners.shape)], axis=1)
    extents = RNG.uniform(50, 200, (20, axes))
    for ratios, attempts, total, redraw, crop in (
        ((0.9, 1.0), 2, 60, True, None),
        ((0.5, 2.0), 1, 9, False, None),
        ((1, 1), 1, 50, True, None),
        ((1, 1), 1, 20, True, extents * RNG.uniform(0.5, 1.1, (20, axes))),
        ((0.5, 2.0), 3, -1, True, None),
    ):
        shape_range = bbox_windows.check_ratios(ratios, axes)
        windows = bbox_windows.BoxWindows(
            *((0.0, 0.1, 0.3), not every or total < 0, iou, every, prune, (0.3, 0.9), shape_range, attempts, total),
            redraw,
        )
        found, key = [], np.random.default_rng(1).integers(0, 1 << 64, 2, np.uint64)
        for module in (compiled, None):
            monkeypatch.setattr(bbox_windows, "compiled", module)
            drawn = windows.draw(key, boxes, counts, extents, crop)
            found.append([np.asarray(each).tolist() for each in vars(drawn).values()])
        assert found[0] == found[1]


@pytest.mark.parametrize("reindex", [False, True])
def test_selected_masks_equal_those_of_python(reindex: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    polygons = [np.array([[number % 3, 4 * number, 4 * number + number] for number in range(7)], np.int32)] * 2
    masks = [np.array([2, 0], np.int32), np.array([], np.int32)]
    data = [masks, polygons, [normal(40, 2), normal(31, 2)]]
    inputs = [TensorListCPU(samples) for samples in data]
    together = select_masks._select_all(*inputs, reindex=reindex)
    assert together is not None
    expected = zip(*(select_masks._select(*arrays, reindex=reindex) for arrays in zip(*data, strict=True)), strict=True)
    for output, samples in zip(together, expected, strict=True):
        assert [array.tolist() for array in output.samples] == [array.tolist() for array in samples]
        assert output.samples[0].dtype == samples[0].dtype


def test_invalid_masks_are_left_to_python() -> None:
    polygons, vertices = TensorListCPU([np.array([[0, 0, 9]], np.int32)]), TensorListCPU([normal(5, 2)])
    for masks in ([0], [0, 0], [7]):
        inputs = TensorListCPU([np.array(masks, np.int32)]), polygons, vertices
        assert select_masks._select_all(*inputs, reindex=False) is None
