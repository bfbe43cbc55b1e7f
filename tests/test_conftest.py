"""Tests of the shared fixtures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import conftest

CARELESS = """
import os
from tests import leftovers

def test_careless():
    leftovers.PATIENCE_S = 0.05
    os.memfd_create("forgotten")
"""

SWALLOWING = """
import subprocess
import sys

PROGRAM = \'\'\'
from contextlib import suppress
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
with new_lock(Level.LEAF, "inner"), suppress(RuntimeError), new_lock(Level.SERVER, "outer"):
    pass
\'\'\'

def test_swallowing():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)

def test_later():
    pass
"""

ON_THE_GPU = """
import pytest

@pytest.mark.gpu
def test_gpu_only():
    pass

def test_anywhere():
    pass
"""

MANY_CASES = """
import pytest
from tests.thorough import thorough_except

@pytest.mark.combinations
@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize(("b", "c"), [(0, 0), pytest.param(1, 2, marks=pytest.mark.gpu), (3, 4)])
def test_combinations(a, b, c):
    print(f"combination {a} {b} {c}")

@pytest.mark.parametrize("name", thorough_except("abcd", "b", "d"))
def test_except(name):
    print(f"letter {name}")

@pytest.mark.parametrize(("a", "b"), thorough_except([(1, 2), (3, 4)], (3, 4)))
def test_except_pair(a, b):
    print(f"letter {a}{b}")
"""


def run_pytest(folder: Path, test: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one test file in a separate session, with the same fixtures."""
    (folder / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    command += ["-c", str(conftest.ROOT / "pyproject.toml"), f"--confcutdir={folder}", str(folder)]
    return subprocess.run(
        [*command, *arguments], cwd=conftest.ROOT, capture_output=True, text=True, timeout=150, check=False
    )


def test_leftovers_fail_their_test(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, CARELESS)
    assert re.search(r"test_careless left behind:\n +descriptor \d+: /memfd:forgotten \(deleted\)", run.stdout)
    assert "1 passed, 1 error" in run.stdout, "the leftovers of a test aren't reported again for its module"
    assert run.returncode == 1


def test_lock_order_that_another_process_breaks_fails_the_test(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, SWALLOWING)
    expected = "a thread takes the lock 'outer' (level SERVER) while it holds 'inner' (level LEAF)"
    assert f"before test_swallowing ended:\n{expected}" in run.stdout
    assert "2 passed, 1 error" in run.stdout
    assert run.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        ((), "1 passed, 1 deselected"),
        (("-m", "not gpu"), "1 passed, 1 deselected"),
        (("-m", "gpu"), "1 passed, 1 deselected" if conftest._gpu_is_there() else "2 deselected"),
    ],
)
def test_gpu_tests_run_only_on_request(tmp_path: Path, arguments: tuple[str, ...], summary: str) -> None:
    run = run_pytest(tmp_path, ON_THE_GPU, *arguments)
    assert run.stdout.splitlines()[-1].startswith(summary), run.stdout + run.stderr


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("not gpu and not thorough", ["0 0 0", "0 3 4", "1 0 0", "2 0 0", "34", "b", "d"]),
        ("thorough and not gpu", ["1 3 4", "12", "2 3 4", "a", "c"]),
    ],
)
def test_thorough_tests_repeat_with_other_values(tmp_path: Path, marks: str, expected: list[str]) -> None:
    run = run_pytest(tmp_path, MANY_CASES, "-s", "-m", marks)
    assert sorted(re.findall(r"(?:combination|letter) (.*)$", run.stdout, re.MULTILINE)) == expected


def test_jpeg_folder(jpeg_folder: Path) -> None:
    files = sorted(jpeg_folder.glob("*/*.jpg"))
    assert len(files) == conftest.CLASSES * conftest.IMAGES_PER_CLASS == 24
    assert len({path.parent for path in files}) == conftest.CLASSES
    sizes = set()
    for path in files:
        with Image.open(path) as image:
            assert image.mode == "RGB"
            assert np.asarray(image).std() > 1
            sizes.add(image.size)
    assert len(sizes) == len(files)


def test_photographs_without_dali_extra() -> None:
    pytest.importorskip("skimage")
    photographs = dict(conftest._photographs(None))
    assert len(photographs) == conftest.CLASSES
    assert all(min(image.size) >= 288 for image in photographs.values())
