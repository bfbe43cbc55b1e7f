"""Advice from measurements of a user's own pipeline; tests/dali_proxy/cli/test_page.py measures one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dali_proxy._benchmark import Configuration, Report, Result, recommend
from dali_proxy._benchmark import advice as advice_module
from pipeline import Pipeline, fn


def doubling() -> Pipeline:
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x") * 2)
    return pipe


class Rates:
    """A bench whose rates depend on the configuration only."""

    pipeline = doubling()
    plain_work = "nothing"

    def __init__(self, limited_by: str = "pipeline") -> None:
        self.limited_by = limited_by

    def measure(self, configuration: Configuration) -> Result:
        rate = 100.0 * min(configuration.workers, 2) * min(configuration.threads, 3)
        return Result(configuration, rate, 2.0, self.limited_by, {"fn.resize": 0.75})

    def measure_torch(self, workers: int) -> Result:
        return Result(Configuration(workers), 150.0, 5.0)


def report_of(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setattr(advice_module, "allowed_cores", lambda: range(8))
    *steps, report = recommend(bench, threads=[1, 3, 8], rounds=2)
    assert all(isinstance(step, str) for step in steps)
    assert isinstance(report, Report)
    return report


def test_smallest_of_the_fastest_configurations_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(Rates(), monkeypatch)
    assert report.ours[0].configuration == Configuration(2, 3)
    assert (report.speedup, report.cpu_ratio) == (4.0, 2.5)
    assert report.advice[0] == "Use num_workers=2, num_threads=3."
    assert "fn.resize takes 75%" in report.advice[-1]


def test_slow_dataset_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "The dataset workers limit the speed" in report_of(Rates("workers"), monkeypatch).advice[-1]


def test_measurements_that_differ_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loaded(Rates):
        measured = 0

        def measure(self, configuration: Configuration) -> Result:
            self.measured += 1
            result = super().measure(configuration)
            return replace(result, rate=result.rate / (1 + self.measured % 2), others="The machine is overloaded.")

    advice = report_of(Loaded(), monkeypatch).advice[-1]
    assert "differ, from 300 to 600 samples/s. The machine is overloaded. Measure again" in advice
