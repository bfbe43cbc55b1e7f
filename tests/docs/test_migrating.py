"""The table of differences for users of NVIDIA DALI."""

from __future__ import annotations

from docs import migrating


def test_page_has_the_current_table() -> None:
    text = migrating.PAGE.read_text()
    assert "| subject |" in text
    assert migrating.with_table(text) == text, "run `python -m docs.all`"
