"""Search and replacement of objects in nested structures."""

from __future__ import annotations

import threading
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from dali_proxy._common.nested import find, replace


class Mark:
    """The type that the tests search for."""

    def __init__(self, value: int) -> None:
        self.value = value


def number(mark: Mark) -> int:
    return mark.value


Point = namedtuple("Point", "x y")


@dataclass
class Plain:
    image: Any
    label: int = 0


@dataclass(frozen=True)
class Frozen:
    image: Any
    label: int = 0


@dataclass(frozen=True, slots=True)
class FrozenSlotted:
    image: Any
    label: int = 0


class Slotted:
    __slots__ = ("__private", "empty", "image")

    def __init__(self, image: Any) -> None:
        self.image = image
        self.__private = image

    @property
    def private(self) -> Any:
        return self.__private


class SlottedChild(Slotted):
    def __init__(self, image: Any, more: Any) -> None:
        super().__init__(image)
        self.more = more


class FrozenMapping(Mapping[str, Any]):
    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (Mark(1), 1),
        ((Mark(1), "a"), (1, "a")),
        ([Mark(1), [Mark(2)]], [1, [2]]),
        ({"a": Mark(1), "b": {"c": (Mark(2),)}}, {"a": 1, "b": {"c": (2,)}}),
        (deque([Mark(1), 5], maxlen=4), deque([1, 5], maxlen=4)),
        (Point(Mark(1), 2), Point(1, 2)),
        (OrderedDict(b=Mark(1), a=2), OrderedDict(b=1, a=2)),
        (defaultdict(list, a=Mark(1)), defaultdict(list, a=1)),
        (UserDict(a=Mark(1)), UserDict(a=1)),
        (Plain(Mark(1), 3), Plain(1, 3)),
        (SimpleNamespace(a=Mark(1), b=2), SimpleNamespace(a=1, b=2)),
        (Frozen(Mark(1), 3), Frozen(1, 3)),
        (FrozenSlotted((Mark(1),), 3), FrozenSlotted((1,), 3)),
        ("text", "text"),
        (None, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_replace_keeps_types_and_the_rest(data: Any, expected: Any) -> None:
    result = replace(data, Mark, number)
    assert type(result) is type(expected)
    assert result == expected


def test_objects_with_slots_and_with_a_dictionary() -> None:
    result = replace(SlottedChild(Mark(1), [Mark(2)]), Mark, number)
    assert (result.image, result.private, result.more) == (1, 1, [2])
    result = replace(FrozenMapping({"a": Mark(1), "b": 2}), Mark, number)
    assert type(result) is FrozenMapping
    assert dict(result) == {"a": 1, "b": 2}


def test_objects_without_references_are_not_copied() -> None:
    lock = threading.Lock()  # can't be copied
    untouched = {"lock": lock, "deep": [Plain(1)]}
    data = [untouched, Mark(1)]
    result = replace(data, Mark, number)
    assert result[0] is untouched
    assert isinstance(data[1], Mark)  # the original is unchanged
    assert replace(untouched, Mark, number) is untouched


def test_shared_objects_stay_shared() -> None:
    mark = Mark(1)
    inner = [mark]
    calls: list[Mark] = []
    result = replace((inner, inner, mark), Mark, lambda found: calls.append(found) or found.value)  # type: ignore[func-returns-value]
    assert result[0] is result[1]
    assert calls == [mark]


@dataclass
class Node:
    image: Any
    others: list[Any] = field(default_factory=list)


def test_cycles() -> None:
    one, two = Node(Mark(1)), Node(2)
    one.others += [two, (one,)]
    two.others.append(one)
    result = replace(one, Mark, number)
    assert result is not one
    assert result.image == 1
    assert result.others[0].others[0] is result
    assert result.others[0].image == 2
    assert [mark.value for mark in find(two, Mark)] == [1]
    lonely = Node(1)
    lonely.others.append(lonely)
    assert replace(lonely, Mark, number) is lonely


def test_find_is_in_order_and_without_repeats() -> None:
    marks = [Mark(value) for value in range(4)]
    data = {"b": marks[0], "a": [marks[1], marks[0], (Plain(marks[2]), marks[3])]}
    assert find(data, Mark) == marks
    assert find(marks[0], Mark) == [marks[0]]
    assert find([1, "x"], Mark) == []


def test_deep_nesting_needs_no_deep_stack() -> None:
    data: Any = [1]
    for _ in range(5000):
        data = [data]
    assert find(data, Mark) == []
