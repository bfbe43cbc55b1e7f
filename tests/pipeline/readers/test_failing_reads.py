"""A file of any reader that can't be read, because the disk fails: the error names the file and the cause."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import with_project

pytest.importorskip("tests.fuzz.parsers")  # these need optional packages

PROGRAM = """
import os, sys
from pathlib import Path
from pipeline.errors import PipelineError
from tests.fuzz.parsers import PARSERS

for name in sys.argv[2:]:
    parser = PARSERS[name]
    folder = Path(sys.argv[1], name)
    folder.mkdir()
    parser.write(folder)
    for path in folder.glob(parser.damaged):
        os.environ["FAULTY_PATH"] = str(path)
        try:
            parser.read(path if parser.single else folder)
            print(f"{name}: no error for {path}")
        except PipelineError as error:
            named = repr(str(path)) in str(error) and "Input/output error" in str(error)
            print(name if named else f"{name}: {error}")
        finally:
            del os.environ["FAULTY_PATH"]
"""

KINDS = (
    *("npy", "tar", "tar index", "tfrecord", "tfrecord index", "recordio", "recordio index"),
    *("coco", "saved coco", "lists", "fits"),
)


def test_file_that_the_disk_fails_to_read_is_named(tmp_path: Path, faulty_system: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path), *KINDS]
    environment = with_project(LD_PRELOAD=faulty_system)
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert run.returncode == 0, run.stderr
    assert set(run.stdout.splitlines()) == set(KINDS)
