"""`pipeline` is a short name of `dali_proxy.pipeline`. Scripts that don't use it can have a module of this name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import with_project
from tests.thorough import thorough_except


def python(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=with_project(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


SAME = """
import importlib, pickle, pkgutil, sys
import pipeline.fn.io.file
import pipeline.tensors as tensors
from pipeline import Pipeline, fn
from pipeline.fn import decoders
import dali_proxy.pipeline as real

assert fn is real.fn and tensors is real.tensors and Pipeline is real.Pipeline and decoders is real.fn.decoders
for module in pkgutil.walk_packages(real.__path__, "dali_proxy.pipeline.", onerror=print):
    if "nodes" not in module.name:  # needs an optional package
        short = importlib.import_module(module.name.removeprefix("dali_proxy."))
        assert short is sys.modules[module.name] and short.__spec__.name == module.name, module
assert pickle.loads(b"cpipeline._definition.pipeline\\nPipeline\\n.") is Pipeline
for name in ("nothing", "fn.nothing"):
    try:
        importlib.import_module(f"pipeline.{name}")
    except ModuleNotFoundError as error:
        print(error.name)
"""


def test_all_modules_have_both_names(tmp_path: Path) -> None:
    done = python("-c", SAME, folder=tmp_path)
    assert done.stdout.split() == ["pipeline.nothing", "pipeline.fn.nothing"], done.stderr


BESIDE = """
import numpy as np
{first}
from dali_proxy import DALIServer, DataLoader, dynamic, fn, pipeline_def, types
from dali_proxy.torchvision import Resize
import {module} as theirs


@pipeline_def(enable_conditionals=True)
def described():
    return fn.python_function(fn.external_source(name="numbers"), function=theirs.plus_one)


if __name__ == "__main__":
    with DALIServer(described(batch_size=4, num_threads=1, device_id=None)) as server:
        loader = DataLoader(
            server, theirs.Numbers(server.proxy), batch_size=4, num_workers=1, multiprocessing_context="{method}"
        )
        print([batch[:, 0].tolist() for batch in loader])
"""

USERS_MODULE = """
import numpy as np


class Numbers:
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.transform(np.full(2, index, np.float32))


def plus_one(array):
    return array + 1
"""


@pytest.mark.parametrize("kind", thorough_except(["file", "package", "folder"], "package"))
def test_script_runs_beside_a_pipeline_of_the_user(kind: str, tmp_path: Path) -> None:
    module = "pipeline" if kind == "file" else "pipeline.errors"  # a name that ours has, too
    if kind == "file":
        (tmp_path / "pipeline.py").write_text(USERS_MODULE)
    else:
        (tmp_path / "pipeline").mkdir()
        (tmp_path / "pipeline" / "errors.py").write_text(USERS_MODULE)
        if kind == "package":
            (tmp_path / "pipeline" / "__init__.py").touch()
    first = "" if kind == "file" else "import dali_proxy.errors"
    method = "fork" if kind == "package" else "spawn"  # a fresh interpreter takes seconds
    (tmp_path / "train.py").write_text(BESIDE.format(module=module, first=first, method=method))
    done = python("train.py", folder=tmp_path)
    assert done.stdout == "[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]\n", done.stderr


def test_modules_of_a_hidden_folder_are_found(tmp_path: Path) -> None:
    """Python prefers this package to a folder without `__init__.py`, wherever that folder is."""
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "data.py").write_text("X = 1\n")
    (tmp_path / "train.py").write_text(
        "import pipeline.data, pipeline.fn\nprint(pipeline.data.X, pipeline.fn.resize.__name__)\n"
    )
    assert python("train.py", folder=tmp_path).stdout == "1 resize\n"
