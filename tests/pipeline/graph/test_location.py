"""`SourceLocation`: which line of the call stack is the user's, and warnings and errors that name it."""

from __future__ import annotations

import runpy
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dali_proxy.pipeline._graph.location import SourceLocation, at_location, warn_caller
from pipeline.errors import GraphError

CALLS = """
from dali_proxy.pipeline._graph.location import SourceLocation, warn_caller
found = SourceLocation.from_caller()
warn_caller("not any more")
"""


@pytest.mark.parametrize("name", ["mine", "code", "profile"])
def test_modules_of_the_user_may_have_names_of_the_library(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(CALLS)
    with pytest.warns(UserWarning, match="not any more") as caught:
        found = runpy.run_path(str(path), run_name=f"{name}.part")["found"]
    assert (found.file, found.line, found.module) == (str(path), 3, f"{name}.part")
    assert [(each.filename, each.lineno) for each in caught] == [(str(path), 4)]


def test_threads_of_a_pool_have_no_line_of_the_user() -> None:
    with ThreadPoolExecutor() as pool:
        assert pool.submit(SourceLocation.from_caller).result() == SourceLocation()


def test_warnings_are_shown_once_for_a_line_of_a_file(tmp_path: Path) -> None:
    paths = [tmp_path / "a.py", tmp_path / "b.py"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for path in (*paths, *paths):
            path.write_text(CALLS)
            runpy.run_path(str(path), run_name="users")
    assert [each.filename for each in caught] == [str(path) for path in paths]


def test_errors_get_a_location_only_if_there_is_one() -> None:
    for location, message in ((SourceLocation(), "wrong"), (SourceLocation("a.py", 3, "f"), "wrong\n  at a.py:3 in f")):
        with pytest.raises(GraphError) as raised, at_location(location):
            raise GraphError("wrong")
        assert str(raised.value) == message


def test_warnings_without_a_line_are_shown() -> None:
    with ThreadPoolExecutor() as pool, pytest.warns(UserWarning, match="of a thread") as caught:
        pool.submit(warn_caller, "of a thread").result()
    assert caught[0].filename == "<unknown>"
