"""What subcommands print, and their exit statuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.environment import with_project
from tests.preloaded import run_python

PIPES = """
from nvidia.dali import fn, pipeline_def
from pipeline import dynamic

@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def read(folder):
    files, labels = fn.readers.file(file_root=folder)
    return fn.decoders.image(files), labels

@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def fed(size=8):
    return fn.resize(fn.external_source(name="image", layout="HWC"), size=size)

def function(image):
    return dynamic.flip(image)

def broken():
    raise KeyError("size")

number = 7
"""

RUN_ALL = """
import contextlib, io, json, sys
from dali_proxy._cli import main
for words in json.loads(sys.argv[1]):
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code
    print(json.dumps([status, output.getvalue(), errors.getvalue()]))
"""


def run_all(folder: Path, commands: list[str]) -> list[tuple[int, str, str]]:
    """Return the status, the output and the errors of each command, all run in one process."""
    words = json.dumps([command.split() for command in commands])
    done = run_python("-c", RUN_ALL, words, cwd=folder, env=with_project())
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path, jpeg_folder: Path) -> Path:
    """Return a folder with pipelines and images."""
    (tmp_path / "pipes.py").write_text(PIPES)
    (tmp_path / "broken.py").write_text("x = (")
    (tmp_path / "binary.py").write_bytes(b"\0")
    (tmp_path / "photos").symlink_to(jpeg_folder)
    return tmp_path


ERRORS = {
    "preview nowhere.py photos": (2, "the file 'nowhere.py' doesn't exist"),
    "preview nowhere:pipe photos": (2, "there is no module 'nowhere'"),
    "preview pipes.py photos": (2, "pipes.py defines several pipelines, read, fed: name one, as in pipes.py:read"),
    "preview pipes:pipe photos": (2, "pipes has no 'pipe'"),
    "preview pipes:number photos": (2, "pipes:number must be a Pipeline or a function, not int"),
    "preview pipes:read": (2, "pipes:read needs --set folder=VALUE"),
    "preview pipes:fed": (2, "the pipeline has inputs, so it needs a FOLDER of images"),
    "preview pipes:fed photos --set size": (2, "'size' isn't of the form NAME=VALUE"),
    "graph pipes:fed --output photos": (1, "Is a directory: photos"),
    "preview pipes:fed photos --output /proc/none.png": (1, "No such file or directory: /proc/none.png"),
    "preview pipes:fet photos": (2, "pipes has no 'fet'. Did you mean 'fed'?"),
    "preview pipes:fed photos --set batchsize=3": (
        2,
        "pipes:fed: ArgumentTypeError: fed: unexpected argument 'batchsize'; neither the function nor Pipeline has "
        "an argument of this name. Did you mean 'batch_size'?",
    ),
    "preview pipes:fed photos --set batch_size=many": (
        2,
        "pipes:fed: ArgumentTypeError: Pipeline: batch_size must be int, not str ('many')",
    ),
    "preview pipes:fed photos --set width=3": (
        2,
        "pipes:fed: ArgumentTypeError: fed: unexpected argument 'width'; neither the function nor Pipeline has "
        "an argument of this name",
    ),
    "preview pipes:broken photos": (1, "pipes:broken: KeyError: 'size'"),
    "preview pipes:fed nowhere": (2, "the folder 'nowhere' doesn't exist"),
    "preview pipes:fed photos --output nowhere/x.png": (
        2,
        "can't write nowhere/x.png: it needs a suffix and an existing folder",
    ),
    "preview pipes:fed photos --output x.txt": (
        2,
        "can't write x.txt: use a suffix of an image format, such as .png",
    ),
    "graph pipes:fed --times": (2, "the pipeline has inputs, so --times needs a FOLDER of images"),
    "bench": (2, "PIPELINE and FOLDER are required"),
    "bench pipes:read photos": (
        1,
        "the pipeline has no input, but bench feeds it from a dataset: begin with external_source",
    ),
    "check nowhere": (2, "there is no file, folder or module 'nowhere'"),
    "check photos": (2, "the folder 'photos' contains no Python files"),
    "check broken.py": (2, "broken.py:1: '(' was never closed"),
    "check binary.py": (2, "can't read binary.py: source code string cannot contain null bytes"),
    "check pipes.py:nothing": (2, "pipes.py has no function or class 'nothing'"),
}


COMPOSED = """
from pipeline import dynamic
from pipeline.torchvision import Compose, Lambda, RandomApply, Resize, ToTensor

def darker(images):
    return dynamic.brightness(images, brightness=0.5)  # 6

