"""Run Python programs in processes that have already imported torch and this project.

A fresh interpreter needs seconds for these imports. Programs whose start isn't the subject of their test fork from
multiprocessing's fork server instead, which imports them once for each process that runs tests.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from types import ModuleType

__all__ = ["preload", "run_in_turn", "run_python"]

_STREAMS = ("stdout", "stderr")


def preload() -> None:
    """Choose the modules that the fork server of this process imports when it starts."""
    multiprocessing.set_forkserver_preload(
        [
            *("dali_proxy._loader.loader", "dali_proxy._server.serve", "dali_proxy._host.__main__", "pipeline.fn"),
            *("dali_proxy._worker.proxy", "dali_proxy.pipeline.dynamic", "torch._dynamo", "tests.frozen"),
        ]
    )


def run_python(
    *arguments: str, cwd: str | Path, env: Mapping[str, str], timeout: float = 290.0, forks_servers: bool = False
) -> CompletedProcess[str]:
    """Run `python` with a script, `-m MODULE` or `-c CODE`, and return its exit status and what it printed.

    Unlike a fresh interpreter, the process doesn't call the functions of `atexit`.

    Args:
        arguments: the program, as on the command line, and its arguments.
        cwd: working directory.
        env: environment variables; OMP_NUM_THREADS is the only one that has an effect on torch.
        timeout: seconds that it may take.
        forks_servers: whether its servers are forks, too, not fresh interpreters. Those of its children aren't.
    """
    (done,) = run_in_turn([arguments], cwd=cwd, env=env, timeout=timeout, forks_servers=forks_servers)
    return done


def run_in_turn(
    programs: Sequence[tuple[str, ...]],
    *,
    after_import: str = "",
    cwd: str | Path,
    env: Mapping[str, str],
    timeout: float = 290.0,
    forks_servers: bool = False,
) -> list[CompletedProcess[str]]:
    """Run programs, one after the other, as `run_python` does. Those after one that fails may run, too.

    Args:
        programs: the programs and their arguments.
        after_import: a module that takes seconds to import, and that all programs import: it is imported once.
        cwd: working directory.
        env: environment variables.
        timeout: seconds that all of them may take.
        forks_servers: as in `run_python`.
    """
    with TemporaryDirectory() as folder:
        process = multiprocessing.get_context("forkserver").Process(
            target=_run_all, args=(programs, after_import, cwd, env, folder, forks_servers)
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = process.exitcode
        process.close()
        assert code is not None
        return [_ended(arguments, Path(folder) / str(number), code) for number, arguments in enumerate(programs)]


def _ended(arguments: tuple[str, ...], folder: Path, status: int) -> CompletedProcess[str]:
    """Return what a program printed, and its own exit status, or that of the process that should have run it."""
    output, errors, code = (
        path.read_text(encoding="utf-8") if (path := folder / name).exists() else "" for name in (*_STREAMS, "status")
    )
    return CompletedProcess(arguments, int(code or status), output, errors)


def _run_all(
    programs: Sequence[tuple[str, ...]],
    after_import: str,
    cwd: str | Path,
    env: Mapping[str, str],
    folder: str,
    forks: bool,
) -> None:
    import torch  # not by the processes that run tests

    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None
    if "OMP_NUM_THREADS" in env:
        torch.set_num_threads(int(env["OMP_NUM_THREADS"]))
    if after_import:
        importlib.import_module(after_import)
    for number, arguments in enumerate(programs):
        outputs = Path(folder) / str(number)
        outputs.mkdir()
        if len(programs) == 1:
            _run(arguments, outputs, forks)
            return
        process = multiprocessing.get_context("fork").Process(target=_run, args=(arguments, outputs, forks))
        process.start()
        process.join()
        (outputs / "status").write_text(str(process.exitcode))


def _run(arguments: tuple[str, ...], folder: Path, forks: bool) -> None:
    from tests.warm_servers import forked_servers

    for number, name in enumerate(_STREAMS, 1):
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    multiprocessing.set_start_method(None, force=True)  # the program's processes start as in a fresh interpreter
    multiprocessing.current_process().name = "MainProcess"
    warnings.simplefilter("error", SyntaxWarning)
    with forked_servers() if forks else nullcontext():
        _run_program(arguments)


def _run_program(arguments: tuple[str, ...]) -> None:
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.modules["__main__"] = module = ModuleType("__main__")
        exec(arguments[1], vars(module))
    else:
        sys.argv = list(arguments)
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")
