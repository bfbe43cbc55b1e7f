"""The benchmarks end a rival that misbehaves, and report its error."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from benchmarks.child import Child, RivalError
from benchmarks.workload import Setup
from tests.benchmarks.broken_rivals import Hanging, Raising, Shuffling


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup("arrays-60KB", tmp_path, batch_size=4)


def test_rival_that_hangs_is_ended_with_all_it_started(setup: Setup) -> None:
    with Child(Hanging(), setup, grace=2) as child:
        with pytest.raises(RivalError, match="hanging gave no answer in 2 s"):
            child.check()
        child.grace = 0.1
    # multiprocessing's resource tracker stays; the process that the rival started must not.
    left = [process.cmdline() for process in psutil.Process().children(recursive=True)]
    assert not [words for words in left if "time.sleep(600)" in " ".join(words)]


def test_rival_reports_its_exception(setup: Setup) -> None:
    with Child(Raising(), setup) as child:
        child.check()
        with pytest.raises(RivalError, match="the disk is gone"):
            child.measure(0.1)


def test_wrong_batches_are_found_before_anything_is_timed(setup: Setup) -> None:
    with Child(Shuffling(), setup) as child, pytest.raises(RivalError, match="arrived changed"):
        child.check()
