"""Arguments that differ from frame to frame, against NVIDIA DALI."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import OperatorError
from tests.pipeline.operators.both import Array, compare, pictures, run_ours

SEQUENCES = pictures((3, 10, 12, 3), (2, 9, 8, 3))
NUMBERS = [np.linspace(0.5, 2, len(sequence)).astype(np.float32) for sequence in SEQUENCES]
WINDOWS = [np.random.default_rng(7).normal(0, 0.3, (len(sequence), 3, 3)).astype(np.float32) for sequence in SEQUENCES]
MATRICES = [
    np.array([[[1, 0.1 * frame, frame], [0, 1, -frame]] for frame in range(len(sequence))], np.float32)
    for sequence in SEQUENCES
]
CALLS: dict[str, tuple[Any, list[Array]]] = {
    "blur": (lambda fn, types, x, s: fn.gaussian_blur(x, sigma=fn.per_frame(s)), NUMBERS),
    "rotate": (lambda fn, types, x, s: fn.rotate(x, angle=fn.per_frame(s * 10), keep_size=True), NUMBERS),
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


def test_what_does_not_fit() -> None:
    def blurred(fn: Any, types: Any, x: Any, sigma: Any) -> Any:
        return fn.gaussian_blur(x, sigma=fn.per_frame(sigma))

    with pytest.raises(OperatorError, match=r"sample 1.*for 3 frames, the sequence has 2"):
        run_ours(blurred, SEQUENCES, [NUMBERS[0]] * 2, layouts=["FHWC"])
    with pytest.raises(OperatorError, match="need a sequence, F first, not 'DHWC'"):
        run_ours(blurred, SEQUENCES, NUMBERS, layouts=["DHWC"])
    with pytest.raises(OperatorError, match="the frames get different shapes"):
        run_ours(lambda fn, types, x, s: fn.rotate(x, angle=fn.per_frame(s * 40)), SEQUENCES, NUMBERS, layouts=["FHWC"])


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
