"""The example for Ray Train: two workers, each with its own server, and Ray makes new loaders from our loader."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile

import pytest
from PIL import Image

from tests.environment import ROOT, with_project


@pytest.mark.timeout(600)
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None and "DALI_PROXY_REQUIRE_CLUSTER" not in os.environ,
    reason="Ray isn't installed: run `make test-cluster`",
)
def test_two_workers_train_on_prepared_loaders() -> None:
    # The name is short, since Ray's sockets lie there.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        environment = with_project(RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=folder, TMPDIR=folder, OMP_NUM_THREADS="1")
        environment.pop("DALI_EXTRA_PATH", None)
        options = ["--device", "cpu", "--epochs", "2", "--image-size", "64", "--picture", f"{folder}/batch.png"]
        ended = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "ray_train_workers.py"), *options],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr[-4000:]
        with Image.open(f"{folder}/batch.png") as sheet:
            assert sheet.width > 100
    found = re.search(r"^loss +([\d.]+) -> ([\d.]+)\nworkers +2\naccuracy +([\d.]+)%$", ended.stdout, re.MULTILINE)
    assert found, ended.stdout
    assert float(found[2]) < float(found[1])
    assert float(found[3]) > 30  # guessing: 16.7
