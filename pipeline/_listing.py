"""Lists of items in messages: the first items and the number of others."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["listed"]


def listed(items: Collection[object], most: int = 8, separator: str = ", ") -> str:
    """Return the first items as text, and the number of others.

    Args:
        items: items to list.
        most: largest number of items in the text.
        separator: text between items.

    Example:
        >>> listed(range(3)), listed(range(64), most=4)
        ('0, 1, 2', '0, 1, 2, 3 and 60 more')
    """
    named = separator.join(str(item) for item, _ in zip(items, range(most), strict=False))
    return named if len(items) <= most else f"{named} and {len(items) - most} more"
