"""The command ``dali-proxy``, in separate processes."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import dali_proxy
from dali_proxy._cli import command_line, interrupts
from dali_proxy._cli.command import Command
from dali_proxy._doctor import Check, examine, gpu_problem
from tests.environment import ROOT, with_project
from tests.preloaded import run_python
from tests.waiting import wait_until


def run(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "dali_proxy", *words, cwd=folder, env=with_project())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--help"], "doctor"),
        (["demo", "--help"], "--picture"),
        (["bench", "--help"], "--torch"),
        (["bench", "--repository", "--help"], "--rivals"),
        (["doctor", "--help"], "usage"),
        (["run", "--help"], "With --device cpu, a script for a GPU runs on a machine without one."),
    ],
)
def test_help(words: list[str], expected: str) -> None:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout


def test_commands_are_listed_if_none_is_given() -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == run("--help").stdout


def test_doctor_lists_the_installation() -> None:
    done = run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torch" in done.stdout
    assert done.stdout.rstrip().endswith("Ready.")


def test_unknown_device_is_one_line_and_no_traceback() -> None:
    done = run("demo", "--device", "tpu")
    assert done.returncode == 1
    assert done.stderr.strip() == "dali-proxy demo: unknown device 'tpu': use auto, cpu or cuda:0"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["demo", "--device", "cuda:99"], 1, "dali-proxy demo: cuda:99 can't be used: "),
        (["demo", "--picture", "nowhere/batch.png"], 1, "dali-proxy demo: the folder for the image nowhere/"),
        (["run", "--device", "tpu", "x.py"], 2, "dali-proxy run: error: argument --device: invalid choice: 'tpu'"),
        (["run"], 2, "dali-proxy run: error: the following arguments are required: SCRIPT"),
    ],
)
def test_impossible_options_are_errors_at_once(words: list[str], status: int, said: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (status, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(said)
    assert "ARGUMENT" not in last


def test_version() -> None:
    assert run("--version").stdout == f"dali-proxy {dali_proxy.__version__}\n"
    assert dali_proxy.__version__ == "unknown" or dali_proxy.__version__[0].isdigit()


def test_ctrl_c_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-u", "-m", "dali_proxy", "demo"],
        cwd=tmp_path,
        env=with_project(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that the signal reaches all its processes, like Ctrl-C
    )
    assert demo.stdout is not None
    demo.stdout.readline()
    os.killpg(demo.pid, signal.SIGINT)
    _, errors = demo.communicate(timeout=60)
    assert (demo.returncode, errors.strip()) == (130, "dali-proxy: interrupted")


def test_ctrl_c_that_becomes_another_error_is_still_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(options: argparse.Namespace) -> int:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise AttributeError("module 'numpy' has no attribute 'void'") from None  # as an import of NumPy does
        return 0

    monkeypatch.setattr(command_line, "find_commands", lambda: {"broken": Command("break an import", execute)})
    before = signal.getsignal(signal.SIGINT)
    assert command_line.main(["broken"]) == 130
    assert capsys.readouterr().err.strip() == "dali-proxy: interrupted"
    assert signal.getsignal(signal.SIGINT) is before


def interrupted(monkeypatch: pytest.MonkeyPatch, execute: Callable[[argparse.Namespace], int]) -> int:
    """Return the status of a command."""
    monkeypatch.setattr(command_line, "find_commands", lambda: {"broken": Command("meet an interrupt", execute)})
    return command_line.main(["broken"])


def test_ctrl_c_that_is_discarded_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    class Finalized:
        def __del__(self) -> None:
            with suppress(KeyboardInterrupt):  # what Python does, which would also report it here
                signal.raise_signal(signal.SIGINT)

    def execute(options: argparse.Namespace) -> int:
        Finalized()
        with pytest.raises(KeyboardInterrupt):
            wait_until(lambda: False)
        repeated.append(True)
        return 0

    repeated: list[bool] = []
    assert interrupted(monkeypatch, execute) == 0
    assert repeated
    assert not [thread for thread in threading.enumerate() if thread.name == "dali-interrupt"]


def test_ctrl_c_while_torch_is_imported_is_raised_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fragile:
        def __getattr__(self, name: str) -> None:
            signal.raise_signal(signal.SIGINT)
            imported.append(name)

    def execute(options: argparse.Namespace) -> int:
        exec(compile("signal.numpy", "torch/__init__.py", "exec"), {"__name__": "torch", "signal": Fragile()})
        with pytest.raises(KeyboardInterrupt):
            wait_until(lambda: False)
        imported.append("interrupted")
        return 0

    imported: list[str] = []
    assert interrupted(monkeypatch, execute) == 0
    assert imported == ["numpy", "interrupted"]


def test_ctrl_c_is_not_repeated_while_a_command_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    checks, ended, is_ending = [], [], interrupts._is_ending
    monkeypatch.setattr(interrupts, "_PATIENCE", 0.001)
    monkeypatch.setattr(interrupts, "_is_ending", lambda thread: checks.append(thread) or is_ending(thread))

    def execute(options: argparse.Namespace) -> int:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            try:
                raise OSError
            except OSError:
                wait_until(lambda: len(checks) > 20)
            ended.append(True)
        return 0

    assert interrupted(monkeypatch, execute) == 130
    assert ended


def test_ctrl_c_while_commands_are_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command_line, "find_commands", lambda: signal.raise_signal(signal.SIGINT))
    assert command_line.main([]) == 130
    assert capsys.readouterr().err.strip() == "dali-proxy: interrupted"


def test_ctrl_c_in_text_that_is_executed_gives_the_same_status() -> None:
    program = """
import argparse, signal, sys
from dali_proxy._cli import command_line, interrupts
from dali_proxy._cli.command import Command
execute = lambda options: exec("signal.raise_signal(signal.SIGINT)")
command_line.find_commands = lambda: {"broken": Command("meet an interrupt", execute)}
sys.exit(command_line.main(["broken"]))
"""
    done = subprocess.run([sys.executable, "-c", program], env=with_project(), capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (130, "dali-proxy: interrupted")


def test_checks_are_named_once() -> None:
    checks = list(examine())
    assert all(isinstance(check, Check) for check in checks)
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    assert {check.status for check in checks} <= {"ok", "warning", "missing", "optional"}


def test_missing_gpu_has_a_reason() -> None:
    assert gpu_problem(99)
