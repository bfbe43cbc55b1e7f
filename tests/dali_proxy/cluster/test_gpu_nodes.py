"""Servers on a node with a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.environment import with_project

PROGRAM = Path(__file__).with_name("gpu_program.py")


@pytest.mark.gpu
@pytest.mark.timeout(300)
def test_batches_of_servers_on_a_gpu_are_those_of_a_server_here() -> None:
    """Two servers share the GPU; one of them ends in the middle of an epoch."""
    pytest.importorskip("ray")
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        run = subprocess.run(
            [sys.executable, str(PROGRAM), folder],
            env=with_project(RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=folder, TMPDIR=folder),
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stderr[-4000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found == {"devices": ["cuda:0"], "as_here": True, "after_a_loss": True, "lost": 1, "on_gpu": ["gpu"]}
