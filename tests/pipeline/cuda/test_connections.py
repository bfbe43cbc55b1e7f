"""The number of queues of a process to its GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dali_proxy.pipeline._cuda.connections import few_connections

VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"


@pytest.mark.parametrize("package", ["pipeline", "dali_proxy"])
@pytest.mark.parametrize(("set_by_user", "found"), [(None, "16"), ("1", "1")])
def test_import_requests_connections(package: str, set_by_user: str | None, found: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if set_by_user is not None:
        environment[VARIABLE] = set_by_user
    program = f"import os, {package}; print(os.environ[{VARIABLE!r}])"
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == found


def test_nothing_is_requested_after_the_start_of_cuda() -> None:
    program = f"""
import os, sys, types
sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: True))
import dali_proxy
from dali_proxy.pipeline._cuda.connections import few_connections
assert {VARIABLE!r} not in os.environ
print(few_connections())
"""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    printed = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert printed.stdout.startswith(f"{VARIABLE} is 8, so images")


@pytest.mark.parametrize("number", ["1", "8", "", "many"])
def test_few_connections_are_named(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    monkeypatch.setenv(VARIABLE, number)
    assert f"{VARIABLE} is {number}, so" in few_connections()
