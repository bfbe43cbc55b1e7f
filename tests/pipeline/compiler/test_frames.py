"""Arguments that differ between frames, compared with NVIDIA DALI."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import OperatorError
from tests.pipeline.operators.both import Array, compare, run_ours, sample_images

SEQUENCES = sample_images((3, 10, 12, 3), (2, 9, 8, 3))
NUMBERS = [np.linspace(0.5, 2, len(sequence)).astype(np.float32) for sequence in SEQUENCES]
WINDOWS = [np.random.default_rng(7).normal(0, 0.3, (len(sequence), 3, 3)).astype(np.float32) for sequence in SEQUENCES]
MATRICES = [
    np.array([[[1, 0.1 * frame, frame], [0, 1, -frame]] for frame in range(len(sequence))], np.float32)
    for sequence in SEQUENCES
]
CALLS: dict[str, tuple[Any, list[Array]]] = {
    "blur": (lambda fn, types, x, s: fn.gaussian_blur(x, sigma=fn.per_frame(s)), NUMBERS),
    "rotate": (lambda fn, types, x, s: fn.rotate(x, angle=fn.per_frame(s * 10), keep_size=True), NUMBERS),
    "rotate to one canvas": (lambda fn, types, x, s: fn.rotate(x, angle=fn.per_frame(s * 40)), NUMBERS),
    "transforms": (
        lambda fn, types, x, s: fn.warp_affine(
            x, fn.transforms.scale(fn.transforms.rotation(angle=fn.per_frame(s * 30)), scale=[0.5, 2])
        ),
        NUMBERS,
    ),
    "brightness": (
        lambda fn, types, x, s: fn.brightness(
            x, brightness=fn.per_frame(s), brightness_shift=fn.random.coin_flip(probability=1.0) * 0.1
        ),
        NUMBERS,
    ),
    "in a chain": (lambda fn, types, x, s: fn.flip(fn.hue(fn.flip(x), hue=fn.per_frame(s * 90))), NUMBERS),
    "windows": (lambda fn, types, x, s: fn.filter(x, fn.per_frame(s)), WINDOWS),
    "matrices": (lambda fn, types, x, s: fn.warp_affine(x, fn.per_frame(s), fill_value=3), MATRICES),
    "matrices as arguments": (
        lambda fn, types, x, s: fn.warp_affine(x, matrix=fn.per_frame(s), fill_value=3),
        MATRICES,
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("call", CALLS)
def test_frames_are_those_of_dali(call: str) -> None:
    graph, feed = CALLS[call]
    compare(graph, SEQUENCES, feed, layouts=["FHWC"], tolerance=1)


@pytest.mark.parity
def test_points_are_used_for_each_frame() -> None:
    points = sample_images((5, 2), (7, 2), dtype=np.float32)
    for layout, marked in (("XY", False), ("", False), ("", True)):
        compare(
            lambda fn, types, x, s: fn.coord_transform(
                fn.per_frame(fn.stack(*[x] * 3)) if marked else x,  # noqa: B023
                MT=fn.transforms.rotation(angle=fn.per_frame(s * 90)),
            ),
            points,
            [NUMBERS[0], NUMBERS[0] * 2],
            layouts=[layout],
            tolerance=1e-4,
        )


ONE_FRAME = [NUMBERS[0], NUMBERS[1][:1]]
REPEATED: dict[str, Any] = {
    "blur": lambda fn, types, x, s: fn.gaussian_blur(x, sigma=fn.per_frame(s)),
    "brightness": lambda fn, types, x, s: fn.flip(fn.brightness(fn.flip(x), brightness=fn.per_frame(s))),
    "two arguments": lambda fn, types, x, s: fn.brightness_contrast(
        x, brightness=fn.per_frame(s), contrast=fn.per_frame(s[0:1])
    ),
    "transforms": lambda fn, types, x, s: fn.warp_affine(
        x, matrix=fn.transforms.scale(scale=fn.per_frame(fn.stack(s, s, axis=1)))
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("call", REPEATED)
def test_argument_for_one_frame_is_used_for_all_frames(call: str) -> None:
    compare(REPEATED[call], SEQUENCES, ONE_FRAME, layouts=["FHWC"], tolerance=1)


def test_layouts_mark_sequences() -> None:
    """A source's layout marks an argument as well as `fn.per_frame`; other layouts don't."""
    (marked,), (named,) = (
        run_ours(lambda fn, _, x, s: fn.brightness(x, brightness=make(fn, s)), SEQUENCES, NUMBERS, layouts=layouts)  # noqa: B023
        for make, layouts in (
            (lambda fn, s: fn.per_frame(s), ["FHWC"]),
            (lambda fn, s: fn.copy(s), ["FHWC", "F"]),
        )
    )
    for ours, other in zip(marked.samples, named.samples, strict=True):
        assert np.array_equal(ours, other)
    one = [values[:1] for values in NUMBERS]
    (whole,) = run_ours(lambda fn, _, x, s: fn.brightness(x, brightness=s), SEQUENCES, one, layouts=["FHWC", "X"])
    assert [sample.shape for sample in whole.samples] == [sequence.shape for sequence in SEQUENCES]


def test_frames_that_do_not_fit_are_refused() -> None:
    def blurred(fn: Any, types: Any, x: Any, sigma: Any) -> Any:
        return fn.gaussian_blur(x, sigma=fn.per_frame(sigma))

    with pytest.raises(OperatorError, match=r"sample 1.*contains 3 per-frame parameters, but there are 2 frames"):
        run_ours(blurred, SEQUENCES, [NUMBERS[0]] * 2, layouts=["FHWC"])
    with pytest.raises(OperatorError, match="need a sequence whose layout begins with F, not 'DHWC'"):
        run_ours(blurred, SEQUENCES, NUMBERS, layouts=["DHWC"])
    with pytest.raises(OperatorError, match="the frames would get different shapes"):
        run_ours(
            lambda fn, types, x, s: fn.resize(x, resize_x=fn.per_frame(s * 9)), SEQUENCES, NUMBERS, layouts=["FHWC"]
        )


@pytest.mark.gpu
@pytest.mark.parametrize("call", CALLS)
def test_frames_on_the_gpu_equal_the_cpus(call: str) -> None:
    graph, feed = CALLS[call]
    (here,), (there,) = (
        run_ours(lambda fn, types, x, s: graph(fn, types, move(x), s), SEQUENCES, feed, layouts=["FHWC"], device_id=0)  # noqa: B023
        for move in (lambda x: x, lambda x: x.gpu())
    )
    assert here.layout == there.layout
    for ours, other in zip(here.samples, there.samples, strict=True):
        assert np.abs(ours.astype(int) - other.astype(int)).max() <= 1
