"""Every image operator on the GPU against its CPU implementation, over random ragged batches.

Operators that move data are exact. Normalisation rounds one multiplication and one addition in float32, in a
different order than the CPU. Resizing sums in float32, in a different order, so rounded pixels may differ by 1. Sizes
change from odd to even, so that no value lies on a tie, which the two sides round differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pipeline import types
from pipeline.errors import OperatorError
from tests.pipeline.imaging.images import encodings, pillow, smooth
from tests.pipeline.operators.both import Array, difference, run_ours, sample_images

pytestmark = pytest.mark.gpu

ALL = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64")
SEEDS = (0, 1)


@dataclass(frozen=True)
class Case:
    """An operator with arguments.

    Attributes:
        operator: its path.
        arguments: constants.
        per_sample: makes an argument's values from a generator and the number of samples.
        dtypes: of the input.
        layout: of the input, of which H and W are odd and differ from sample to sample.
        tolerance: largest difference, by kind of the output's dtype ("u", "i", "f", "b").
    """

    operator: str
    arguments: dict[str, Any] = field(default_factory=dict)
    per_sample: dict[str, Callable[[np.random.Generator], Any]] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("uint8", "float32")
    layout: str = "HWC"
    tolerance: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.arguments.items()]
        return "-".join([self.operator, self.layout, *words, *self.per_sample]).replace(" ", "")


def coin(generator: np.random.Generator) -> Array:
    return np.array(generator.integers(0, 2), np.int32)


def place(generator: np.random.Generator) -> Array:
    return np.array(generator.random(), np.float32)


def odd(low: int, high: int) -> Callable[[np.random.Generator], Array]:
    return lambda generator: np.array(generator.integers(low, high, 2) * 2 + 1, np.float32)


NORMALIZED = {"f": 1e-5, "u": 1, "i": 1}
RESIZED = {"f": 2e-3, "u": 1, "i": 1}
IMAGENET = {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}
LAYOUTS = ("HWC", "CHW", "FHWC", "DHWC", "FCHW", "CDHW", "FDHWC")

CASES = [
    Case("copy", dtypes=(*ALL, "bool")),
    *[Case("cast", {"dtype": types.to_dali_type(dtype)}, dtypes=ALL) for dtype in (*ALL, "bool")],
    *[Case("flip", {"depthwise": 1}, {"horizontal": coin, "vertical": coin}, layout=layout) for layout in LAYOUTS],
    Case("flip", dtypes=ALL),
    *[Case("transpose", {"perm": perm}, dtypes=ALL) for perm in ([2, 0, 1], [1, 0, 2], [0, 2, 1])],
    Case("transpose", layout="FDHWC"),
    *[
        Case(
            "crop",
            {"crop": size, "out_of_bounds_policy": policy, "fill_values": [1.0, 2.0, 3.0]},
            {"crop_pos_x": place, "crop_pos_y": place},
            layout=layout,
        )
        for layout in LAYOUTS
        for size, policy in (([9, 8], "error"), ([40, 8], "pad"), ([40, 50], "trim_to_shape"))
    ],
    *[
        Case("crop", {"crop": [9, 8], "dtype": dtype}, dtypes=ALL)
        for dtype in (types.UINT8, types.FLOAT16, types.FLOAT)
    ],
    Case("slice", {"start": [-3, 2], "end": [9, 40], "out_of_bounds_policy": "pad", "fill_values": 7.0}, dtypes=ALL),
    Case("slice", {"rel_start": [0.1, 0.2], "rel_shape": [0.5, 0.61]}, dtypes=ALL),
    Case("slice", {"start": [1, 2], "end": [12, 40], "out_of_bounds_policy": "trim_to_shape"}, layout="FCHW"),
    Case("slice", {"axes": [0, 1], "dtype": types.UINT8}, {"rel_start": place}),
    *[
        Case(
            "crop_mirror_normalize",
            {"dtype": dtype, "crop": [9, 8], **IMAGENET},
            {"mirror": coin, "crop_pos_x": place},
            dtypes=("uint8", "int16", "uint16", "int32", "float16", "float32"),
            tolerance={**NORMALIZED, "f": 4e-3 if dtype == types.FLOAT16 else 1e-5 * 600},
        )
        for dtype in (types.FLOAT, types.FLOAT16, types.INT8, types.UINT8)
    ],
    *[
        Case(
            "crop_mirror_normalize",
            {"crop": [40, 8], "out_of_bounds_policy": policy, "pad_output": pad, "output_layout": output, **IMAGENET},
            {"mirror": coin},
            layout=layout,
            tolerance=NORMALIZED,
        )
        for policy in ("pad", "trim_to_shape")
        for pad in (False, True)
        for layout, output in (("HWC", "CHW"), ("HWC", "HWC"), ("CHW", "HWC"), ("FHWC", "FCHW"), ("DHWC", "CDHW"))
    ],
    Case(
        "crop_mirror_normalize",
        {"shift": 3.0, "scale": 2.0},
        {"mean": lambda g: g.random(3).astype("float32"), "std": lambda g: 1 + g.random(3).astype("float32")},
        tolerance={"f": 1e-3},
    ),
    *[
        Case(
            "resize",
            {"size": size, "interp_type": interp, "antialias": antialias},
            dtypes=("uint8", "int16", "uint16", "float32"),
            tolerance=RESIZED if interp != types.INTERP_NN else {},
        )
        for interp in types.DALIInterpType
        for size in ([8, 10], [60, 80], [8, 80])
        for antialias in (True, False)
    ],
    *[Case("resize", {"size": [8, 40]}, layout=layout, tolerance=RESIZED) for layout in ("CHW", "FHWC", "FCHW")],
    *[Case("resize", {"size": [2, 8, 40]}, layout=layout, tolerance=RESIZED) for layout in ("DHWC", "CDHW", "FDHWC")],
    Case("resize", {"resize_shorter": 8, "dtype": types.FLOAT}, tolerance={"f": 2e-3}),
    Case("resize", {"size": [-8, 20], "mode": "not_larger"}, tolerance=RESIZED),
    Case("resize", {"roi_start": [1.25, 3.5], "roi_end": [11.75, 9.25]}, {"size": odd(3, 30)}, tolerance=RESIZED),
    Case("resize", {"size": [8, 10], "save_attrs": True}, tolerance=RESIZED),
    Case("shapes"),
]


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, float]]:
    """Largest difference by operator and kind of dtype; written out at the end."""
    largest: dict[str, float] = {}
    yield largest
    plugins = request.config.pluginmanager
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():
        reporter.ensure_newline()
        for name, value in sorted(largest.items()):
            reporter.write_line(f"largest difference of GPU and CPU: {name}: {value:g}")


def note(table: dict[str, float], name: str, value: float) -> None:
    table[name] = max(table.get(name, 0.0), value)


def feed_of(case: Case, dtype: str, generator: np.random.Generator) -> list[Array]:
    shapes = []
    for _ in range(5):
        height, width = (generator.integers(6, 17, 2) * 2 + 1).tolist()
        extents = {"H": height, "W": width, "C": 3, "D": 5, "F": 2}
        shapes.append(tuple(extents[letter] for letter in case.layout))
    low, high = (0, 1) if dtype == "bool" else (-100, 100) if np.dtype(dtype).kind == "i" else (0, 120)
    return sample_images(*shapes, dtype=dtype, seed=int(generator.integers(1000)), low=low, high=high)


def on(device: str, case: Case) -> Callable[..., Any]:
    def graph(fn: Any, _: Any, data: Any, *values: Any) -> Any:
        operator = fn
        for part in case.operator.split("."):
            operator = getattr(operator, part)
        result = operator(
            data.gpu() if device == "gpu" else data, **case.arguments, **dict(zip(case.per_sample, values, strict=True))
        )
        outputs = result if isinstance(result, list | tuple) else (result,)
        return tuple(output.cpu() for output in outputs)

    return graph


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gpu_equals_cpu(case: Case, table: dict[str, float]) -> None:
    for dtype in case.dtypes:
        for seed in SEEDS:
            generator = np.random.default_rng(seed)
            feed = feed_of(case, dtype, generator)
            values = [[make(generator) for _ in feed] for make in case.per_sample.values()]
            layouts = [case.layout]
            cpu = run_ours(on("cpu", case), feed, *values, layouts=layouts)
            gpu = run_ours(on("gpu", case), feed, *values, layouts=layouts, device_id=0)
            for number, (here, there) in enumerate(zip(cpu, gpu, strict=True)):
                assert here.layout == there.layout
                for sample, (ours, theirs) in enumerate(zip(here.samples, there.samples, strict=True)):
                    where = f"{dtype}, seed {seed}, output {number}, sample {sample}"
                    assert ours.shape == theirs.shape, where
                    assert ours.dtype == theirs.dtype, where
                    apart = difference(ours, theirs)
                    note(table, f"{case.operator} to {ours.dtype}", apart)
                    assert apart <= case.tolerance.get(ours.dtype.kind, 0.0), where


@pytest.mark.parametrize("operator", ["crop", "crop_mirror_normalize", "resize", "slice"])
def test_dense_batches_stay_dense(operator: str) -> None:
    arguments = {
        "crop": {"crop": [4, 4]},
        "crop_mirror_normalize": {"crop": [4, 4]},
        "resize": {"size": [4, 4]},
        "slice": {"end": [4, 4]},
    }[operator]
    import pipeline
    from pipeline import fn

    with pipeline.Pipeline(batch_size=4, num_threads=1, device_id=0) as pipe:
        data = fn.external_source(name="x", layout="HWC").gpu()
        pipe.set_outputs(getattr(fn, operator)(data, **arguments))
    (made,) = pipe.run(x=sample_images((9, 11, 3), (13, 7, 3), (5, 5, 3)))
    assert made.dense is not None
    pipe.close()


@pytest.mark.parametrize(
    ("operator", "arguments", "failed"),
    [
        ("crop", {"crop": [9, 9]}, [1]),
        ("crop_mirror_normalize", {"crop": [9, 9]}, [1]),
        ("slice", {"start": [0, 0], "shape": [9, 9]}, [1]),
    ],
)
def test_errors_name_their_samples(operator: str, arguments: dict[str, Any], failed: list[int]) -> None:
    feed = sample_images((9, 9, 3), (8, 9, 3), (11, 13, 3))
    with pytest.raises(OperatorError, match="for sample 1: Slice can't be placed out of bounds") as caught:
        run_ours(lambda fn, _, x: getattr(fn, operator)(x.gpu(), **arguments), feed, layouts=["HWC"], device_id=0)
    assert [failure.sample for failure in caught.value.failures] == failed


LOSSLESS = ("png rgb", "png gray", "bmp rgb", "tiff rgb")


def test_decoding_lossless_files(table: dict[str, float]) -> None:
    feed = [np.frombuffer(encodings()[name], np.uint8) for name in LOSSLESS]
    for output_type, tolerance in ((types.RGB, 0), (types.BGR, 0), (types.GRAY, 1)):
        (cpu,), (gpu,) = (
            run_ours(
                lambda fn, _, x, d=device, t=output_type: fn.decoders.image(x, device=d, output_type=t).cpu(),
                feed,
                device_id=0,
            )
            for device in ("cpu", "mixed")
        )
        for ours, theirs in zip(cpu.samples, gpu.samples, strict=True):
            assert ours.shape == theirs.shape
            note(table, f"decoders.image lossless {output_type.name}", difference(ours, theirs))
            assert difference(ours, theirs) <= tolerance


@pytest.mark.parametrize("operator", ["image", "image_random_crop"])
def test_decoding_jpegs(operator: str, table: dict[str, float]) -> None:
    """NVIDIA's JPEG decoder rounds differently; with interpolated chroma the mean difference stays below 1."""
    feed = [np.frombuffer(pillow(smooth(90 + 16 * n, 120 - 9 * n, seed=n), "JPEG"), np.uint8) for n in range(6)]
    (cpu,), (gpu,) = (
        run_ours(
            lambda fn, _, x, d=device: getattr(fn.decoders, operator)(x, device=d, jpeg_fancy_upsampling=True).cpu(),
            feed,
            device_id=0,
        )
        for device in ("cpu", "mixed")
    )
    for ours, theirs in zip(cpu.samples, gpu.samples, strict=True):
        assert ours.shape == theirs.shape
        note(table, f"decoders.{operator} JPEG", difference(ours, theirs))
        assert np.abs(ours.astype(int) - theirs).mean() < 1


