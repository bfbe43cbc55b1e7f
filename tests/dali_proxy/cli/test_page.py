"""The commands of docs/howto/command-line.md run as they are written there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.environment import ROOT, with_project
from tests.preloaded import run_python

PAGE = (ROOT / "docs/howto/command-line.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]
#: For a measurement without a value.
QUICK = ["--workers", "0", "--threads", "1", "--rounds", "1", "--seconds", "0.01", "--batch-size", "2"]


@pytest.fixture
def folder(tmp_path: Path, jpeg_folder: Path) -> Path:
    """Return a folder with the page's files and images."""
    fences = {"pipes.py": '```python title="pipes.py"', "old.py": "`old.py`:\n\n```python notest=.*?"}
    for name, fence in fences.items():
        script = re.search(rf"^.*?{fence}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
        assert script
        (tmp_path / name).write_text(script[1])
    (tmp_path / "photos").symlink_to(jpeg_folder)
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "dali_proxy", *words, cwd=folder, env=with_project())


@pytest.mark.parametrize("command", COMMANDS)
def test_command_runs(command: str, folder: Path) -> None:
    program, name, *words = shlex.split(command)
    assert program == "dali-proxy"
    if name == "completion":
        pytest.importorskip("shtab", reason="shtab isn't installed: pip install 'dali-proxy[completion]'")
    done = run(folder, name, *words, *(QUICK if name == "bench" else []))
    status = 1 if name == "check" else 0  # the script needs something that is missing
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout
    if name == "bench":
        assert "num_workers=0, num_threads=1 " in done.stdout
        assert "(torch: PIL: decode, resize to 160 x 160, convert to float; nothing else)" in done.stdout


def test_page_lists_all_commands() -> None:
    from dali_proxy._cli.command import find_commands

    assert [name for name in find_commands() if f"`{name}`" not in PAGE] == []
