"""The drawings of the concepts."""

from __future__ import annotations

from docs.drawings import DRAWINGS, FOLDER


def test_drawings_are_current() -> None:
    """`python -m docs.drawings` wrote the files in docs/figures."""
    for name, draw in DRAWINGS.items():
        assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == draw().svg(), "run `python -m docs.all`"
