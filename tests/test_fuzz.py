"""`make fuzz` finds files that a parser neither reads nor refuses. Short searches with the parsers of this project."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from pipeline.errors import DecodeError
from tests.environment import with_project
from tests.preloaded import run_python

parsers = pytest.importorskip("tests.fuzz.parsers")  # these need optional packages
search = pytest.importorskip("tests.fuzz.search")


def read_badly(path: Path) -> None:
    content = path.read_bytes()
    if len(content) > 400:
        os.abort()
    if len(content) > 40:
        raise KeyError(len(content))
    if len(content) < 40:
        raise DecodeError("too short")
    if content != bytes(40):
        signal.pause()


def test_search_finds_wrong_errors_crashes_and_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ANSWER_S", 0.5)
    monkeypatch.setattr(search, "CASES", 20)
    write = lambda folder: (folder / "file").write_bytes(bytes(40))  # noqa: E731
    monkeypatch.setitem(parsers.PARSERS, "bad", parsers.Parser(write, read_badly, single=True))
    findings = search.search("bad", 1, 60, cases=30)
    kinds = {kind.partition(" ")[0] for kind in findings.faults}
    assert kinds == {"KeyError", "crash,", "hang"}
    assert findings.counts["refused"] > 0
    assert findings.counts.total() == 30


def test_parsers_read_or_refuse_damaged_files(tmp_path: Path) -> None:
    """The search forks, so it needs a process without threads."""
    words = ["-m", "tests.fuzz", "--seed", "1", "--cases", "8", "--only"]
    names = ["image", "npy", "tfrecord", "saved coco", "pipeline"]
    run = run_python(*words, *names, cwd=tmp_path, env=with_project())
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(re.findall(r"\b8\b", run.stdout)) >= len(names), run.stdout
