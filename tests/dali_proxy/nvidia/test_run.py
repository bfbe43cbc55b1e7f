"""`dali-proxy run`: scripts written for NVIDIA DALI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import with_project
from tests.thorough import thorough_except

WORDS = """
import sys
from pathlib import Path
import beside
from nvidia.dali import pipeline_def
print(sys.argv[1:], Path(sys.argv[0]).name, __name__, beside.VALUE, pipeline_def.__module__.partition(".")[0])
sys.exit(5)
"""

SPAWN = """
import numpy as np
from nvidia.dali import fn, pipeline_def
import nvidia.dali.plugin.pytorch.experimental.proxy as dali_proxy


class Numbers:
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return self.transform(np.full(2, index, np.float32))


@pipeline_def
def doubled():
    return fn.external_source(name="numbers", no_copy=True) * 2


if __name__ == "__main__":
    with dali_proxy.DALIServer(doubled(batch_size=4, num_threads=1, device_id=None)) as server:
        loader = dali_proxy.DataLoader(
            server, Numbers(server.proxy), batch_size=4, num_workers=1, multiprocessing_context="spawn"
        )
        print([batch[:, 1].tolist() for batch in loader])
"""


PROCESSES = """
import argparse
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pipeline as beside
from nvidia.dali import fn, pipeline_def


@pipeline_def(batch_size=2, num_threads=1, device_id=0)
def scaled(factor):
    return fn.external_source(lambda: np.full((2, 1), beside.VALUE, np.float32)).gpu() * factor


def first(factor):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipe = scaled(factor)
        pipe.build()
    (batch,) = pipe.run()
    return batch.as_array().ravel().tolist(), type(batch).__name__, len(caught)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--factor", type=int, default=1)
    factor = parser.parse_args().factor
    for method in ("fork", "spawn"):
        with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            print(method, *pool.submit(first, factor).result())
    print("here", *first(factor))
"""


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dali_proxy", "run", *words],
        cwd=folder,
        env=with_project(),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "words.py").write_text(WORDS)
    (folder / "beside.py").write_text("VALUE = 7\n")
    return folder


def test_script_gets_the_same_surroundings_as_from_python(scripts: Path, tmp_path: Path) -> None:
    done = run("scripts/words.py", "--flag", "-m", "x", folder=tmp_path)
    assert done.stdout.strip() == "['--flag', '-m', 'x'] words.py __main__ 7 dali_proxy", done.stderr
    assert done.returncode == 5


def test_module(scripts: Path) -> None:
    done = run("-m", "words", "-m", folder=scripts)
    assert done.stdout.strip() == "['-m'] words.py __main__ 7 dali_proxy", done.stderr
    assert done.returncode == 5


def test_link_to_a_script_finds_the_modules_beside_the_script(scripts: Path, tmp_path: Path) -> None:
    """`__file__` is an absolute path, so the script may change its working directory."""
    code = "import os\nimport beside\nos.chdir('/')\nprint(beside.VALUE, __file__, os.path.exists(__file__))\n"
    (scripts / "linked.py").write_text(code)
    (tmp_path / "link.py").symlink_to(scripts / "linked.py")
    assert run("link.py", folder=tmp_path).stdout.strip() == f"7 {tmp_path / 'link.py'} True"
    done = subprocess.run([sys.executable, "link.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"7 {tmp_path / 'link.py'} True", "as Python does"


def test_missing_script_is_an_error(tmp_path: Path) -> None:
    done = run("missing.py", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == "dali-proxy run: the script 'missing.py' doesn't exist"


def test_missing_module_is_an_error_of_one_line(tmp_path: Path) -> None:
    done = run("-m", "missing.part", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == "dali-proxy run: there is no module 'missing.part'"


@pytest.mark.thorough
def test_workers_that_are_spawned_import_the_script_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPAWN)
    done = run("train.py", folder=tmp_path)
    assert done.stdout.strip() == str([[0.0, 2.0, 4.0, 6.0], [8.0, 10.0, 12.0, 14.0], [16.0, 18.0, 20.0, 22.0]]), (
        done.stderr
    )


@pytest.mark.parametrize(
    "how",
    thorough_except([["scripts/processes.py"], ["-m", "scripts.processes"]], ["scripts/processes.py"]),
    ids=["script", "module"],
)
def test_processes_of_a_script_run_its_pipelines_on_the_cpu(scripts: Path, tmp_path: Path, how: list[str]) -> None:
    """The script has arguments, a main guard and a module named `pipeline`, and its children import it again."""
    (scripts / "processes.py").write_text(PROCESSES)
    ((tmp_path if "-m" in how else scripts) / "pipeline.py").write_text("VALUE = 7\n")
    done = run("--device", "cpu", *how, "--factor", "3", folder=tmp_path)
    expected = [f"{where} [21.0, 21.0] MovedTensorListCPU 1" for where in ("fork", "spawn", "here")]
    assert done.stdout.splitlines() == expected, done.stderr
