"""The benchmark of the cache: our policy finds what fits, and all contestants run."""

from __future__ import annotations

import pytest

from benchmarks.cache import files
from benchmarks.cache.epochs import PIPELINES, measure_epochs
from benchmarks.cache.misses import measure_misses
from benchmarks.cache.policies import POLICIES, hit_rate


def test_our_policy_finds_the_share_that_fits_and_others_find_less() -> None:
    rates = {name: hit_rate(policy, 0.5, values=300, epochs=5) for name, policy in POLICIES.items()}
    assert rates.pop("keep") == pytest.approx(0.5, abs=0.03)
    assert max(rates.values()) < 0.4


@pytest.mark.parametrize("name", PIPELINES)
def test_epochs_are_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(files.KINDS, "small", ((256, 300), ".jpg", []))
    monkeypatch.setattr("benchmarks.cache.epochs._AGE", 0)
    figures = measure_epochs("small", name, 4, 1)
    assert figures["bytes in the cache"] > 256 * 256 * 3
    assert min(figures["microseconds"].values()) > 0


@pytest.mark.parametrize("name", ["whole", "resized"])
def test_misses_are_misses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(files.KINDS, "small", ((256, 300), ".jpg", []))
    figures = measure_misses("small", name, 4, 1, batch=6)
    assert figures["misses"] == figures["values"] == 6 * 6
    assert min(figures["microseconds"]) > 0
