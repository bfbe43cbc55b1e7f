"""The training scripts of `dali-proxy new`: each runs, learns, and resumes."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from dali_proxy._new import FRAMEWORKS, KINDS, write_script
from tests.environment import with_project
from tests.preloaded import run_in_turn

LINE = re.compile(r"^epoch (\d+): loss (\S+), \w+ ([\d.]+)%$", re.MULTILINE)
#: The score in percent that two epochs reach at least. Guessing reaches a third with three classes.
SCORES = {
    "audio": 45.0,
    "classification": 30.0,
    "contrastive": 8.0,
    "detection": 1.0,
    "segmentation": 40.0,
    "video": 30.0,
    "vlm": 20.0,
    "volumes": 30.0,
}
pytestmark = pytest.mark.timeout(300)  # each takes 10 s of processor time, most of it for imports


def run(folder: Path, *arguments: str) -> str:
    (done,) = run_all(folder, arguments)
    return succeeded(done)


def run_all(folder: Path, *calls: tuple[str, ...], framework: str = "") -> list[CompletedProcess[str]]:
    """Run a script with the arguments of each call, one after the other."""
    program = (str(folder / "train.py"), "--num-threads", "2", "--num-workers", "1")
    programs = [(*program, *arguments) for arguments in calls]
    environment = with_project(OMP_NUM_THREADS="1")
    return run_in_turn(programs, after_import=framework, cwd=folder, env=environment, forks_servers=True)


def succeeded(done: CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def epochs(said: str) -> list[tuple[int, float, float]]:
    return [(int(epoch), float(loss), float(score)) for epoch, loss, score in LINE.findall(said)]


def test_all_kinds_are_run() -> None:
    assert set(KINDS) == set(SCORES)
    assert FRAMEWORKS == ("lightning", "torch")


@pytest.mark.parametrize("kind", KINDS)
def test_script_learns_from_generated_data(kind: str, tmp_path: Path) -> None:
    if kind == "video" and importlib.util.find_spec("av") is None:
        pytest.skip("videos need PyAV")
    write_script(tmp_path / "train.py", kind, "torch")
    first, second = epochs(run(tmp_path, "--epochs", "2"))
    assert second[1] < first[1]
    assert max(first[2], second[2]) >= SCORES[kind]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_script_resumes_and_missing_data_is_an_error(framework: str, tmp_path: Path) -> None:
    if framework == "lightning" and importlib.util.find_spec("lightning") is None:
        pytest.skip("needs lightning: pip install 'dali-proxy[examples]'")
    write_script(tmp_path / "train.py", "audio", framework)
    missing = ("--data", str(tmp_path / "onw"))
    *runs, refused = run_all(tmp_path, ("--epochs", "1"), ("--epochs", "2"), missing, framework=framework)
    said, resumed = map(succeeded, runs)
    (first,) = epochs(said)
    assert "resumed from" in resumed
    (second,) = epochs(resumed)
    assert second[0] == 2
    assert second[1] < first[1]
    assert refused.returncode == 2
    assert "onw doesn't exist" in refused.stderr
    assert not (tmp_path / "onw").exists()


def test_interrupted_script_saves_and_continues_with_the_next_batch(tmp_path: Path) -> None:
    write_script(tmp_path / "train.py", "audio", "torch")
    path = tmp_path / "train.py"
    path.write_text(  # Ctrl-C reaches all processes of the terminal in the second batch
        path.read_text().replace(
            "                losses.append(",
            "                if step == 2 and not options.checkpoint.exists():\n"
            "                    import multiprocessing\n"
            "                    for pid in (os.getpid(), *(each.pid for each in multiprocessing.active_children())):\n"
            "                        os.kill(pid, signal.SIGINT)\n"
            "                losses.append(",
        )
    )
    arguments = ("--epochs", "1", "--batch-size", "8")
    said = run(tmp_path, *arguments)
    assert "interrupted in epoch 1: saved" in said
    said = run(tmp_path, *arguments)
    assert (left := re.search(r"^epoch 1: .*\(loss of the last (\d+) batches\)$", said, re.MULTILINE)), said
    files = len([*(tmp_path / "data" / "train").rglob("*.wav")])
    assert int(left[1]) == -(-files // 8) - 2
    assert "already trained for 1 epochs: raise --epochs" in run(tmp_path, *arguments)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("kind", KINDS)
def test_script_imports_nothing_private(kind: str, framework: str, tmp_path: Path) -> None:
    write_script(tmp_path / "train.py", kind, framework)
    text = (tmp_path / "train.py").read_text(encoding="utf-8")
    modules = [each.module for each in ast.walk(ast.parse(text)) if isinstance(each, ast.ImportFrom)]
    assert [each for each in modules if each and "._" in each] == []
    assert text.count("from __future__") == 1
    assert len(text.splitlines()) < 300
    with pytest.raises(FileExistsError):
        write_script(tmp_path / "train.py", kind, framework)
