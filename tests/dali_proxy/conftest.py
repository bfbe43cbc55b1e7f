"""Server fixtures for the tests of `dali_proxy`."""

from __future__ import annotations

import gc
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dali_proxy import DALIServer
from tests.dali_proxy.indexed import affine, sample
from tests.warm_servers import warm_servers

MODES = ("process", "thread")


@pytest.fixture(scope="session", autouse=True)
def _servers_start_quickly(request: pytest.FixtureRequest, temporary_folder: Path) -> Iterator[None]:
    """Fork servers, unless they may use a GPU, from a process that has imported their modules."""
    with nullcontext() if re.search(r"(?<!not )\bgpu", request.config.getoption("markexpr")) else warm_servers():
        yield


@pytest.fixture
def fresh_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each server of a test as a fresh interpreter, as those of users."""
    for starter in ("_host.process", "_pool.pool_process"):
        monkeypatch.setattr(f"dali_proxy.{starter}.subprocess", subprocess)


@pytest.fixture(autouse=True)
def _nothing_of_dali_is_forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect NVIDIA's pipelines now: a forked worker of a later test that collected them would hang or die."""
    yield
    if request.node.get_closest_marker("parity"):
        gc.collect()


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Mode of the server: "process" or "thread"."""
    return str(request.param)


@pytest.fixture(scope="module", params=MODES)
def shared_server(request: pytest.FixtureRequest) -> Iterator[DALIServer | None]:
    """For "process", a server for all tests of a module, with this process connected; for "thread", None."""
    if request.param == "thread":
        yield None  # its descriptors belong to this process, so each test starts its own server
        return
    with DALIServer(affine()) as running:
        running.produce_data(running.proxy(sample(0)))
        yield running


@pytest.fixture
def server(shared_server: DALIServer | None) -> Iterator[DALIServer]:
    """A running server of `affine`, in both modes."""
    if shared_server is not None:
        yield shared_server
        return
    with DALIServer(affine(), mode="thread") as running:
        yield running


@pytest.fixture
def serve(mode: str) -> Iterator[Callable[..., DALIServer]]:
    """Return a function that starts a server for a pipeline; the servers are stopped after the test."""
    running: list[DALIServer] = []

    def start(pipeline: Any, **options: Any) -> DALIServer:
        made = DALIServer(pipeline, mode=mode, **options)  # type: ignore[arg-type]
        running.append(made)
        made.start()
        return made

    yield start
    for made in running:
        made.stop()
