"""Search and replacement of objects in nested structures."""

from __future__ import annotations

import threading
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from dali_proxy._common.nested import find, replace
from dali_proxy.errors import PlaceholderError


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


class Keywords(Mapping[str, Any]):
    """A mapping without `__setitem__`, whose constructor takes keywords."""

    def __init__(self, **items: Any) -> None:
        self._items = items
        self.count = len(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class Store(MutableMapping[str, Any]):
    """A mapping that stores its values in an attribute."""

    def __init__(self, **items: Any) -> None:
        self._items = items

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._items[key] = value

    def __delitem__(self, key: str) -> None:
        del self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class Generated(Mapping[str, Any]):
    """A mapping that creates its values on access, from a closure."""

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        self._make = make

    def __getitem__(self, key: str) -> Any:
        return self._make()

    def __iter__(self) -> Iterator[str]:
        return iter(("a",))

    def __len__(self) -> int:
        return 1


class Pair(tuple[Any, ...]):
    """A tuple whose constructor takes its items one by one, and that has an attribute."""

    def __new__(cls, first: Any, second: Any) -> Pair:
        return super().__new__(cls, (first, second))

    def __init__(self, first: Any, second: Any) -> None:
        self.both = [first, second]


class Extended(dict[str, Any]):
    """A dict with an attribute."""

    extra: Any = None


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
        ({Mark(1), 2}, {1, 2}),
        (frozenset([Mark(1), 2]), frozenset([1, 2])),
        (MappingProxyType({"a": Mark(1)}), MappingProxyType({"a": 1})),
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


def test_constructors_are_not_called() -> None:
    mark = Mark(1)
    pair = replace(Pair(mark, 2), Mark, number)
    assert (type(pair), tuple(pair), pair.both) == (Pair, (1, 2), [1, 2])
    keywords = replace(Keywords(a=mark, b=2), Mark, number)
    assert (type(keywords), dict(keywords), keywords.count) == (Keywords, {"a": 1, "b": 2}, 2)


def test_original_stays_unchanged() -> None:
    store, extended = Store(a=Mark(1), b=2), Extended(a=Mark(3))
    extended.extra = Mark(4)
    assert dict(replace(store, Mark, number)) == {"a": 1, "b": 2}
    assert isinstance(store["a"], Mark)
    result = replace(extended, Mark, number)
    assert (type(result), result, result.extra) == (Extended, {"a": 3}, 4)
    assert isinstance(extended.extra, Mark)


def test_values_that_cannot_be_replaced_are_an_error() -> None:
    mark = Mark(1)
    with pytest.raises(PlaceholderError, match=r"mapping of type .*Generated can't be replaced .* return a dict"):
        replace(Generated(lambda: mark, "a"), Mark, number)


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
