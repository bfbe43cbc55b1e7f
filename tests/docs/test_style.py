"""Warnings about style are found, and don't fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs import style


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("# Data that is no image is refused.", 1),
        ("There is no image, and the server is no longer alive.", 0),
        ("The thread is told; nobody waits.", 2),
        ("a module of NVIDIA's, or one of NVIDIA's modules", 1),
        ("open GOPs (groups of pictures), `picture`, --picture and {picture}", 0),
    ],
)
def test_expressions_are_found_in_prose(line: str, count: int) -> None:
    assert len(style.expressions(line)) == count


def test_command_prints_the_sentence_and_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "test_crop.py"
    file.write_text("# Perhaps this is a crop.\n\n\ndef test_the_crop_is_one():\n    pass\n")
    command = [sys.executable, "-m", "docs.style", str(file)]
    run = subprocess.run(command, cwd=style.ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        f"{file}:1: 'Perhaps' (better: possibly, may)",
        "    # Perhaps this is a crop.",
        f"{file}:4: test_the_crop_is_one: name the subject first, as in test_crop_outside_is_an_error",
        "2 warnings about style, which don't stop a change.",
    ]


def test_modules_that_are_too_long_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "MOST_LINES", 3)
    found = list(style.warnings_about(style.ROOT / "pipeline" / "__init__.py"))
    assert any("which second noun" in warning for warning in found)
