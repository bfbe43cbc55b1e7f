"""`dump_image` writes files that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import run_ours

IMAGES = [np.random.default_rng(seed).integers(0, 255, (5, 7, 3)).astype(np.uint8) for seed in (0, 1)]


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_written(channels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    images = [image[..., :channels] for image in IMAGES]
    (output,) = run_ours(lambda fn, types, x: fn.dump_image(x, suffix="x"), images, layouts=["HWC"])
    for number, image in enumerate(images):
        assert np.array_equal(np.array(Image.open(f"{number}-x-0.ppm")).reshape(image.shape), image)
        assert np.array_equal(output.samples[number], image)


@pytest.mark.parametrize(("arguments", "match"), [({"input_layout": "CHW"}, "input_layout"), ({}, "1 or 3 channels")])
def test_other_images_are_refused(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        run_ours(lambda fn, types, x: fn.dump_image(x, **arguments), [IMAGES[0][..., :2]], layouts=["HWC"])
