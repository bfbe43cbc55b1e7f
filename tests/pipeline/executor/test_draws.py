"""What operators draw for a batch: the same as a run with the same graph."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from dali_proxy.pipeline import Pipeline, fn, pipeline_def, types
from dali_proxy.pipeline._executor.draws import Draw, draws
from dali_proxy.pipeline._executor.executor import BatchRequest
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

SIZE = 6


def drawn(pipe: Pipeline, key: BatchKey, seed: int = 3, **inputs: Any) -> list[Draw]:
    return list(draws(pipe._internals.graph, seed, key, SIZE, inputs))


def run(pipe: Pipeline, key: BatchKey, **inputs: Any) -> list[list[Any]]:
    pipe.build()
    executor = pipe._internals.executor
    assert executor is not None
    fed = {name: TensorListCPU([*value]) for name, value in inputs.items()}
    return [list(map(np.array, output.samples)) for output in executor.run(BatchRequest(SIZE, fed, key=key))]


@pytest.mark.parametrize("key", [BatchKey(2, 5), BatchKey(0, 1, 1), BatchKey(1, 3, 0, 77)])
def test_numbers_are_those_of_the_run(key: BatchKey) -> None:
    @pipeline_def(batch_size=SIZE, num_threads=2, device_id=None, seed=3)
    def augmented() -> Any:
        x = fn.external_source(name="x")
        noise = fn.noise.gaussian(x)
        low = fn.random.uniform(range=(0.0, 1.0))
        nested = fn.random.uniform(range=fn.stack(low, low + 1.0))
        vector = fn.random.normal(shape=(3,))
        own = fn.random.choice(5, seed=9)
        flipped = fn.random.coin_flip(name="mirror")
        return x + low, noise, low, nested, vector, own, flipped, fn.random.uniform(x)

    pipe = augmented()
    expected = run(pipe, key, x=np.ones((SIZE, 4), np.float32))
    found = drawn(pipe, key)
    shown = [each for each in found if each.numbers is not None]
    assert [each.view for each in found] == [key.view] * len(found)
    assert len(shown) == 5  # without the data
    with_data = drawn(pipe, key, x=np.ones((SIZE, 4), np.float32))
    assert [each.operator for each in with_data if each.numbers is None] == ["fn.noise.gaussian"]
    last = with_data[-1].numbers
    assert last is not None
    assert all(np.array_equal(*pair) for pair in zip(expected[7], last, strict=True))
    for numbers in expected[2:7]:
        assert any(
            all(np.array_equal(*pair) for pair in zip(numbers, each.numbers or (), strict=True)) for each in shown
        )
    hidden = [each.operator for each in found if each.numbers is None]
    assert sorted(hidden) == ["fn.noise.gaussian", "fn.random.uniform"]
    assert "fn.random.coin_flip (name='mirror')" in [each.operator for each in shown]
    assert all(each.line.startswith("test_draws.py:") for each in found)


def test_samples_of_other_branches_have_no_numbers() -> None:
    @pipeline_def(batch_size=SIZE, num_threads=1, device_id=None, seed=3, enable_conditionals=True)
    def branched() -> Any:
        x = fn.external_source(name="x")
        taken = fn.random.coin_flip(dtype=types.BOOL)
        if taken:
            low = fn.random.uniform(range=(1.0, 2.0))
            y = fn.random.uniform(range=fn.stack(low, low + 1.0))
        else:
            y = fn.random.uniform(range=(-2.0, -1.0))
        if fn.random.coin_flip(probability=0.0, dtype=types.BOOL):  # no sample takes it
            y = y + fn.random.uniform(range=fn.stack(y, y + 1.0))
        return x, taken, y

    pipe = branched()
    key = BatchKey(1, 2)
    expected = run(pipe, key, x=np.ones(SIZE, np.float32))
    found = drawn(pipe, key)
    assert all(each.numbers is not None for each in found)
    coin = next(each for each in found if "coin_flip" in each.operator)
    taken = [bool(each) for each in expected[1]]
    assert coin.numbers == tuple(expected[1])
    assert len(set(taken)) == 2
    uniform = [each.numbers or () for each in found if "uniform" in each.operator]
    _, inner, other, nobody = uniform  # operators with constant arguments draw for all samples
    assert [number is None for number in inner] == [not each for each in taken]
    assert [a if each else b for a, b, each in zip(inner, other, taken, strict=True)] == expected[2]
    assert nobody == (None,) * SIZE


def by_name(found: list[Draw], operator: str) -> dict[str, list[Any]]:
    """Return what the only call of an operator drew, by name."""
    mine = {each.name: [*(each.numbers or ())] for each in found if each.operator == operator}
    assert all(mine.values())
    return mine


def images(seed: int = 5) -> list[Any]:
    random = np.random.default_rng(seed)
    return [random.integers(0, 256, (40 + 7 * number, 90 - 9 * number, 3), np.uint8) for number in range(SIZE)]


def cut(image: Any, anchor: Any, shape: Any) -> Any:
    (y, x), (height, width) = anchor.tolist(), shape.tolist()
    return image[y : y + height, x : x + width]


WINDOW = ("anchor (y, x)", "shape (height, width)")


@pytest.mark.parametrize("key", [BatchKey(2, 5), BatchKey(0, 1, 1), BatchKey(1, 3, 0, 77)])
def test_windows_are_those_of_the_run(key: BatchKey) -> None:
    @pipeline_def(batch_size=SIZE, num_threads=2, device_id=None, seed=3)
    def cropped() -> Any:
        encoded = fn.external_source(name="encoded")
        anchor, shape = fn.random_crop_generator(fn.peek_image_shape(encoded), random_area=(0.2, 0.4))
        decoded = fn.decoders.image(encoded)
        resized = fn.random_resized_crop(decoded, size=(20, 30))
        return fn.decoders.image_random_crop(encoded), decoded, anchor, shape, resized

    encoded = [np.frombuffer(cv2.imencode(".png", image)[1].tobytes(), np.uint8) for image in images()]
    pipe = cropped()
    window, full, anchor, shape, resized = run(pipe, key, encoded=encoded)
    found = drawn(pipe, key, encoded=encoded)
    decoder = by_name(found, "fn.decoders.image_random_crop")
    assert tuple(decoder) == WINDOW
    for result, image, *place in zip(window, full, *decoder.values(), strict=True):
        assert np.array_equal(result, cut(image, *place))
    assert len({each.tobytes() for each in decoder[WINDOW[0]]}) > 1
    generator = by_name(found, "fn.random_crop_generator")
    assert np.array_equal(np.stack(generator[WINDOW[0]]), anchor)
    assert np.array_equal(np.stack(generator[WINDOW[1]]), shape)

    @pipeline_def(batch_size=SIZE, num_threads=2, device_id=None)
    def again() -> Any:
        place, size = fn.external_source(name="place"), fn.external_source(name="extents")
        image = fn.external_source(name="image", layout="HWC")
        return fn.resize(image, size=(20, 30), roi_start=place, roi_end=place + size)

    place, extents = (np.stack(each).astype(np.float32) for each in by_name(found, "fn.random_resized_crop").values())
    (expected,) = run(again(), key, place=place, extents=extents, image=full)
    assert all(np.array_equal(*pair) for pair in zip(resized, expected, strict=True))
    assert all(each.numbers is None for each in drawn(pipe, key))  # the data isn't known


def test_windows_in_a_branch() -> None:
    @pipeline_def(batch_size=SIZE, num_threads=2, device_id=None, seed=3, enable_conditionals=True)
    def branched() -> Any:
        image = fn.external_source(name="image", layout="HWC")
        if fn.random.coin_flip(dtype=types.BOOL):
            image = fn.random_resized_crop(image, size=(20, 20), interp_type=types.INTERP_NN)
        else:
            image = fn.resize(image, size=(20, 20))
        return image, fn.external_source(name="other")

    pipe, key = branched(), BatchKey(0, 2)
    found = drawn(pipe, key, image=images())
    places, shapes = by_name(found, "fn.random_resized_crop").values()
    taken = [bool(each) for each in by_name(found, "fn.random.coin_flip")[""]]
    assert len(set(taken)) == 2
    assert [each is not None for each in places] == taken
    (results, _) = run(pipe, key, image=images(), other=np.ones(SIZE, np.float32))
    for result, image, place, shape in zip(results, images(), places, shapes, strict=True):
        if place is not None:
            rows, columns = (
                (np.arange(20) + 0.5) * extent / 20 + first for first, extent in zip(place, shape, strict=True)
            )
            nearest = image[np.floor(rows).astype(int)][:, np.floor(columns).astype(int)]
            assert np.mean(result == nearest) > 0.9  # ties may be rounded otherwise


def test_draws_that_depend_on_boxes_and_masks() -> None:
    @pipeline_def(batch_size=SIZE, num_threads=2, device_id=None, seed=3)
    def detection() -> Any:
        image, boxes = fn.external_source(name="image", layout="HWC"), fn.external_source(name="boxes")
        labels, mask = fn.external_source(name="labels"), fn.external_source(name="mask")
        anchor, shape, *_ = fn.random_bbox_crop(boxes, labels, scaling=(0.3, 0.8), quiet=True, total_num_attempts=5)
        cropped, *_ = fn.ssd_random_crop(image, boxes, labels)
        pixel = fn.segmentation.random_mask_pixel(mask, foreground=1)
        start, end, label = fn.segmentation.random_object_bbox(mask, format="start_end", output_class=True)
        box = fn.segmentation.random_object_bbox(mask, format="box", seed=4)
        place = fn.roi_random_crop(mask, crop_shape=(4, 4), roi_start=start, roi_end=end)
        return anchor, shape, cropped, pixel, start, end, label, box, place

    random = np.random.default_rng(1)
    corners = np.sort(random.uniform(0, 1, (SIZE, 3, 2, 2)), axis=2).reshape(SIZE, 3, 4).astype(np.float32)
    masks = np.kron(random.integers(0, 3, (SIZE, 4, 4)), np.ones((6, 6), int)).astype(np.uint8)
    data = {"image": images(), "boxes": [*corners], "labels": [np.arange(3, dtype=np.int32)] * SIZE, "mask": [*masks]}
    pipe, key = detection(), BatchKey(1, 4)
    anchor, shape, cropped, *others = run(pipe, key, **data)
    found = drawn(pipe, key, **data)
    window = by_name(found, "fn.random_bbox_crop")
    assert tuple(window) == ("anchor (x, y)", "shape (width, height)")
    assert all(np.array_equal(*pair) for pair in zip(window.values(), (anchor, shape), strict=True))
    places = by_name(found, "fn.ssd_random_crop").values()
    for result, image, place, extents in zip(cropped, images(), *places, strict=True):
        first, last = (each * image.shape[1::-1] for each in (place, place + extents))
        (left, top), (right, bottom) = first.astype(int).tolist(), np.rint(last).astype(int).tolist()
        assert np.array_equal(result, image[top : max(bottom, top + 1), left : max(right, left + 1)])
    shown = [
        (each.name, [*(each.numbers or ())])
        for each in found
        if "segmentation" in each.operator or "roi" in each.operator
    ]
    assert [name for name, _ in shown] == ["", "start", "end", "class", "", ""]
    for (_, numbers), expected in zip(shown, others, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(numbers, expected, strict=True))


def test_draws_behind_code_of_the_user_are_not_shown() -> None:
    @pipeline_def(batch_size=SIZE, num_threads=1, device_id=None, seed=3)
    def with_code() -> Any:
        image = fn.external_source(name="image", layout="HWC")
        changed = fn.python_function(image, function=lambda each: each[:9, :9])
        return fn.random_resized_crop(changed, size=5), fn.random_resized_crop(image, size=5)

    found = drawn(with_code(), BatchKey(), image=images())
    assert [each.operator for each in found if each.numbers is None] == ["fn.python_function", "fn.random_resized_crop"]
    assert len(found) == 4
