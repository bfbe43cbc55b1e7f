"""Progress bars on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Item = TypeVar("_Item")


def progress(items: Iterable[_Item], unit: str, total: int | None = None) -> Iterable[_Item]:
    """Yield items, and show how many are done.

    Args:
        items: the items.
        unit: the word for them, in the plural.
        total: number of items, if they have no length.
    """
    from tqdm import tqdm

    bar: Iterable[_Item] = tqdm(items, unit=f" {unit}", total=total, leave=False, disable=None)
    return bar
