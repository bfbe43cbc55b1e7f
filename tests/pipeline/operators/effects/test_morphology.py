"""`experimental.dilate` and `experimental.erode` compared with OpenCV, which DALI's GPU versions follow."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, run_ours

IMAGE = np.random.default_rng(0).integers(0, 255, (17, 23, 3)).astype(np.uint8)
BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "replicate": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT,
    "reflect_101": cv2.BORDER_REFLECT_101,
}


def run(name: str, image: Array, layout: str, **arguments: Any) -> Array:
    (output,) = run_ours(lambda fn, types, x: getattr(fn.experimental, name)(x, **arguments), [image], layouts=[layout])
    assert output.layout == layout
    return output.samples[0]


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("name", ["dilate", "erode"])
def test_morphology_equals_opencv(name: str, border: str) -> None:
    window = cv2.getStructuringElement(cv2.MORPH_RECT, (5, 2))
    expected = getattr(cv2, name)(IMAGE, window, anchor=(3, 0), iterations=2, borderType=BORDERS[border])
    arguments: dict[str, Any] = {"mask_size": [5, 2], "anchor": [3, 0], "iterations": 2, "border_mode": border}
    assert np.array_equal(run(name, IMAGE, "HWC", **arguments), expected)
    planes = np.stack([IMAGE.transpose(2, 0, 1)] * 2)
    assert np.array_equal(run(name, planes, "FCHW", **arguments)[1], expected.transpose(2, 0, 1))


def test_morphology_wraps() -> None:
    tiled = np.tile(IMAGE, (3, 3, 1))
    expected = cv2.dilate(tiled, np.ones((3, 5), np.uint8), iterations=2)[17:34, 23:46]
    assert np.array_equal(run("dilate", IMAGE, "HWC", mask_size=[5, 3], iterations=2, border_mode="wrap"), expected)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [({"mask_size": [0, 3]}, "mask_size"), ({"anchor": [3, 0]}, "anchor"), ({"iterations": -1}, "iterations")],
)
def test_morphology_refuses_invalid_arguments(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        run("erode", IMAGE, "HWC", **arguments)
