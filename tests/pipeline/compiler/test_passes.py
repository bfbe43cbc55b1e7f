"""Passes of the compiler: fewer calls on the host, the same bits. Without a GPU, see `tests.host_cupy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.rules import equal_operators
from dali_proxy.pipeline._compiler.rules.equal_operators import EqualOperators
from dali_proxy.pipeline._compiler.rules.tabulated_operators import TabulatedOperators
from dali_proxy.pipeline._compiler.steps.step import OperatorStep, PixelStep
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.launch import Launch
from dali_proxy.pipeline._cuda.packed_launches import PackedLaunches
from dali_proxy.pipeline._executor import executor
from dali_proxy.pipeline._graph.selecting import select
from dali_proxy.pipeline._operators.arrays import copy_to_device
from dali_proxy.pipeline._operators.arrays.constant import ConstantCpu, ConstantGpu
from dali_proxy.pipeline._operators.arrays.table_row import TableRow
from dali_proxy.pipeline._strict import STRICT
from pipeline import Pipeline, fn
from pipeline.auto_aug import augmentations, trivial_augment
from pipeline.auto_aug.core.magnitudes import take
from pipeline.errors import OperatorError, PipelineError

IMAGES = [np.random.default_rng(index).integers(0, 256, (20 + index, 31, 3), np.uint8) for index in range(9)]
MIRRORED = {"mean": [120.0], "std": [60.0], "output_layout": "CHW"}
Arrays = list[np.ndarray[Any, Any]]


def run(describe: Callable[[Any], Any], *, batches: int = 1, device_id: int | None = 0) -> Arrays:
    pipe = Pipeline(batch_size=len(IMAGES), num_threads=1, device_id=device_id, seed=3)
    with pipe:
        source = fn.external_source(name="images", layout="HWC")
        outputs = describe(source if device_id is None else source.gpu())
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    try:
        results = [output for _ in range(batches) for output in pipe.run(images=IMAGES)]
        return [np.array(sample) for output in results for sample in output.as_cpu()]
    finally:
        pipe.close()


def assert_same(some: Arrays, others: Arrays) -> None:
    for index, (one, other) in enumerate(zip(some, others, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"sample {index}", strict=True)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    run = KernelContext.run

    def record(context: KernelContext, launch: Launch, stream: Any) -> None:
        names.append(launch.kernel)
        run(context, launch, stream)

    monkeypatch.setattr(KernelContext, "run", record)
    repeat = KernelContext.repeat

    def record_all(context: KernelContext, packed: PackedLaunches, *arguments: Any) -> None:
        names.extend(launch.kernel for launch in packed.launches)
        repeat(context, packed, *arguments)

    monkeypatch.setattr(KernelContext, "repeat", record_all)
    return names


def view(images: Any) -> Any:
    images = fn.random_resized_crop(images, size=(16, 12))
    images = fn.color_twist(images, hue=fn.random.uniform(range=(-20, 20)))
    images = fn.gaussian_blur(images, sigma=fn.random.uniform(range=(0.3, 0.9)))
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), **MIRRORED)


def test_views_are_computed_by_the_same_launches(device: str, launched: list[str]) -> None:
    run(view)
    once = len(launched)
    run(lambda images: tuple(view(images) for _ in range(3)))
    assert len(launched) == 2 * once > 0


def rotated_branches(images: Any) -> Any:
    chosen = fn.random.uniform(values=[0.0, 1.0, 2.0], seed=4)
    angle = fn.random.uniform(range=(-30, 30))
    rotated = [lambda more=more: fn.rotate(images, angle=angle + more, keep_size=True) for more in (0.0, 90.0)]
    return select(chosen, [lambda: images, *rotated])


def enhanced_branches(images: Any) -> Any:
    names = ("equalize", "contrast", "auto_contrast", "posterize", "rotate")
    images, chosen = (
        fn.resize(images, size=(21, 18)),
        fn.random.uniform(values=[float(number) for number in range(len(names))], seed=4),
    )
    options = {"magnitude_bin": 3, "num_magnitude_bins": 5}
    branches = [lambda name=name: getattr(augmentations, name)(images, **options) for name in names]
    return fn.crop_mirror_normalize(select(chosen, branches), **MIRRORED)


def randomly_augmented(images: Any) -> Any:
    images = fn.resize(images, size=(21, 18))
    for seed in (1, 2):
        images = trivial_augment.trivial_augment_wide(images, shape=(21, 18), seed=seed)
    return fn.crop_mirror_normalize(images, **MIRRORED)


@pytest.mark.parametrize("describe", [rotated_branches, enhanced_branches, randomly_augmented])
def test_branches_have_the_bits_of_separate_operators(
    device: str, describe: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = run(describe)
    monkeypatch.setattr(TabulatedOperators, "run_as_one", lambda *_: False)
    assert_same(together, run(describe))
    monkeypatch.setattr(EqualOperators, "run_as_one", lambda *_: False)
    assert_same(together, run(describe))
    monkeypatch.setattr(PixelStep, "_run", OperatorStep._run)
    assert_same(together, run(describe))


def turned_branches(images: Any, index: Any) -> Any:
    """Rotate samples with the index 0 by one of two angles, and the others by one of four."""
    images = fn.resize(images, size=(21, 18))
    tables = [np.float32(table) for table in ([10, 20], [30, 40, 50, 60])]
    turned = [lambda table=table: fn.rotate(images, angle=take(table, index), keep_size=True) for table in tables]
    return select(index != 0, turned)


def indices(*values: int) -> Any:
    return fn.external_source(source=lambda _: np.int32(values), batch=True)


def test_rows_of_tables_are_expressed_for_all_branches(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    run_row = TableRow.run

    def noted(operator: TableRow, batch: Any, inputs: Any) -> Any:
        ran.append(batch.size)
        return run_row(operator, batch, inputs)

    monkeypatch.setattr(TableRow, "run", noted)
    together = run(lambda images: turned_branches(images, indices(0, 1, 3, 0, 2, 2, 0, 0, 1)), batches=3)
    assert not ran
    monkeypatch.setattr(TabulatedOperators, "run_as_one", lambda *_: False)
    apart = run(lambda images: turned_branches(images, indices(0, 1, 3, 0, 2, 2, 0, 0, 1)), batches=3)
    assert ran == [4, 5] * 3
    assert_same(together, apart)


def test_row_that_no_sample_takes_may_be_invalid(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def define(images: Any) -> Any:
        index, images = indices(0, 1, 0, 1, 0, 1, 0, 1, 0), fn.resize(images, size=(9, 8))
        sizes = [np.int32(table) for table in ([[3, 3], [5, 5], [4, 4]], [[3, 5], [5, 3], [7, 7]])]  # 4 is refused
        blurred = [
            lambda table=table: fn.experimental.median_blur(images, window_size=take(table, index)) for table in sizes
        ]
        return select(index, blurred)

    together = run(define, batches=3)
    monkeypatch.setattr(TabulatedOperators, "run_as_one", lambda *_: False)
    assert_same(together, run(define, batches=3))


def test_equal_operators_may_have_arguments_of_different_shapes(device: str) -> None:
    def define(images: Any) -> Any:
        sizes = [fn.external_source(source=lambda _, n=n: [np.full(n, 3, np.int32)] * 9) for n in (2, 2, 1)]
        return tuple(fn.experimental.median_blur(images, window_size=size) for size in sizes)

    outputs = run(define, batches=2)
    for number in range(len(IMAGES)):
        np.testing.assert_array_equal(outputs[number], outputs[number + 2 * len(IMAGES)])


def test_index_outside_of_a_table_is_an_error_of_its_branch(device: str) -> None:
    with pytest.raises(OperatorError, match=r"\[1, 4, 2\] must be between 0 and 3"):
        run(lambda images: turned_branches(images, indices(0, 1, 4, 0, 2, 0, 0, 0, 0)))


def test_branches_with_histograms_count_together(device: str, launched: list[str]) -> None:
    run(enhanced_branches)
    assert launched.count("count_values") == launched.count("make_tables") == 1


def test_error_of_equal_operators_names_the_one_that_failed(device: str) -> None:
    def describe(images: Any) -> Any:
        heights = [fn.external_source(source=lambda _, h=height: [np.int32([h, 4])] * 9) for height in (5, 90)]
        return tuple(
            fn.slice(images, start=[0, 0], shape=height, axes=[0, 1], name=f"to {n}")
            for n, height in enumerate(heights)
        )

    with pytest.raises(OperatorError, match=r"name='to 1'.* for sample 0") as raised:
        run(describe)
    assert [failure.sample for failure in raised.value.failures] == list(range(9))


def test_numbers_and_constants_for_the_gpu_are_created_there(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(images: Any) -> Any:
        numbers = fn.random.uniform(range=(-1.0, 1.0), shape=16, seed=2)
        others = [
            fn.random.normal(shape=7, seed=3),
            fn.random.coin_flip(shape=3, seed=4),
            fn.random.uniform(values=[1.0, 5.0], shape=9, seed=6),
        ]
        if images.device == "gpu":
            numbers, *others = [each.gpu() for each in (numbers, *others)]
        return numbers * 2 + 1, *others, fn.random.coin_flip(seed=5), images

    expected, copied, upload = run(describe, device_id=None), [], copy_to_device.upload
    monkeypatch.setattr(copy_to_device, "upload", lambda *a: (copied.append(a[1].layout()), upload(*a))[1])
    assert_same(run(describe), expected)
    assert copied == ["HWC"]


def test_constants_are_computed_once(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    for kind in (ConstantCpu, ConstantGpu):
        once = kind.run
        monkeypatch.setattr(kind, "run", lambda *a, once=once: (computed.append(a[0].node.device), once(*a))[1])
    run(
        lambda images: (images * 2, fn.crop(images, crop=fn.cast(fn.random.coin_flip() + 3, dtype=6) * [1, 1])),
        batches=3,
    )
    assert sorted(computed) == ["cpu", "cpu", "gpu"]


def test_rows_of_tables_have_the_bits_of_their_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(images: Any) -> Any:
        return trivial_augment.trivial_augment_wide(images, shape=(20, 31))

    folded = run(describe, device_id=None)
    monkeypatch.setattr(executor, "folded_tables", lambda graph: graph)
    assert_same(folded, run(describe, device_id=None))


def test_functions_of_rows_of_tables_are_not_computed_for_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipeline(batch_size=4, num_threads=1, device_id=None, seed=3)
    with pipe:
        images = fn.external_source(name="images", layout="HWC")
        pipe.set_outputs(trivial_augment.trivial_augment_wide(images, shape=(20, 31)))
    pipe.build()
    try:
        nodes = pipe._internals.runner.executor.graph.nodes
    finally:
        pipe.close()
    assert not any(node.operator.startswith("transforms.") for node in nodes)


def failing_group(*_: Any) -> Any:
    raise ValueError("the fast path is wrong")


def test_fast_path_that_fails_is_an_error_in_tests(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_operators, "StackedBatch", failing_group)
    with pytest.raises(PipelineError, match="equal operators failed, although its operators succeed one by one"):
        run(rotated_branches, batches=3)


def test_fast_path_that_fails_is_logged_once_for_users(
    device: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    together = run(rotated_branches, batches=3)
    monkeypatch.setattr(equal_operators, "StackedBatch", failing_group)
    monkeypatch.delenv(STRICT)
    assert_same(together, run(rotated_branches, batches=3))
    (record,) = [each for each in caplog.records if "equal operators failed" in each.message]
    assert "the fast path is wrong" in str(record.exc_info)


def test_error_of_an_operator_in_a_fast_path_is_its_own(device: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(OperatorError, match="must be between 0 and 3"):
        run(lambda images: turned_branches(images, indices(0, 1, 4, 0, 2, 2, 0, 0, 1)), batches=3)
    assert not caplog.records
