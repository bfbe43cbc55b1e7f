"""The table of transforms in docs/torchvision.md."""

from __future__ import annotations

from docs import torchvision as page
from pipeline import torchvision


def test_table_is_current_and_has_all_transforms() -> None:
    others = {"AutoAugmentPolicy", "InterpolationMode", "functional"}
    assert page.DIFFERENCES.keys() == set(torchvision.__all__) - others
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.with_table(text), "run `python -m docs.all`"