train = Compose(  # 8
    [
        dynamic.decoders.image,
        Resize(8),  # 11
        RandomApply([Lambda(darker)]),
        ToTensor(),  # 13
    ]
)
"""


SCRIPT = os.path.join(sysconfig.get_path("scripts"), "dali-proxy")


@pytest.mark.parametrize("command", [("-m", "dali_proxy"), (SCRIPT,)], ids=["module", "script"])
def test_operators_of_a_compose_are_at_the_lines_of_its_transforms(command: tuple[str, ...], tmp_path: Path) -> None:
    """The command traces them without a line of the user: the input has none."""
    (tmp_path / "composed.py").write_text(COMPOSED)
    shown = subprocess.check_output(
        [sys.executable, *command, "graph", "composed:train", "--json"], cwd=tmp_path, env=with_project()
    )
    lines: dict[str, tuple[str, int]] = {}
    for node in json.loads(shown)["nodes"]:
        lines.setdefault(node["operator"], (Path(node["file"]).name, node["line"]))
    assert lines["external_source"] == ("", 0)
    assert lines["decoders.image"] == ("composed.py", 8)
    assert lines["resize"] == ("composed.py", 11)
    assert lines["brightness"] == ("composed.py", 6)
    assert lines["merge"] == ("composed.py", 12)
    assert lines["transpose"] == ("composed.py", 13)


def test_errors_are_one_line(folder: Path) -> None:
    results = run_all(folder, list(ERRORS))
    expected = [
        (status, "", f"dali-proxy {command.split()[0]}: {said}\n") for command, (status, said) in ERRORS.items()
    ]
    assert results == expected


NUMBERS = {
    "demo --epochs 0": "argument --epochs: must be 1 or more, not 0",
    "demo --workers -1": "argument --workers: must be 0 or more, not -1",
    "preview pipes:fed photos --images few": "argument --images: invalid int value: 'few'",
    "preview pipes:fed photos --size 0": "argument --size: must be 1 or more, not 0",
    "top --interval 0": "argument --interval: must be from 0.1 to 3600.0, not 0",
    "top --web --port 65536": "argument --port: must be from 0 to 65535, not 65536",
}


def test_numbers_out_of_range_are_wrong_arguments(folder: Path) -> None:
    results = run_all(folder, list(NUMBERS))
    assert [(status, errors.splitlines()[-1]) for status, _, errors in results] == [
        (2, f"dali-proxy {command.split()[0]}: error: {said}") for command, said in NUMBERS.items()
    ]


@pytest.mark.parametrize("command", ["graph pipes:fed", "completion bash", "doctor"])
def test_full_disk_is_reported_once(folder: Path, command: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dali_proxy", *command.split()],
            cwd=folder,
            env=with_project(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (1, f"dali-proxy {command.split()[0]}: No space left on device\n")


def test_commands_accept_readers_and_functions(folder: Path) -> None:
    commands = [
        "preview pipes:read photos --images 1 --draws 2 --output read.png",
        "preview pipes:function photos --images 2 --output function.png",
        "graph pipes:fed --set size=5 --format mermaid",
        "graph pipes.py:read photos --json",
    ]
    results = run_all(folder, commands)
    assert [(status, errors) for status, _, errors in results] == [(0, "")] * len(commands)
    assert {"read.png", "function.png"} <= {path.name for path in folder.iterdir()}
    assert results[2][1].startswith("flowchart TD\n")
    document: Any = json.loads(results[3][1])
    decoder = document["nodes"][1]
    assert (decoder["operator"], decoder["inputs"]) == ("decoders.image", [[0, 0]])
    assert decoder["milliseconds_per_sample"] > 0
    assert "fn.decoders.image" in document["program"]


def test_check_reports_what_is_missing(folder: Path) -> None:
    (folder / "train.py").write_text(
        "from nvidia.dali import fn\nfn.magic(1)\nfn.random.uniform()\nfn.decoders.image(2)\n"
    )
    plain, everything, as_json = run_all(
        folder, ["check train.py", "check --all train.py pipes.py", "check --json train"]
    )
    assert plain[0] == everything[0] == as_json[0] == 1
    assert "train.py:2: missing: fn.magic: dali-proxy doesn't have it" in plain[1]
    assert "train.py:3: differs: fn.random.uniform: random numbers" in plain[1]
    assert len(plain[1].splitlines()) == 3
    assert plain[1].endswith("1 missing, 1 different; 4 uses of DALI's names checked; --all lists 2 more\n")
    assert "train.py:4: note: fn.decoders.image: " in everything[1]
    assert "--all" not in everything[1]
    document: Any = json.loads(as_json[1])
    assert document["findings"][0] == {
        "file": "train.py",
        "line": 2,
        "kind": "missing",
        "name": "fn.magic",
        "message": "dali-proxy doesn't have it",
    }


def test_doctor_prints_json(folder: Path) -> None:
    ((status, output, _),) = run_all(folder, ["doctor --json"])
    document: Any = json.loads(output)
    assert (status, document["ready"]) == (0, True)
    names = [check["name"] for check in document["checks"]]
    assert {"driver", "cuda", "nvImageCodec", "memlock", "/dev/shm", "file descriptors", "fork", "codecs"} <= set(names)