def test_decoding_to_other_dtypes(table: dict[str, float]) -> None:
    feed = [np.frombuffer(encodings()["png rgb"], np.uint8)] * 2
    for dtype, tolerance in ((types.FLOAT, 1e-6), (types.UINT16, 0), (types.INT8, 1), (types.INT16, 1)):
        (cpu,), (gpu,) = (
            run_ours(
                lambda fn, _, x, d=device, t=dtype: fn.decoders.image(x, device=d, dtype=t).cpu(), feed, device_id=0
            )
            for device in ("cpu", "mixed")
        )
        apart = max(map(difference, cpu.samples, gpu.samples))
        note(table, f"decoders.image to {dtype.name}", apart)
        assert apart <= tolerance


def test_bad_image_is_named_and_the_next_batch_arrives() -> None:
    import pipeline
    from pipeline import fn

    good, bad = np.frombuffer(encodings()["jpeg 420"], np.uint8), np.arange(200, dtype=np.uint8)
    with pipeline.Pipeline(batch_size=3, num_threads=1, device_id=0) as pipe:
        pipe.set_outputs(fn.decoders.image(fn.external_source(name="x"), device="mixed"))
    with pytest.raises(OperatorError, match="for sample 1") as caught:
        pipe.run(x=[good, bad, good])
    assert [failure.sample for failure in caught.value.failures] == [1]
    for _ in range(5):
        (made,) = pipe.run(x=[good[None]] * 3)
    assert made.shape() == [(30, 40, 3)] * 3
    pipe.close()


