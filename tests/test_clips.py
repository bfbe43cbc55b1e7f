"""The videos of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from tests.clips import KINDS, encode


def test_encoder_leaves_the_priority_of_the_process(tmp_path: Path) -> None:
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    encode(tmp_path / "av1.mp4", KINDS["av1.mp4"], count=2)
    assert (os.sched_getscheduler(0), os.sched_getparam(0)) == before
