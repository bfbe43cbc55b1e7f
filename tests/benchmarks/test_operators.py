"""Comparison of operators with DALI's: one that fails, hangs or dies is reported, and the others continue."""

from __future__ import annotations

import json
import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.operators import child, data, libraries, session
from benchmarks.operators.__main__ import main, merged
from benchmarks.operators.cases import Case
from benchmarks.operators.session import OURS, Result, measure_all
from benchmarks.operators.side import Timing

SHAPES = Case("shapes", ("labels",))


def die(sample: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.timeout(180)
def test_case_that_fails_or_kills_its_process_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "has_dali", lambda: False)
    monkeypatch.setattr(child, "PATIENCE", 120.0)  # nothing hangs, but the machine may be busy
    cases = [
        Case("nothing"),
        SHAPES,
        Case("python_function", ("labels",), {"function": die}),
        Case("one_hot", ("labels",), {"num_classes": 100}),
    ]
    options = Namespace(rounds=2, seconds=0.001, threads=1, limit=1000.0)
    results = list(measure_all(cases, tmp_path, options, on_gpu=False))
    assert "nothing" in results[0].failures[OURS]
    assert results[2].failures == {OURS: "the process died"}
    for result in (results[1], results[3]):
        assert not result.failures
        assert [timing.batches >= 1 and timing.seconds > 0 for timing in result.rounds[OURS]] == [True, True]
        assert not result.speeds


def test_cases_are_not_begun_when_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "has_dali", lambda: False)
    (result,) = measure_all([SHAPES], tmp_path, Namespace(threads=1, limit=-1.0), on_gpu=False)
    assert result.failures == {OURS: "the time was over"}


def test_ratios_are_of_the_same_round() -> None:
    ours, theirs = session.SIDES
    result = Result(
        SHAPES, {ours: [Timing(10, 1.0, 2.0), Timing(1, 0.2, 0.1)], theirs: [Timing(10, 3.0, 1.0), Timing(2, 0.2, 0.4)]}
    )
    assert result.speeds == pytest.approx([3.0, 0.5])
    assert result.thrift == pytest.approx([0.5, 2.0])
    assert result.milliseconds(ours) == pytest.approx(150)


def test_selected_operators_replace_only_their_figures() -> None:
    one, two, other = ({"operator": name, "variant": "", "speed": 1} for name in ("a", "b", "c"))
    earlier = {"command": "all", "operators": [one, two]}
    made = merged(earlier, {"command": "some", "operators": [{**two, "speed": 2}, other]})
    assert made == {"command": "all; some", "operators": [one, {**two, "speed": 2}, other]}


def test_data_comes_in_batches(tmp_path: Path) -> None:
    data.write_files(tmp_path)
    for name in sorted(
        data.NAMES - {"images", "thumbnails", "greys", "ragged", "clips"}
    ):  # like time stamps, and larger
        batch = data.make(name, tmp_path)
        assert len(batch) == data.BATCH
        assert len({(array.dtype, array.ndim) for array in batch}) == 1


@pytest.mark.parity
@pytest.mark.timeout(180)
def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nvidia.dali")
    words = ["--only", "one_hot,readers.sequence", "--rounds", "1", "--seconds", "0.01", "--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["", *words])
    assert main() == 0
    (saved,) = tmp_path.glob("*-operators.json")
    assert str(tmp_path) not in saved.read_text()
    document = json.loads(saved.read_text())
    assert [one["operator"] for one in document["operators"]] == ["one_hot", "readers.sequence"]
    for one in document["operators"]:
        assert "failures" not in one
        assert set(one["milliseconds"]) == {"dali-proxy", "nvidia-dali"}
        assert one["speed_range"][0] <= one["speed"] <= one["speed_range"][1]


def test_library_is_compared_and_one_with_other_results_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "has_dali", lambda: False)
    monkeypatch.setitem(libraries.EQUIVALENTS["one_hot"], "other", lambda call: np.ones((len(call.data), 100)))
    result = libraries.compare(Case("one_hot", ("tokens",), {"num_classes": 100}), tmp_path, 2, 0.001)
    assert result.best() == "torch"
    assert result.differences["torch"] == 0
    assert result.speed() > 0
    assert "differ" in result.failures["other"]
    assert len(result.milliseconds[OURS]) == 2
    assert "torch" in result.line()


def test_derived_data_has_another_layout_and_dtype(tmp_path: Path) -> None:
    planes = data.make("stamps.CHW.float32", tmp_path, 2)
    assert [each.shape for each in planes] == [(3, 120, 160)] * 2
    assert planes[0].dtype == np.float32
    assert (planes[1][2] == data.make("stamps", tmp_path)[1][..., 2]).all()
    assert data.layout_of("stamps.CHW.float32") == "CHW"
    assert data.layout_of("stamps.int16") == "HWC"
    assert data.layout_of("tokens") is None
