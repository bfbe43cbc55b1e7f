"""Parts of messages: lists of items, and suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

__all__ = ["listed", "suggestion"]


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


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: a similar name, or nothing.

    Example:
        >>> suggestion("siz", ["size", "mode"]), suggestion("x", ["size"])
        (". Did you mean 'size'?", '')
    """
    similar = difflib.get_close_matches(name, known, 1)
    return f". Did you mean {similar[0]!r}?" if similar else ""
