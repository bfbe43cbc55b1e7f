"""Users' modules with the name of one of ours, or of Python's library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import with_project

#: The user's module, or the `__init__.py` of a package. Other processes import its objects by name, fast without torch.
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


def count(sample):
    if sample.idx_in_epoch == 4:
        raise StopIteration
    return np.float32(sample.idx_in_epoch)


def sometimes(numbers, flag):
    if flag:  # only conditionals allow this
        numbers = numbers * 10
    return numbers
"""

TRAIN = """
import importlib
import os
import pickle
import sys

import numpy as np

from nvidia.dali import fn, pipeline_def
import nvidia.dali.plugin.pytorch.experimental.proxy as dali_proxy
from {module} import Numbers, count, plus_one, sometimes
import {module} as theirs


@pipeline_def(enable_conditionals=True)
def described():
    numbers = fn.python_function(fn.external_source(name="numbers"), function=plus_one)
    return sometimes(numbers, fn.random.coin_flip(probability=1))


@pipeline_def
def counted():
    return fn.external_source(count, batch=False, parallel=True)


if __name__ == "__main__":
    assert theirs is sys.modules["{module}"] is importlib.import_module("{module}")
    assert pickle.loads(pickle.dumps(plus_one)) is plus_one and plus_one.__module__ == "{module}"
"""

LOADER = """
    with dali_proxy.DALIServer(described(batch_size=4, num_threads=1, device_id=None)) as server:
        loader = dali_proxy.DataLoader(
            server, Numbers(server.proxy), batch_size=4, num_workers=1, multiprocessing_context="spawn"
        )
        print([batch[:, 0].tolist() for batch in loader])
"""

SOURCE = """
    pipe = counted(
        batch_size=2, num_threads=1, device_id=None, py_num_workers=1, py_start_method="spawn", exec_async=False
    )
    print(pipe.run()[0].as_array().tolist())
    pipe.close()
    print(os.environ.get("RANK", "alone"))
"""

PRINTED = ["[[10.0, 20.0, 30.0, 40.0], [50.0, 60.0, 70.0, 80.0]]", "[0.0, 1.0]"]


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


def train(module: str, *parts: str) -> str:
    """Return a script that imports the user's module."""
    return TRAIN.format(module=module) + "".join(parts)


def write(folder: Path, kind: str) -> str:
    """Write the user's module as a file, package or folder. Return the name of the module with its contents."""
    if kind == "file":
        (folder / "pipeline.py").write_text(USERS_MODULE)
        return "pipeline"
    (folder / "pipeline").mkdir()
    if kind == "package":
        (folder / "pipeline" / "__init__.py").write_text("")
    (folder / "pipeline" / "errors.py").write_text(USERS_MODULE)  # the library's package has a module of this name, too
    return "pipeline.errors"


def test_script_for_dali_runs_beside_a_pipeline_of_the_user(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "train.py").write_text(train(write(scripts, "package"), LOADER, SOURCE))
    done = python("-m", "dali_proxy", "run", "scripts/train.py", folder=tmp_path)
    assert done.stdout.splitlines() == [*PRINTED, "alone"], done.stderr


def test_script_for_dali_runs_beside_a_folder_of_modules(tmp_path: Path) -> None:
    """Without the hook, Python would prefer the library's package, which has an `__init__.py`."""
    (tmp_path / "train.py").write_text(f"from nvidia.dali import fn\nimport {write(tmp_path, 'folder')} as theirs\n")
    (tmp_path / "train.py").open("a").write("print(fn.resize.__name__, theirs.plus_one(1))\n")
    assert python("-m", "dali_proxy", "run", "train.py", folder=tmp_path).stdout == "resize 2\n"


def test_command_runs_in_a_folder_with_a_pipeline_of_the_user(tmp_path: Path) -> None:
    """`python -m` adds the folder to the path before it imports `dali_proxy`."""
    (tmp_path / "pipeline.py").write_text("X = 1\n")
    code = "from nvidia.dali import fn\nimport pipeline\nprint(fn.resize.__name__, pipeline.X)\n"
    (tmp_path / "pipelines.py").write_text(code)
    done = python("-m", "dali_proxy", "run", "-m", "pipelines", folder=tmp_path)
    assert done.stdout == "resize 1\n", done.stderr


@pytest.mark.thorough
def test_torchrun_starts_a_script_beside_a_pipeline_of_the_user(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "train.py").write_text(train(write(scripts, "file"), SOURCE))
    words = ["torch.distributed.run", "--standalone", "--nproc_per_node=1", "scripts/train.py"]
    done = python("-m", "dali_proxy", "run", "-m", *words, folder=tmp_path)
    assert done.stdout.splitlines() == [PRINTED[1], "0"], done.stderr


HIDING = """
import sys

import cv2
import numpy as np

from dali_proxy import DALIServer, DataLoader
from dali_proxy import fn, pipeline_def


def library_of(array):
    import poplib  # the user's module

    assert poplib.MINE
    return array


@pipeline_def(num_threads=2, device_id=None, batch_size=4)
def decode():
    return fn.decoders.image(fn.external_source(name="x")), fn.python_function(np.zeros(1), function=library_of)


class Images:
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.transform(cv2.imencode(".jpg", np.zeros((40, 40, 3), np.uint8))[1].tobytes())


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    for arguments in ({"mode": "thread"}, {}, {"num_workers": 1}):
        with DALIServer(decode(), **arguments) as server:
            assert len(list(DataLoader(server, Images(server.proxy), batch_size=4))) == 2
            server.stats()
"""


def test_modules_named_as_those_of_pythons_library_do_not_reach_our_late_imports(tmp_path: Path) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    for name in sys.stdlib_module_names:
        (folder / f"{name}.py").write_text(f"raise RuntimeError('the module {name} of the user')\n")
    (folder / "poplib.py").write_text("MINE = True\n")
    (tmp_path / "train.py").write_text(HIDING)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "train.py"), str(folder)],
        env=with_project(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
