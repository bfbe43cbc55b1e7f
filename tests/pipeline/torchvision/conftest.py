"""Fixtures for tests of transforms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline import dynamic


@pytest.fixture(autouse=True)
def _end_threads() -> Iterator[None]:
    dynamic.set_num_threads(2)
    yield
    dynamic.set_num_threads(None)  # ends the default threads
