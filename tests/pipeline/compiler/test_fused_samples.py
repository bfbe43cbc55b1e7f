"""Resize and crop_mirror_normalize, fused on the CPU: the same results as in sequence, errors included."""

from __future__ import annotations

from inspect import isfunction
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.rules.fused_images import FusedImages
from dali_proxy.pipeline._imaging.native import compiled
from pipeline import Pipeline, fn, types
from pipeline.errors import OperatorError

needs_compiled = pytest.mark.skipif(compiled is None, reason="the package was installed without a C compiler")

Arguments = dict[str, Any]
NORMALIZATION = {"mean": [100.0, 110.0, 120.0], "std": [50.0, 60.0, 70.0]}


def sample_images(channels: int = 3, dtype: Any = np.uint8) -> list[np.ndarray]:
    numbers = np.random.default_rng(channels)
    extents = [(60, 50), (37, 91), (224, 300), (45, 44), (8, 8), (130, 39), (70, 70)]
    return [numbers.integers(0, 256, (height, width, channels)).astype(dtype) for height, width in extents]


class Run:
    """The output of a pipeline, and how often the fused step computed it.

    Args:
        images: images to feed.
        apart: whether the operators run separately, as they do if the graph needs the sizes of their outputs.
    """

    def __init__(
        self, images: list[np.ndarray], *, apart: bool, crop: str, resize: Arguments, normalize: Arguments
    ) -> None:
        pipe = Pipeline(batch_size=len(images), num_threads=2, device_id=None, seed=5, enable_memory_stats=apart)
        with pipe:
            data = fn.external_source(name="images")
            small = getattr(fn, crop)(data, **resize)
            drawn = {name: make() for name, make in normalize.items() if isfunction(make)}
            pipe.set_outputs(fn.crop_mirror_normalize(small, **{**normalize, **drawn}))
        self.fused: list[bool] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FusedImages, "run_as_one", self._watch(FusedImages.run_as_one))
            pipe.build()
            pipe.feed_input("images", images)
            (made,) = pipe.run()
            self.samples = [np.array(sample) for sample in made]
            self.layout = made.layout()

    def _watch(self, run: Any) -> Any:
        def watched(step: FusedImages, batch: Any) -> bool:
            self.fused.append(run(step, batch))
            return self.fused[-1]

        return watched


def both(images: list[np.ndarray], crop: str, resize: Arguments, normalize: Arguments) -> tuple[Run, Run]:
    one, two = (Run(images, apart=apart, crop=crop, resize=resize, normalize=normalize) for apart in (False, True))
    assert two.fused == []
    assert one.layout == two.layout
    for found, expected in zip(one.samples, two.samples, strict=True):
        np.testing.assert_array_equal(found, expected)
    return one, two


@needs_compiled
@pytest.mark.parametrize(
    ("crop", "resize"),
    [
        ("random_resized_crop", {"size": (24, 40)}),
        ("random_resized_crop", {"size": 64, "antialias": False, "interp_type": types.INTERP_TRIANGULAR}),
        ("resize", {"size": (56, 48)}),
        ("resize", {"size": (56, 48), "roi_start": (0.1, 0.9), "roi_end": (0.8, 0.2), "roi_relative": True}),
    ],
)
@pytest.mark.parametrize(
    "normalize",
    [
        {**NORMALIZATION, "mirror": lambda: fn.random.coin_flip()},
        {"mean": 3.0, "std": lambda: fn.random.uniform(range=(1.0, 9.0)), "scale": 2.0, "shift": -1.0, "mirror": 1},
        {},
    ],
)
def test_fused_operators_give_the_same_bits(crop: str, resize: Arguments, normalize: Arguments) -> None:
    one, _ = both(sample_images(), crop, resize, normalize)
    assert one.fused == [True]


@needs_compiled
@pytest.mark.parametrize(
    "window",
    [{"crop": (56, 48)}, {"crop_w": 48.0, "crop_h": 56.0, "crop_pos_x": lambda: fn.random.uniform(range=(0, 1))}],
)
@pytest.mark.parametrize("crop", ["random_resized_crop", "resize"])
def test_windows_that_are_whole_images_are_fused(crop: str, window: Arguments) -> None:
    one, _ = both(sample_images(), crop, {"size": (56, 48)}, {**NORMALIZATION, "mirror": 1, **window})
    assert one.fused == [True]


def test_windows_of_several_sizes_run_one_by_one() -> None:
    heights = {"crop_h": lambda: fn.random.uniform(values=[47.0, 48.0]), "crop_w": 48.0}
    one, _ = both(sample_images(), "resize", {"size": (48, 48)}, {**NORMALIZATION, **heights})
    assert one.fused == [False]


@needs_compiled
def test_fused_operators_give_the_same_bits_of_four_channels() -> None:
    one, _ = both(sample_images(4), "resize", {"size": (56, 48)}, {"mean": [1.0, 2.0, 3.0, 4.0]})
    assert one.fused == [True]


@pytest.mark.parametrize(
    ("images", "resize", "normalize"),
    [
        (sample_images(1), {"size": (48, 48)}, {}),
        (sample_images(3, np.float32), {"size": (48, 48)}, NORMALIZATION),
        (sample_images(), {"size": (48, 48), "interp_type": types.INTERP_CUBIC}, NORMALIZATION),
        (sample_images(), {"size": (48, 48), "min_filter": types.INTERP_NN}, NORMALIZATION),
        (sample_images(), {"size": (48, 48), "dtype": types.FLOAT}, NORMALIZATION),
        (sample_images(), {"size": (10, 10)}, NORMALIZATION),  # one shrinks too much
        (sample_images(), {"resize_shorter": 30}, NORMALIZATION),
        (sample_images(), {"size": (48, 48)}, {**NORMALIZATION, "crop": (20, 20)}),
        (sample_images(), {"size": (48, 56)}, {**NORMALIZATION, "crop": (56, 48), "out_of_bounds_policy": "pad"}),
        (sample_images(), {"size": (48, 48)}, {**NORMALIZATION, "output_layout": "HWC"}),
        (sample_images(), {"size": (48, 48)}, {**NORMALIZATION, "dtype": types.FLOAT16}),
        (sample_images(), {"size": (48, 48)}, {**NORMALIZATION, "pad_output": True}),
    ],
    ids=str,
)
def test_other_operators_run_one_by_one(images: list[np.ndarray], resize: Arguments, normalize: Arguments) -> None:
    one, _ = both(images, "resize", resize, normalize)
    assert one.fused == [False]


@pytest.mark.parametrize("number", [0, 3])
def test_empty_image_is_named(number: int) -> None:
    images = sample_images()
    images[number] = images[number][:0]
    messages = []
    for apart in (False, True):
        with pytest.raises(OperatorError, match=rf"resize.*sample {number}") as caught:
            Run(images, apart=apart, crop="resize", resize={"size": (48, 48)}, normalize=NORMALIZATION)
        messages.append(str(caught.value).split("\n")[0])
    assert messages[0] == messages[1]


def test_wrong_arguments_are_errors_of_their_operator() -> None:
    with pytest.raises(OperatorError, match=r"crop_mirror_normalize.*'std' is 0"):
        Run(sample_images(), apart=False, crop="resize", resize={"size": (48, 48)}, normalize={"std": [1.0, 0.0, 1.0]})
