"""A short form of `make chaos`."""

from __future__ import annotations

import re

from tests.environment import ROOT, with_project
from tests.preloaded import run_python


def test_random_events_agree_with_the_model() -> None:
    run = run_python("-m", "tests.chaos", "--examples=1", "--seed=1", cwd=ROOT, env=with_project())
    assert run.returncode == 0, run.stderr[-10_000:]
    assert re.search(r"^ *\d+ batches$", run.stdout, re.MULTILINE), run.stdout
