"""docs/architecture.md is complete: its tables, and the tests that it names for its rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dali_proxy._host.requests import State
from dali_proxy.pipeline._concurrency.locks import Level
from tests.environment import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FACTORY = "dali_proxy/pipeline/_concurrency/locks.py"

#: Locks that the factory doesn't create.
OTHER_LOCKS = {
    FACTORY: "the factory itself",
    "dali_proxy/_loader/queues.py": "that of a pipe, which processes share",
    "dali_proxy/_transport/slot_view.py": "orders memory in finalizers; nothing waits for it",
}

#: In every module with a call that these tests check. Parsing all modules takes seconds.
OF_THREADS = re.compile("new_r?lock|Lock|Semaphore|Barrier|Condition|Thread|THREAD_PREFIX")


@cache
def calls() -> list[tuple[str, ast.Call]]:
    """All calls in the modules of both packages that create locks or threads, with the path of their module."""
    found = []
    for package in ("dali_proxy", "pipeline"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if not OF_THREADS.search(text):
                continue
            tree = ast.parse(text, str(path))
            found += [(str(path.relative_to(ROOT)), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return found


def name_of(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))  # of `a.b` and `b`; unparsing takes seconds


def rows(title: str) -> list[list[str]]:
    """The cells of the table below a title, without its head."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)[2:]
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


def created_locks() -> Iterator[tuple[str, str, str, bool]]:
    """The name, module and level of each lock, and whether it is reentrant."""
    for module, call in calls():
        function, arguments = name_of(call.func), call.args
        if function == "partial" and arguments and name_of(arguments[0]).startswith("new_"):
            function, arguments = name_of(arguments[0]), arguments[1:]
        if function in ("new_lock", "new_rlock"):
            level, name = arguments
            assert isinstance(name, ast.Constant)
            yield name.value, module, name_of(level), function == "new_rlock"


def test_locks_come_from_the_factory() -> None:
    wrong = []
    for module, call in calls():
        function, used = name_of(call.func), [name_of(each.value) for each in call.keywords]
        direct = function in ("Lock", "RLock", "Semaphore", "BoundedSemaphore", "Barrier")
        in_python = function == "Condition"  # a signal handler may raise while it takes its lock
        if (direct or in_python or {"Lock", "RLock"} & {*used}) and module not in OTHER_LOCKS:
            wrong.append(f"{module}:{call.lineno}")
    assert not wrong, f"use new_lock, new_rlock or new_condition of {FACTORY} in {wrong}"


def test_table_of_locks_is_complete() -> None:
    listed = {
        (name.strip("`"), module.strip("`"), level, kind.startswith("reentrant"))
        for name, module, level, kind, *_ in rows("Locks")
    }
    assert listed == set(created_locks())


def test_locks_are_listed_in_their_order() -> None:
    levels = [Level[row[2]] for row in rows("Locks")]
    assert levels == sorted(levels)
    assert set(levels) == set(Level), "a level without a lock is superfluous"
    several = {level for level in levels if levels.count(level) > 1}
    assert several == {Level.LEAF}


def pattern(name: ast.expr) -> str:
    """Return the name of a thread, with ``*`` for the parts that aren't constant."""
    text = ""
    for part in name.values if isinstance(name, ast.JoinedStr) else [name]:
        if isinstance(part, ast.Constant):
            text += str(part.value)
        else:
            text += "dali-" if "THREAD_PREFIX" in ast.unparse(part) else "*"
    return text


def test_table_of_threads_is_complete() -> None:
    names = set()
    for module, call in calls():
        arguments = [*call.args, *(each.value for each in call.keywords)]
        names |= {
            pattern(each) for each in arguments if isinstance(each, ast.JoinedStr) and "THREAD_PREFIX" in ast.dump(each)
        }
        if name_of(call.func) == "Thread":
            name = next((each.value for each in call.keywords if each.arg == "name"), None)
            assert name is not None, f"{module}:{call.lineno} starts a thread without a name"
            if isinstance(name, ast.Constant):
                names.add(pattern(name))
    # Pools and lanes append a number to the names of their threads.
    listed = {name.removesuffix("-*") for row in rows("Threads") for name in re.findall(r"`([\w*-]+)`", row[0])}
    assert listed == names


def test_diagram_has_the_states_of_a_request() -> None:
    diagram = PAGE.partition("### A request")[2].partition("###")[0]
    assert set(re.findall(r"\b[A-Z]{4,}\b", diagram)) == {state.name for state in State}


def test_rules_are_numbered_and_name_tests_that_exist() -> None:
    table = rows("Rules")
    assert [row[0].partition(".")[0] for row in table] == [f"R{number}" for number in range(1, len(table) + 1)]
    for rule, check in table:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", check)
        assert named or check == "by review", rule
        for file, test in named:
            assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file} has no {test}"


def test_files_that_are_named_exist() -> None:
    named = re.findall(r"`((?:dali_proxy|pipeline)/[\w/]+(?:\.\w+)?)`", PAGE)
    assert named
    assert [name for name in named if not Path(ROOT, name).exists()] == []
