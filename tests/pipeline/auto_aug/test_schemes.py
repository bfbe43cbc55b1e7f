"""AutoAugment, RandAugment and TrivialAugment: frequencies of operations, errors, and the text of policies."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn
from pipeline.auto_aug import augmentations as a
from pipeline.auto_aug import auto_augment, core, rand_augment, trivial_augment
from pipeline.errors import ArgumentValueError, PipelineError, UnknownArgumentError
from tests.pipeline.imaging.images import smooth

BATCH = 1000


def _marks(count: int) -> list[core.Augmentation]:
    """Return operations on 0-d samples that append a digit for the operation and its magnitude."""

    def mark(number: int) -> core.Augmentation:
        def op(data: Any, parameter: Any) -> Any:
            return data * 1000 + (parameter + 20 + 100 * number)

        return core.augmentation(
            op,
            mag_range=(0, 4),
            randomly_negate=number == 0,
            mag_to_param=lambda magnitude: np.array(magnitude, np.int32),
            name=f"mark{number}",
        )

    return [mark(number) for number in range(count)]


def _numbers(describe: Any, runs: int = 4, seed: int = 5, batch_size: int = BATCH) -> np.ndarray:
    pipe = Pipeline(batch_size=batch_size, num_threads=1, device_id=None, seed=seed)
    with pipe:
        pipe.set_outputs(describe(fn.external_source(name="x")))
    try:
        feed = np.zeros(batch_size, np.int32)
        return np.concatenate([pipe.run(x=feed)[0].as_array() for _ in range(runs)])
    finally:
        pipe.close()


def _chi_squared(found: Counter[Any], expected: dict[Any, float]) -> float:
    """Return the chi-squared statistic, divided by its degrees of freedom."""
    total = sum(found.values())
    assert set(found) <= set(expected)
    return sum((found[key] - total * p) ** 2 / (total * p) for key, p in expected.items()) / (len(expected) - 1)


def test_trivial_augment_draws_operations_magnitudes_and_signs_uniformly() -> None:
    made = _numbers(lambda x: trivial_augment.apply_trivial_augment(_marks(3), x, num_magnitude_bins=5))
    expected = {100 * number + 20 + bin_: 1 / 15 for number in (1, 2) for bin_ in range(5)}
    expected |= {20 + sign * bin_: 1 / 30 for bin_ in range(1, 5) for sign in (1, -1)} | {20: 1 / 15}
    assert _chi_squared(Counter(made.tolist()), expected) < 2.5  # 18 degrees of freedom: p = 0.0004


def test_rand_augment_draws_each_operation_independently() -> None:
    made = _numbers(lambda x: rand_augment.apply_rand_augment(_marks(3), x, n=2, m=3, num_magnitude_bins=5))
    single = {23: 1 / 6, 17: 1 / 6, 123: 1 / 3, 223: 1 / 3}
    expected = {1000 * first + second: p * q for first, p in single.items() for second, q in single.items()}
    assert _chi_squared(Counter(made.tolist()), expected) < 2.6  # 15 degrees of freedom: p = 0.0006


@pytest.mark.parametrize("seed", [None, 11])
def test_auto_augment_follows_the_policy(seed: int | None) -> None:
    first, second, third = _marks(3)
    policy = core.Policy(
        "test", 5, [[(second, 0.25, 1), (third, 1.0, 2)], [(third, 0.5, 4)], [(first, 1.0, 3), (second, 0.5, 0)]]
    )
    made = _numbers(lambda x: auto_augment.apply_auto_augment(policy, x, seed=seed))
    expected = {222: 0.75 / 3, 121222: 0.25 / 3, 224: 0.5 / 3, 0: 0.5 / 3}
    expected |= dict.fromkeys((23, 17, 23120, 17120), 0.25 / 3)
    assert _chi_squared(Counter(made.tolist()), expected) < 3.4  # 7 degrees of freedom: p = 0.0013


def test_seed_repeats_and_does_not_depend_on_the_pipelines() -> None:
    def describe(x: Any) -> Any:
        return rand_augment.apply_rand_augment(_marks(3), x, 2, 1, 5, seed=3)

    first, second = (_numbers(describe, runs=2, seed=seed, batch_size=50) for seed in (1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first[:50], first[50:])


def _printed(text: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(text))


@pytest.mark.parity
@pytest.mark.parametrize("use_shape", [False, True])
def test_policies_and_suites_print_as_those_of_dali(use_shape: bool) -> None:
    theirs = pytest.importorskip("nvidia.dali.auto_aug")
    from nvidia.dali.auto_aug import auto_augment as their_auto
    from nvidia.dali.auto_aug import rand_augment as their_rand
    from nvidia.dali.auto_aug import trivial_augment as their_trivial

    assert theirs is not None
    for ours, other, names in (
        (auto_augment, their_auto, ("get_image_net_policy", "get_reduced_cifar10_policy", "get_svhn_policy")),
        (rand_augment, their_rand, ("get_rand_augment_suite", "get_rand_augment_non_monotonic_suite")),
        (trivial_augment, their_trivial, ("get_trivial_augment_wide_suite",)),
    ):
        for name in names:
            assert _printed(getattr(ours, name)(use_shape)) == _printed(getattr(other, name)(use_shape)), name
            limits = {"max_translate_rel": (0.25, 0.5)} if use_shape else {"max_translate_abs": (10, 20)}
            assert _printed(getattr(ours, name)(use_shape, **limits)) == _printed(
                getattr(other, name)(use_shape, **limits)
            )
    assert _printed(auto_augment.get_reduced_image_net_policy()) == _printed(their_auto.get_reduced_image_net_policy())
    for bad in ({"max_translate_abs": 3} if use_shape else {"max_translate_rel": 0.3},):
        with pytest.raises(ArgumentValueError, match="can't be used with"):
            auto_augment.get_image_net_policy(use_shape, **bad)


def test_augmentations_that_share_a_name_are_distinguished() -> None:
    more = a.rotate.augmentation(mag_range=(0, 60))
    policy = core.Policy("x", 11, [[(a.rotate, 0.5, 3), (more, 1, 3)], [(a.identity, 0.5, None)]])
    assert list(policy.augmentations) == ["0__rotate", "1__rotate", "identity"]
    assert policy.augmentations["1__rotate"].mag_range == (0, 60)


@pytest.mark.parametrize(
    ("sub_policy", "match"),
    [
        ([(a.rotate, 1.5, 3)], "must be between 0 and 1"),
        ([(a.rotate, 0.5, 11)], "from 0 to 10, not 11"),
        ([(a.rotate, 0.5, None)], "must choose one"),
        ([(a.rotate, 0.5)], r"must be \(augmentation"),
        ([("rotate", 0.5, 3)], "isn't an augmentation"),
        ("rotate", "list or tuple"),
    ],
)
def test_invalid_policies_are_refused(sub_policy: Any, match: str) -> None:
    with pytest.raises(ArgumentValueError, match=match):
        core.Policy("x", 11, [sub_policy])


@pytest.mark.parametrize(
    ("describe", "match"),
    [
        (lambda x: rand_augment.rand_augment(x, 2, 31), "from 0 to 30, not 31"),
        (lambda x: rand_augment.rand_augment(x, -1, 3), "0 or more"),
        (lambda x: rand_augment.rand_augment(x, 2, 3, excluded=["zoom"]), "'zoom' is in `excluded`"),
        (lambda x: rand_augment.apply_rand_augment([], x, 2, 3), "empty"),
        (lambda x: rand_augment.apply_rand_augment([a.rotate], x, 2, 3, zoom=3), "'zoom'"),
        (lambda x: trivial_augment.trivial_augment_wide(x, 0), "positive integer"),
        (lambda x: auto_augment.auto_augment(x, "imagenet"), "must be one of 'image_net'"),
        (lambda x: auto_augment.auto_augment(x, "reduced_image_net", shape=(3, 4)), "no translations"),
    ],
)
def test_arguments_are_checked(describe: Any, match: str) -> None:
    with pytest.raises((ArgumentValueError, UnknownArgumentError), match=match):
        describe(fn.external_source(name="x"))


@pytest.mark.parametrize("scheme", ["rand", "shaped", "wide", "auto", "svhn"])
def test_schemes_run_on_images_and_change_most(scheme: str) -> None:
    def describe(x: Any) -> Any:
        if scheme == "rand":
            return rand_augment.rand_augment(x, 2, 20, monotonic_mag=False, excluded=["identity"])
        if scheme == "shaped":
            return rand_augment.rand_augment(x, 1, 9, shape=x.shape())
        if scheme == "wide":
            return trivial_augment.trivial_augment_wide(x, shape=(20, 30))
        return auto_augment.auto_augment(x, "image_net" if scheme == "auto" else "svhn")

    feed = [smooth(20 + number, 30, seed=number) for number in range(16)]
    pipe = Pipeline(batch_size=16, num_threads=2, device_id=None, seed=3)
    with pipe:
        x = fn.external_source(name="x", layout="HWC")
        pipe.set_outputs(describe(x), fn.flip(describe(x)))
    made, flipped = pipe.run(x=feed)
    pipe.close()
    assert made.layout() == flipped.layout() == "HWC"
    assert made.shape() == [image.shape for image in feed]
    changed = [not np.array_equal(made.at(number), image) for number, image in enumerate(feed)]
    assert sum(changed) > 8


def test_operations_that_were_not_drawn_do_not_run() -> None:
    """A sample runs its own operation only, even if another operation would fail for it."""

    def describe(x: Any, which: Any) -> Any:
        ops = [lambda data: fn.crop(data, crop=(20, 20)), lambda data: fn.crop(data, crop=(4, 4))]
        return core.select(ops, which, x)

    pipe = Pipeline(batch_size=3, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(describe(fn.external_source(name="x", layout="HWC"), fn.external_source(name="which")))
    feed = [smooth(9, 9), smooth(30, 30), smooth(9, 9)]
    (made,) = pipe.run(x=feed, which=np.array([1, 0, 1], np.int32))
    assert made.shape() == [(4, 4, 3), (20, 20, 3), (4, 4, 3)]
    with pytest.raises(PipelineError, match="sample 2"):
        pipe.run(x=feed, which=np.array([1, 0, 0], np.int32))
    pipe.close()
