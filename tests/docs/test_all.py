"""One command writes all generated files."""

from __future__ import annotations

from pathlib import Path

from docs.all import GENERATORS

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def test_all_generators_run() -> None:
    programs = {path.stem for path in DOCS.glob("*.py") if '__name__ == "__main__"' in path.read_text(encoding="utf-8")}
    assert programs == {*GENERATORS, "all", "style"}
