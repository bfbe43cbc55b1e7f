"""Run Python programs in processes that have already imported torch and this project.

A fresh interpreter needs seconds for these imports. Programs whose start isn't the subject of their test fork from
multiprocessing's fork server instead, which imports them once for each process that runs tests.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from types import ModuleType

__all__ = ["preload", "run_python"]

_STREAMS = ("stdout", "stderr")


def preload() -> None:
    """Choose the modules that the fork server of this process imports when it starts."""
    multiprocessing.set_forkserver_preload(
        [
            *("dali_proxy._loader.loader", "dali_proxy._server.server", "dali_proxy._host.__main__", "pipeline.fn"),
            "torch._dynamo",
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
    with TemporaryDirectory() as folder:
        process = multiprocessing.get_context("forkserver").Process(
            target=_run, args=(arguments, cwd, env, folder, forks_servers)
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = process.exitcode
        process.close()
        assert code is not None
        output, errors = ((Path(folder) / name).read_text(encoding="utf-8") for name in _STREAMS)
        return CompletedProcess(arguments, code, output, errors)


def _run(arguments: tuple[str, ...], cwd: str | Path, env: Mapping[str, str], folder: str, forks: bool) -> None:
    import torch  # not by the processes that run tests

    from tests.warm_servers import forked_servers

    for number, name in enumerate(_STREAMS, 1):
        descriptor = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None
    multiprocessing.set_start_method(None, force=True)  # the program's processes start as in a fresh interpreter
    multiprocessing.current_process().name = "MainProcess"
    warnings.simplefilter("error", SyntaxWarning)
    if "OMP_NUM_THREADS" in env:
        torch.set_num_threads(int(env["OMP_NUM_THREADS"]))
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
