"""One command writes all generated files."""

from __future__ import annotations

import re
from pathlib import Path

from docs.all import GENERATORS

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def test_all_generators_run() -> None:
    programs = {path.stem for path in DOCS.glob("*.py") if '__name__ == "__main__"' in path.read_text(encoding="utf-8")}
    assert programs == {*GENERATORS, "all", "style"}


def test_tests_name_this_command() -> None:
    """A test of a file that isn't current says how to write it again."""
    found = {
        (path.name, command)
        for path in DOCS.parent.joinpath("tests").rglob("*.py")
        for command in re.findall(r"run `python -m (docs\.\w+)", path.read_text(encoding="utf-8"))
    }
    assert found
    assert {command for _, command in found} == {"docs.all"}, found
