"""Tests of cached properties: they have no lock that a forked child could find taken."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pipeline
from dali_proxy.pipeline._cached_property import cached_property
from tests.waiting import wait_until


class Example:
    gate: threading.Event | None = None

    @cached_property
    def value(self) -> object:
        """A value."""
        if self.gate is not None:
            self.gate.wait()
        return object()


def test_value_is_computed_once() -> None:
    example = Example()
    assert example.value is example.value
    assert Example().value is not example.value


def test_forked_child_computes_though_a_thread_of_its_parent_did() -> None:
    computing = Example()
    computing.gate = threading.Event()
    thread = threading.Thread(target=lambda: computing.value)
    thread.start()
    child = os.fork()
    if not child:
        os._exit(Example().value is None)
    wait_until(lambda: os.waitpid(child, os.WNOHANG)[0] == child, "the child ends")
    computing.gate.set()
    thread.join()


def test_no_module_uses_the_property_with_a_lock() -> None:
    root = Path(pipeline.__file__).parent.parent
    files = [path for name in ("pipeline", "dali_proxy") for path in (root / name).rglob("*.py")]
    uses = re.compile(r"functools\.cached_property|from functools import .*cached_property")
    assert [path.name for path in files if uses.search(path.read_text())] == ["_cached_property.py"]