def test_decoded_images_keep_while_they_are_held() -> None:
    """The decoder reuses memory, except that of images that are still referenced."""
    import pipeline
    from pipeline import fn

    feeds = [[np.frombuffer(pillow(smooth(64, 48, seed=seed), "JPEG"), np.uint8)] * 4 for seed in range(6)]
    with pipeline.Pipeline(batch_size=4, num_threads=1, device_id=0) as pipe:
        pipe.set_outputs(fn.decoders.image(fn.external_source(name="x"), device="mixed"))
    outputs = [pipe.run(x=feed)[0] for feed in feeds]
    held = [output.as_cpu().as_array() for output in outputs]
    for feed, kept in zip(feeds, held, strict=True):
        (again,) = pipe.run(x=feed)
        assert np.array_equal(again.as_cpu().as_array(), kept)
    pipe.close()


def test_shapes_of_images_on_the_gpu_are_known_on_the_cpu() -> None:
    feed = sample_images((9, 11, 3), (13, 7, 3))
    (made,) = run_ours(lambda fn, _, x: x.gpu().shape(), feed, layouts=["HWC"], device_id=0)
    assert [sample.tolist() for sample in made.samples] == [[9, 11, 3], [13, 7, 3]]


def test_files_become_batches(table: dict[str, float]) -> None:
    feed = [np.frombuffer(encodings()["png rgb"], np.uint8)] * 4

    def graph(device: str) -> Callable[..., Any]:
        def describe(fn: Any, types: Any, x: Any) -> Any:
            images = fn.decoders.image_random_crop(x, device=device, seed=5)
            images = fn.resize(images, size=[24, 24])
            mirror = fn.random.coin_flip(seed=6)
            return fn.crop_mirror_normalize(images, mirror=mirror, mean=[128.0] * 3, std=[64.0] * 3).cpu()

        return describe

    (cpu,), (gpu,) = (run_ours(graph(device), feed, device_id=0) for device in ("cpu", "mixed"))
    apart = max(map(difference, cpu.samples, gpu.samples))
    note(table, "decode, crop, resize, normalise", apart)
    assert apart <= 1 / 64 + 1e-5
