"""The process of the dataset workers, whose server may end while it starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from dali_proxy import DALIServer
from dali_proxy._pool import pool_process
from dali_proxy._pool.pool_process import PoolProcess
from tests.dali_proxy.indexed import affine
from tests.waiting import soon


def test_folder_may_be_removed_while_the_process_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_process, "subprocess", subprocess)  # a fresh interpreter, which imports torch
    folder = tmp_path / "removed"
    folder.mkdir()
    pool = PoolProcess(str(folder))
    folder.rmdir()
    with soon():
        pool._socket.close()
        assert pool._process.wait() == 0


def test_stop_does_not_wait_for_a_process_that_starts(tmp_path: Path) -> None:
    pool = PoolProcess(str(tmp_path))
    pool.stop()
    assert "SIGKILL" in pool.ended
    pool.stop()


def test_workers_end_with_their_server() -> None:
    with DALIServer(affine(), num_workers=2) as server:
        pool = server._life.dataset_workers
        assert pool is not None
        workers = psutil.Process(pool._process.pid).children()
        assert len(workers) == 2
    assert pool._process.returncode == 0, "it ends in an orderly way"
    assert not any(worker.is_running() for worker in workers)
