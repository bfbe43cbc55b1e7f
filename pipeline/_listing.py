"""Lists of things in messages: a few of them, and how many more there are."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["listed"]


def listed(items: Collection[object], most: int = 8, separator: str = ", ") -> str:
    """Name the first items, and count the others.

    Args:
        items: what there is.
        most: how many of them are named.
        separator: stands between them.

    Example:
        >>> listed(range(3)), listed(range(64), most=4)
        ('0, 1, 2', '0, 1, 2, 3 and 60 more')
    """
    named = separator.join(str(item) for item, _ in zip(items, range(most), strict=False))
    return named if len(items) <= most else f"{named} and {len(items) - most} more"
