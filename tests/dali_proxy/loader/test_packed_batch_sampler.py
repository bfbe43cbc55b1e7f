"""`PackedBatchSampler`: full batches that cost the same on all ranks, for any number of ranks, and after a resume."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dali_proxy import PackedBatchSampler
from dali_proxy._loader.packing_plan import split_batches
from pipeline.errors import ArgumentMismatchError, ArgumentValueError

TOKENS = 4096


def drawn(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and patches of texts, of which 60 % have an image of 28 to 2,000 patches."""
    generator = np.random.default_rng(seed)
    text = np.clip(generator.lognormal(5.2, 0.9, count), 16, 2048).astype(int)
    patches = np.exp(generator.uniform(np.log(28), np.log(2000), count)).astype(int) // 4 * 4
    patches[generator.random(count) < 0.4] = 0
    return text + patches // 4, patches


LENGTHS, PATCHES = drawn(6000)


def samplers(ranks: int, state: dict[str, Any] | None = None, **options: Any) -> list[PackedBatchSampler]:
    made = [
        PackedBatchSampler(
            **{"lengths": LENGTHS, "tokens": TOKENS, "costs": PATCHES, "window": 64, **options},
            rank=rank,
            world_size=ranks,
        )
        for rank in range(ranks)
    ]
    for sampler in made:
        if state is not None:
            sampler.load_state_dict(state)
    return made


def batches(made: list[PackedBatchSampler]) -> list[tuple[int, list[int]]]:
    """Return the batches of all ranks in order, with their numbers."""
    steps = list(itertools.zip_longest(*made))
    assert all(batch for step in steps for batch in step)  # equal numbers of batches, none empty
    return [(batch.global_batch, list(batch)) for step in steps for batch in step]


def test_batches_are_full_and_cost_the_same() -> None:
    for ranks in (1, 2, 4, 8):
        balance = samplers(ranks)[0].balance()
        assert balance.padding <= 0.03
        assert max(balance.heaviest) <= 1.05
    made = batches(samplers(1))
    assert sorted(index for _, batch in made for index in batch) == list(range(len(LENGTHS)))
    assert max(LENGTHS[batch].sum() for _, batch in made) <= TOKENS
    assert len(made) == len(samplers(1)[0])


def test_batches_are_the_same_for_any_number_of_ranks() -> None:
    expected = batches(samplers(1))
    assert [number for number, _ in expected] == list(range(len(expected)))
    for ranks in (2, 4, 8):
        assert batches(samplers(ranks)) == expected


def test_epochs_and_seeds_have_other_batches() -> None:
    other = samplers(1)
    other[0].set_epoch(1)
    assert batches(other) != batches(samplers(1)) != batches(samplers(1, seed=1))
    assert batches(samplers(1, shuffle=False)) == batches(samplers(1, shuffle=False, seed=1))


@pytest.mark.parametrize("steps", [1, 8, 9, 40])
def test_resume_with_another_number_of_ranks(steps: int) -> None:
    expected = batches(samplers(1))
    stopped = samplers(8)
    for _ in zip(range(steps), stopped[0], strict=False):
        pass
    state = stopped[0].state_dict()
    for ranks in (1, 2, 3, 16):
        rest = batches(samplers(ranks, state))
        whole = len(rest) // ranks * ranks - ranks * (ranks in (3, 16))  # the last step may divide batches
        assert rest[:whole] == expected[8 * steps :][:whole]
        assert sorted(index for _, batch in rest for index in batch) == sorted(
            index for _, batch in expected[8 * steps :] for index in batch
        )


def test_finished_epoch_begins_again() -> None:
    (sampler,) = samplers(1)
    first = batches([sampler])
    assert sampler.state_dict()["position"] == 0
    assert batches([sampler]) == first


def test_functions_give_the_same_plan_as_arrays() -> None:
    calls = {"lengths": lambda index: int(LENGTHS[index]), "costs": lambda index: [int(PATCHES[index])]}
    (sampler,) = samplers(1, **calls, samples=len(LENGTHS))
    assert list(itertools.islice(sampler, 100)) == [batch for _, batch in batches(samplers(1))[:100]]
    with pytest.raises(ArgumentValueError, match="pass samples= or order="):
        samplers(1, **calls)


@pytest.mark.parametrize("lengths", [[TOKENS] * 50, [TOKENS // 2 + 1] * 50, [1] * 50, [TOKENS, 1] * 25, [5]])
def test_extreme_lengths(lengths: list[int]) -> None:
    for ranks in (1, 3, 8):
        made = batches(samplers(ranks, lengths=lengths, costs=None))
        assert all(sum(lengths[index] for index in batch) <= TOKENS for _, batch in made)
        assert {index for _, batch in made for index in batch} == set(range(len(lengths)))


def test_few_huge_samples_share_a_step() -> None:
    lengths = np.array([10] * 2000 + [1000] * 44)
    costs = lengths.astype(float) ** 2
    options: dict[str, Any] = {"costs": costs, "window": 32, "rank": 0, "world_size": 4}
    grouped = PackedBatchSampler(lengths, 1000, ranks=4, **options).balance()
    shuffled = PackedBatchSampler(lengths, 1000, ranks=1, **options).balance()
    assert grouped.heaviest[1] < 1.5 < shuffled.heaviest[1]


def test_long_sample_is_an_error_that_names_it() -> None:
    with pytest.raises(ArgumentValueError, match="sample 7 has 5000 tokens, but a batch holds 4096"):
        list(samplers(1, lengths=[1] * 7 + [5000], costs=None)[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": [1, -1]}, "aren't negative"),
        ({"lengths": [1.5, 2.0]}, "must be whole numbers"),
        ({"lengths": [[1]]}, r"lengths must be numbers of shape \(N,\)"),
        ({"costs": [1, 2]}, "there are 6000 lengths, but costs of 2 samples"),
        ({"costs": [float("nan")] * 6000}, "costs must be numbers"),
        ({"tokens": 0}, "tokens must be a whole number, 1 or more, not 0"),
        ({"tokens": 4.5}, r"tokens must be a whole number, 1 or more, not 4\.5"),
        ({"window": 0}, "window must be a whole number, 1 or more, not 0"),
    ],
)
def test_wrong_arguments_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message):
        samplers(1, **options)


def test_state_of_other_lengths_is_refused() -> None:
    state = samplers(1)[0].state_dict()
    changed = LENGTHS.copy()
    changed[0] += 1
    for options in ({"lengths": changed}, {"seed": 5}, {"tokens": 5000}, {"window": 32}):
        with pytest.raises(ArgumentMismatchError, match="so its order is different"):
            samplers(1, state, **options)


def test_batches_are_divided_where_there_are_too_few() -> None:
    whole = [np.array([1, 2, 3, 4]), np.array([5])]
    divided = split_batches(whole, 4)
    assert sorted(np.concatenate(divided).tolist()) == [1, 2, 3, 4, 5]
    assert [batch.tolist() for batch in split_batches([np.array([1])], 3)] == [[1]] * 3
