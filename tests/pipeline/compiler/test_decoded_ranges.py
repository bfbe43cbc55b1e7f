"""Decoders of images and the chains behind them, a few images at a time: the same results and errors as one by one."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from dali_proxy.pipeline._compiler.rules import decoded_ranges
from dali_proxy.pipeline._compiler.rules.decoded_ranges import DecodedRanges
from dali_proxy.pipeline._imaging.scratch import scratch
from pipeline import Pipeline, fn, types
from pipeline.errors import OperatorError

EXTENTS = [(60, 50), (37, 91), (224, 300), (45, 44), (130, 39), (70, 70), (16, 24), (90, 121), (61, 62)]


def jpegs(extents: list[tuple[int, int]] = EXTENTS) -> list[np.ndarray]:
    numbers = np.random.default_rng(3)
    pixels = [numbers.integers(0, 256, (*extent, 3)).astype(np.uint8) for extent in extents]
    return [np.frombuffer(simplejpeg.encode_jpeg(image, 80), np.uint8) for image in pixels]


def pngs() -> list[np.ndarray]:
    files = [io.BytesIO() for _ in EXTENTS]
    for number, (file, extent) in enumerate(zip(files, EXTENTS, strict=True)):
        Image.fromarray(np.full((*extent, 3), number, np.uint8)).save(file, "png")
    return [np.frombuffer(file.getvalue(), np.uint8) for file in files]


class Run:
    """The outputs of a pipeline for one batch that is run several times, and how often the fused step computed it.

    Args:
        define: makes the outputs from the encoded images.
        files: encoded images.
        apart: whether the operators run separately, as they do in a graph that needs the sizes of their outputs.
        batches: how often the batch runs; the outputs of all are kept, and copied at the end.
    """

    def __init__(
        self, define: Callable[[Any], Any], files: list[np.ndarray], *, apart: bool = False, batches: int = 2
    ) -> None:
        pipe = Pipeline(batch_size=len(files), num_threads=2, device_id=None, seed=5, enable_memory_stats=apart)
        with pipe:
            outputs = define(fn.external_source(name="files"))
            pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
        self.fused: list[bool] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DecodedRanges, "run_as_one", self._watch(DecodedRanges.run_as_one))
            patch.setattr(decoded_ranges, "_MOST_BYTES", 1 << 15)  # several ranges for each thread
            pipe.build()
            kept: list[Any] = []
            for _ in range(batches):
                pipe.feed_input("files", files)
                kept += pipe.run()
            self.samples = [np.array(sample) for output in kept for sample in output]
            self.layouts = [output.layout() for output in kept]
        self.explanation = pipe.explain()
        self.operators = {each.name for each in pipe._internals.runner.executor.statistics.operators()}

    def _watch(self, run: Any) -> Any:
        def watched(step: DecodedRanges, batch: Any) -> bool:
            self.fused.append(run(step, batch))
            return self.fused[-1]

        return watched


def both(define: Callable[[Any], Any], files: list[np.ndarray]) -> Run:
    one, two = Run(define, files), Run(define, files, apart=True)
    assert two.fused == []
    assert one.layouts == two.layouts
    for found, expected in zip(one.samples, two.samples, strict=True):
        np.testing.assert_array_equal(found, expected)
    return one


def window(files: Any) -> Any:
    return fn.decoders.image_random_crop(files)


def normalized(images: Any) -> Any:
    return fn.crop_mirror_normalize(fn.resize(images, size=(24, 40)), mirror=fn.random.coin_flip(), mean=[1.0] * 3)


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "fused images": lambda x: normalized(window(x)),
    "chain": lambda x: fn.brightness(fn.rotate(fn.decoders.image(x), angle=fn.random.uniform(range=(0, 9.0)))),
    "views": lambda x: (lambda images: (normalized(images), fn.flip(fn.resize(images, size=(9, 9)))))(window(x)),
    "small images": lambda x: fn.resize(fn.decoders.image(x), size=(8, 8), interp_type=types.INTERP_CUBIC),
    "another dtype": lambda x: fn.resize(fn.decoders.image(x, dtype=types.FLOAT), size=(30, 30)),
    "gray": lambda x: fn.crop(fn.decoders.image(x, output_type=types.GRAY), crop=(9, 9)),
    "two decoders": lambda x: (normalized(window(x)), fn.flip(fn.decoders.image(x), horizontal=1)),
    "ragged": lambda x: fn.flip(fn.decoders.image(x), vertical=fn.random.coin_flip()),
}


@pytest.mark.parametrize("files", [jpegs(), pngs(), [*jpegs()[:5], *pngs()[5:]]], ids=["jpeg", "png", "mixed"])
@pytest.mark.parametrize("name", GRAPHS)
def test_ranges_give_the_same_bits(name: str, files: list[np.ndarray]) -> None:
    assert both(GRAPHS[name], files).fused == [True, True]


@pytest.mark.parametrize(
    "define",
    [
        lambda x: fn.crop(fn.decoders.image(x), crop=(9, 9)),
        lambda x: fn.slice(fn.decoders.image(x), 0.1, 0.5, axes=(0,)),
    ],
)
def test_results_that_are_views_of_images_stay_as_they_are(define: Callable[[Any], Any]) -> None:
    assert both(define, jpegs()).fused == [True, True]


@pytest.mark.parametrize(
    "define",
    [
        lambda x: (lambda images: (images, fn.flip(images)))(fn.decoders.image(x)),
        lambda x: fn.python_function(fn.decoders.image(x), function=lambda image: image[:2]),
        lambda x: fn.cast_like(fn.decoders.image(x), fn.decoders.image(x, dtype=types.FLOAT)),
        fn.decoders.image,
    ],
)
def test_images_that_others_read_are_kept(define: Callable[[Any], Any]) -> None:
    one = both(define, jpegs())
    assert True not in one.fused or "cast_like" in one.explanation


def test_palette_indices_run_one_by_one() -> None:
    file = io.BytesIO()
    Image.new("P", (20, 20), 3).save(file, "png")
    files = [np.frombuffer(file.getvalue(), np.uint8)] * 3
    one = both(lambda x: fn.flip(fn.decoders.image(x, output_type=types.GRAY, palette_indices=True)), files)
    assert one.fused == [False, False]


@pytest.mark.parametrize("broken", [[2], [1, 7]])
def test_images_that_fail_are_named(broken: list[int]) -> None:
    files = jpegs()
    for sample in broken:
        files[sample] = files[sample][: len(files[sample]) // 2]
    messages = []
    for apart in (False, True):
        with pytest.raises(OperatorError, match=r"(?s)image_random_crop.*test_decoded_ranges") as caught:
            Run(GRAPHS["fused images"], files, apart=apart)
        messages.append([(each.sample, str(each.error)) for each in caught.value.failures])
    assert messages[0] == messages[1]
    assert [sample for sample, _ in messages[0]] == broken


def test_chain_that_fails_names_its_operator_and_samples() -> None:
    messages = []
    for apart in (False, True):
        with pytest.raises(OperatorError, match=r"fn\.crop") as caught:
            Run(lambda x: fn.crop(fn.decoders.image(x), crop=(40, 40)), jpegs(), apart=apart)
        messages.append([(each.sample, str(each.error)) for each in caught.value.failures])
    assert messages[0] == messages[1]
    assert [sample for sample, _ in messages[0]] == [1, 4, 6]


@pytest.mark.parametrize("fails", [False, True])
def test_warnings_are_shown_once(fails: bool) -> None:
    file = io.BytesIO()
    Image.new("P", (20, 20), 3).save(file, "png")
    files = [np.frombuffer(file.getvalue(), np.uint8), *jpegs()]
    if fails:
        files[3] = files[3][: len(files[3]) // 2]
    with warnings.catch_warnings(record=True) as shown, suppress(OperatorError):
        warnings.simplefilter("always")
        run = Run(lambda x: fn.flip(fn.decoders.image(x, output_type=types.GRAY)), files)
        assert not fails
        assert run.fused == [True, True]
    assert len([each for each in shown if "palette" in str(each.message)]) == 1


def test_statistics_and_explanation_name_each_operator() -> None:
    run = Run(GRAPHS["fused images"], jpegs(), batches=6)
    assert {"fn.decoders.image_random_crop", "fn.resize → fn.crop_mirror_normalize"} <= run.operators
    assert "rule 'decoded ranges'" in run.explanation
    lines = [line.strip().split(" (")[0] for line in run.explanation.splitlines()]
    assert "fn.decoders.image_random_crop" in lines


def test_a_thread_uses_its_memory_again() -> None:
    used: dict[tuple[int, str], set[int]] = {}

    def watched(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        memory = scratch(name, shape, dtype)
        used.setdefault((threading.get_ident(), name), set()).add(memory.ctypes.data)
        return memory

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoded_ranges, "scratch", watched)
        Run(GRAPHS["fused images"], jpegs([(90, 90)] * 12), batches=5)
    assert 1 <= len(used) <= 2
    assert all(len(addresses) <= 2 for addresses in used.values())  # a window may need more than the first one
