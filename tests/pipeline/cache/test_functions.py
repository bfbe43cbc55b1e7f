"""Descriptions of functions: they change with what the functions compute."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest

from dali_proxy.pipeline._cache.functions import describe_function

CODE = """
import numpy as np
import helper

FACTOR = 3
TABLE = {"a": [1, 2.5], "b": np.arange(3)}

def inner(x):
    return [x + each for each in range(4)]

class Scale:
    by = 2

    def __init__(self, offset):
        self.offset = offset

    @property
    def twice(self):
        return self.by * 2

    def __call__(self, x):
        return x * self.twice + self.offset

def compute(x, power=2, *, sign=1):
    nested = lambda y: y ** power
    return Scale(1)(nested(inner(x))) * FACTOR + TABLE["a"] + helper.shift(x)
"""


def function_of(code: str, name: str = "compute") -> Callable[..., Any]:
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(code, variables)
    return variables[name]  # type: ignore[no-any-return]


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "helper.py"
    path.write_text("def shift(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    yield_module: ModuleType = importlib.import_module("helper")
    assert yield_module.__file__ == str(path)
    return path


def test_functions_of_a_script_in_the_folder_of_libraries_are_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", np.__file__, raising=False)
    one, other = (function_of(f"def compute(x):\n    return x + {number}") for number in (1, 2))
    assert describe_function(one) != describe_function(other)


def test_equal_functions_have_equal_descriptions(helper: Path) -> None:
    described = describe_function(function_of(CODE))
    assert described is not None
    assert described == describe_function(function_of("# a comment\n\n" + CODE))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 3", "FACTOR = 4"),
        ("2.5", "2.6"),
        ("arange(3)", "arange(4)"),
        ("x + each", "x - each"),
        ("range(4)", "range(5)"),
        ("by = 2", "by = 3"),
        ("self.by * 2", "self.by * 3"),
        ("+ self.offset", "- self.offset"),
        ("power=2", "power=3"),
        ("sign=1", "sign=2"),
        ("y ** power", "y * power"),
        ("helper.shift(x)", "helper.other(x)"),
    ],
)
def test_edited_function_has_another_description(old: str, new: str, helper: Path) -> None:
    assert CODE.count(old) == 1
    assert describe_function(function_of(CODE.replace(old, new))) != describe_function(function_of(CODE))


def test_file_of_a_module_is_part_of_the_description(helper: Path) -> None:
    before = describe_function(function_of(CODE))
    helper.write_text("def shift(x):\n    return x + 2\n")
    assert describe_function(function_of(CODE)) not in (None, before)


def test_files_that_modules_import_are_part_of_the_description(helper: Path) -> None:
    for imports, use in (("import deeper", "deeper.shift(x)"), ("from deeper import shift as deep", "deep(x)")):
        deeper = helper.with_name("deeper.py")
        helper.write_text(f"{imports}\nfrom deeper import BY\ndef shift(x):\n    return {use} + BY\n")
        described = []
        for code in ("BY = 1\ndef shift(x):\n    return x + 1\n", "BY = 1\ndef shift(x):\n    return x + 2\n"):
            deeper.write_text(code)
            for name in ("helper", "deeper"):
                sys.modules.pop(name, None)
            described.append(describe_function(function_of(CODE)))
        assert None not in described
        assert described[0] != described[1]


@pytest.mark.parametrize(
    "code",
    [
        "import functools\n@functools.cache\ndef compute(x):\n    return x + 1\n",
        "import functools\n@functools.cache\ndef by():\n    return 0 + 1\ndef compute(x):\n    return x + by()\n",
        "import numpy as np\ncompute = np.vectorize(lambda x: x + 1)\n",
    ],
)
def test_function_inside_of_a_wrapper_is_part_of_the_description(code: str) -> None:
    before, after = (describe_function(function_of(each)) for each in (code, code.replace("+ 1", "+ 2")))
    assert None not in (before, after)
    assert before != after


@pytest.mark.parametrize(
    "code",
    [
        "import numpy as np\ncompute = np.frompyfunc(lambda x: x + 1, 1, 1)\n",
        "import functools\n@functools.singledispatch\ndef compute(x):\n    return x + 1\n",
    ],
)
def test_wrapper_that_hides_its_function_has_no_description(code: str) -> None:
    assert describe_function(function_of(code)) is None


def outer(value: Any) -> Callable[[Any], Any]:
    def compute(x: Any) -> Any:
        return x + value

    return compute


def test_variables_from_outside_are_part_of_the_description() -> None:
    for one, other in ((1, 2), (np.zeros(3), np.ones(3)), ({"a": 1}, {"a": 2}), ({1, 2}, {1, 3}), (1, True)):
        assert describe_function(outer(one)) == describe_function(outer(one)) is not None
        assert describe_function(outer(one)) != describe_function(outer(other))


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return x * self.factor

    def half(self, x: Any) -> Any:
        return x * self.factor / 2


def test_objects_and_methods_and_partial_functions_are_described() -> None:
    for make in (Scaled, lambda factor: Scaled(factor).half, lambda factor: functools.partial(max, factor)):
        assert describe_function(make(2)) == describe_function(make(2)) is not None
        assert describe_function(make(2)) != describe_function(make(3))
    assert describe_function(Scaled(2)) != describe_function(Scaled(2).half)


def test_compiled_functions_are_described_by_name() -> None:
    described = [describe_function(function) for function in (cv2.flip, cv2.blur, np.flip, np.add, len)]
    assert None not in described
    assert len(set(described)) == len(described)


def test_function_that_refers_to_itself_is_described() -> None:
    code = "def compute(x):\n    return x if x < 2 else compute(x - 1)\n"
    assert describe_function(function_of(code)) == describe_function(function_of(code)) is not None


def test_function_with_an_object_that_cannot_be_pickled_has_no_description() -> None:
    assert describe_function(outer(Lock())) is None
