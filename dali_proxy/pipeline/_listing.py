"""Parts of messages: lists of items, and suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message, a question with similar names; empty if there are none.

    Args:
        name: the wrong name.
        known: the right names. Of names with dots, the last part may be similar, or equal.

    Example:
        >>> did_you_mean("resizee", ["crop", "resize"])
        ". Did you mean 'resize'?"
        >>> did_you_mean("uniform", ["random.uniform"])
        ". Did you mean 'random.uniform'?"
    """
    spellings: dict[str, str] = {}
    for each in known:
        spellings.setdefault(plain(each.rpartition(".")[2]), each)
        spellings[plain(each)] = each
    similarity = 0.75 if len(name) > 4 else 0.6
    matches = difflib.get_close_matches(plain(name), spellings, 2, similarity)
    found = dict.fromkeys(spellings[each] for each in matches)
    return f". Did you mean {' or '.join(map(repr, found))}?" if found else ""


def plain(name: str) -> str:
    """Return a name in lower case without underscores."""
    return name.lower().replace("_", "")
