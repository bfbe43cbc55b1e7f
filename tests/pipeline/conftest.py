"""Fixtures of the tests of `pipeline`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dali_proxy.pipeline._cuda.launch import Launch
from tests.pipeline.kernels.pointers import check_addresses


@pytest.fixture(scope="session", autouse=True)
def checked_launches() -> Iterator[None]:
    """Check the tables of every launch that a test plans in this process, once for each file and type of rows."""
    known: dict[tuple[str, int], Any] = {}
    plain = Launch.__post_init__

    def checked(launch: Launch) -> None:
        plain(launch)
        kinds = [(launch.file, id(table.dtype)) for table in launch.tables]
        if not known.keys() >= set(kinds):
            check_addresses(launch)
            known.update(zip(kinds, [table.dtype for table in launch.tables], strict=True))

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(Launch, "__post_init__", checked)
        yield
