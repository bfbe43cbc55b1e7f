"""A worker imports no module and reads no source that the training process could have loaded before the fork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.environment import with_project

_SCRIPT = """
import linecache
import sys

import numpy as np
from torch.utils.data import Dataset

import dali_proxy
import pipeline
from pipeline import fn


class Tiny(Dataset):
    def __init__(self, proxy):
        self.proxy = proxy

    def __len__(self):
        return 4

    def __getitem__(self, index):
        new = {*sys.modules, *linecache.cache} - known
        return self.proxy(np.zeros(8, np.uint8)), " ".join(new)


@pipeline.pipeline_def(batch_size=2, num_threads=1, device_id=None)
def same():
    return fn.external_source(name="arrays")


with dali_proxy.DALIServer(same()) as server:
    loader = dali_proxy.DataLoader(server, Tiny(server.proxy), batch_size=2, num_workers=2)
    known = {*sys.modules, *linecache.cache, __file__}
    folders = "dali_proxy._loader.", "dali_proxy._common.", "dali_proxy._worker."
    of_loader = (module for name, module in sys.modules.items() if name.startswith(folders))
    known.update(module.__file__ for module in of_loader)  # imported after the server has started
    for _, new in loader:
        print(*new)
"""


def test_workers_import_and_read_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], env=with_project(), capture_output=True, text=True, timeout=150, check=False
    )
    assert (done.stdout.split(), done.stderr) == ([], "")
