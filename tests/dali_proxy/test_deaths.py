"""What is said of workers that ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dali_proxy.deaths import dead_worker


def ended(code: int, start_method: str) -> Any:
    return SimpleNamespace(
        pid=7, exitcode=code, _start_method=start_method, kill=lambda: None, join=lambda timeout: None
    )


@pytest.mark.parametrize(
    ("code", "start_method", "says_why", "names_main"),
    [(1, "spawn", True, True), (1, "fork", True, False), (-9, "spawn", False, False)],
)
def test_advice_is_of_the_kind_of_end(code: int, start_method: str, says_why: bool, names_main: bool) -> None:
    died = dead_worker([ended(code, start_method)])
    assert str(died).startswith("worker 0 (pid 7) ")
    assert ("What it printed says why" in str(died), "__main__" in str(died)) == (says_why, names_main)
