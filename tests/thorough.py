"""The marker `thorough`: `make test` leaves such tests to `make test-thorough`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["mark_combinations", "thorough_except"]


def thorough_except(values: Iterable[Any], *representatives: Any) -> list[Any]:
    """Return the values of a parameter. All but the representatives have the marker `thorough`.

    The values of several parameters are tuples.
    """
    found = list(values)
    assert all(each in found for each in representatives)
    return [
        each if each in representatives else _thorough(*each if isinstance(each, tuple) else (each,)) for each in found
    ]


def _thorough(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.thorough)


def mark_combinations(items: Iterable[pytest.Item]) -> None:
    """Give the marker `thorough` to some cases of the tests with the marker `combinations`.

    It isn't given to the first case, nor to cases that differ from it in one parameter, so that each value remains.
    """
    seen: dict[str, set[Any]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("combinations"):
            known = seen.setdefault(item.nodeid.partition("[")[0], set())
            if (values := _values(item)) <= known:
                item.add_marker(pytest.mark.thorough)
            known |= values


def _values(item: pytest.Function) -> set[Any]:
    """Return a key for the value of each parameter, or for the values that one `parametrize` gives to several."""
    named = [mark.args[0] for mark in item.iter_markers("parametrize")]
    groups = [tuple(each.replace(",", " ").split()) if isinstance(each, str) else tuple(each) for each in named]
    params = item.callspec.params
    groups += [(name,) for name in params if not any(name in group for group in groups)]  # of fixtures
    return {(group, tuple(id(params[name]) for name in group)) for group in groups}
