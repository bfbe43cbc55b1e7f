"""Servers in unusual environments: paths that aren't UTF-8, strict umasks, blocked signals, no `sys.executable`."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from dali_proxy import DALIServer
from dali_proxy._common.folders import new_folder
from dali_proxy.pipeline._ipc import interpreter
from pipeline.errors import BuildError
from tests.dali_proxy.indexed import affine
from tests.environment import with_project
from tests.preloaded import run_python

PATHS = """
import os, pathlib, sys
import numpy as np
from torch.utils.data import default_collate
from dali_proxy import BatchError, DALIServer
from pipeline import Pipeline, fn
import helper

def source(info):
    return np.int64(helper.NUMBER)

def plus_one(array):
    return array + 1

with Pipeline(batch_size=1, num_threads=1, device_id=None, py_num_workers=1, py_start_method="spawn") as pipe:
    number = fn.python_function(fn.external_source(source, batch=False, parallel=True), function=plus_one)
    file, _ = fn.readers.file(file_root=os.path.join(os.getcwd(), "data"))
    pipe.set_outputs(fn.io.file.read(fn.external_source(name="path")), number, file)

def read(server, path):
    batch = default_collate([server.proxy(np.frombuffer(os.fsencode(path), np.uint8))])
    return [bytes(output[0].tolist()) for output in server.produce_data(batch)[::2]] + [helper.NUMBER]

file = pathlib.Path("data", "0", os.fsdecode(b"\\xff.jpg"))
file.parent.mkdir(parents=True)
file.write_bytes(b"content")
server = DALIServer(pipe)
server.start()
print(read(server, file), flush=True)
try:
    read(server, os.fsdecode(b"\\xfe.bin"))
except BatchError as error:
    assert os.fsdecode(b"\\xfe.bin") in str(error), ascii(error)
os.chdir("/")
server.stop()
"""

PROCESS = """
import os, signal, sys
import numpy as np
from dali_proxy import DALIServer, ServerClosedError
from tests.dali_proxy.indexed import affine, sample

os.umask(0o777)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
sys.executable = None
server = DALIServer(affine())
server.start()
server.produce_data(server.proxy(sample(1)))
os.kill(server.pid, signal.SIGTERM)
print(server._life.host.describe_exit(60))
server.stop()
"""

DELETED_FOLDER = """
import os
from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine

os.rmdir(os.getcwd())
with DALIServer(affine()) as server:
    print(len(list(DataLoader(server, IndexDataset(8, server.proxy), batch_size=4, num_workers=1))))
"""


def test_working_directory_that_was_deleted_works(tmp_path: Path) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    done = run_python("-c", DELETED_FOLDER, cwd=folder, env=with_project())
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr


def test_paths_that_are_not_utf8_work(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "helper.py").write_text("NUMBER = 1")
    script = folder / os.fsdecode(b"train\xe9.py")
    script.write_text(PATHS)
    environment = with_project(TMPDIR=".")
    done = subprocess.run([sys.executable, script], cwd=folder, env=environment, capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"[b'content', b'content', 1]\n", b"")
    assert {path.name for path in folder.iterdir()} <= {"helper.py", script.name, "data", "__pycache__"}


def test_server_ends_on_sigterm_though_its_parent_blocks_signals_and_files(tmp_path: Path) -> None:
    environment = with_project(TMPDIR=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run([sys.executable, "-c", PROCESS], env=environment, capture_output=True, text=True, check=False)
    assert "was terminated by SIGTERM" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_unknown_interpreter_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(sys, "exec_prefix", "/nowhere")
    monkeypatch.setattr("multiprocessing.spawn._python_exe", None)
    with pytest.raises(BuildError, match=r"sys.executable is '': .*set_executable"):
        interpreter.interpreter_path()


def test_folder_is_absolute_though_the_temporary_one_is_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", ".")
    assert new_folder().startswith(os.getcwd())


def test_server_without_a_descriptor_to_list_the_others_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    listdir = os.listdir

    def without_descriptors(path: Any) -> list[str]:
        if path == "/dev/fd":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return listdir(path)

    with DALIServer(affine(), mode="thread") as server:
        monkeypatch.setattr("os.listdir", without_descriptors)
        assert server.stats().consumers == 1
