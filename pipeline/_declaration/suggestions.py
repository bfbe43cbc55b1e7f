"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean", "missing_operator"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with similar names; empty if there are none.

    Args:
        name: the wrong name.
        known: the right names. Of names with dots, the last part may be similar, or equal.

    Example:
        >>> did_you_mean("resizee", ["crop", "resize"])
        " Did you mean 'resize'?"
        >>> did_you_mean("uniform", ["random.uniform"])
        " Did you mean 'random.uniform'?"
    """
    spellings: dict[str, str] = {}
    for each in known:
        spellings.setdefault(_plain(each.rpartition(".")[2]), each)
        spellings[_plain(each)] = each
    found = list(dict.fromkeys(spellings[each] for each in get_close_matches(_plain(name), spellings, 2, 0.75)))
    return f" Did you mean {' or '.join(map(repr, found))}?" if found else ""


def missing_operator(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module of operators doesn't have."""
    text = f"module {module!r} has no operator {name!r}."
    # With the module as obj, a traceback would suggest one of its names, too.
    return AttributeError(f"{text}{did_you_mean(name, known)}".removesuffix("."), name=name, obj=None)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
