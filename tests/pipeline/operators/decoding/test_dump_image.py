"""`dump_image` writes files that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline import Pipeline, fn
from pipeline.errors import GraphError, PipelineError
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


def test_images_are_written_if_nothing_needs_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        images = fn.external_source(name="images", layout="HWC")
        masks = fn.external_source(name="masks", layout="HWC")
        assert len(fn.dump_image([images, masks], suffix="x")) == 2
        pipe.set_outputs(fn.dump_image(images, suffix="y"), masks)
    pipe.run(images=IMAGES, masks=IMAGES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-x-0.ppm", "0-y-0.ppm", "1-x-0.ppm", "1-y-0.ppm"]
    pipe.close()


def test_call_outside_of_a_pipeline_is_an_error() -> None:
    images = fn.external_source(name="images", layout="HWC")
    with pytest.raises(GraphError, match="dump_image has to run although no output needs it"):
        fn.dump_image(images)
