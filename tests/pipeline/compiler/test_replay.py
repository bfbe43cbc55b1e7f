"""Batches of recorded graphs have the recorded bits, with the recorded launches or fewer; see `replay`."""

from __future__ import annotations

import pytest

from tests import host_cupy
from tests.pipeline.compiler.replay import GRAPHS, environment, replay, saved
from tests.pipeline.kernels import emulator


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("name", GRAPHS)
def test_batches_are_those_of_the_record(name: str, device: str) -> None:
    if device == "gpu" and emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    records = saved()
    expected = records[f"{name} {device}"]
    with host_cupy.installed():
        found = replay(name, device)
    if environment() == records["environment"]:
        assert found["hashes"] == expected["hashes"]
    for kind in ("launches", "copies"):
        pairs = zip(found[kind], expected[kind], strict=True)
        assert all(now <= before for now, before in pairs), (kind, found[kind], expected[kind])
