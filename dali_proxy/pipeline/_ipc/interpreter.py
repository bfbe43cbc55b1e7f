"""Environment of fresh interpreters, which must find this package and the user's modules."""

from __future__ import annotations

import os
import signal
import site
import sys
from collections.abc import Iterable
from multiprocessing import spawn
from pathlib import Path

from dali_proxy.pipeline._ipc.library_imports import protect_library_imports
from dali_proxy.pipeline.errors import BuildError

_PARENT_PYTHONPATH = "DALI_PROXY_PARENT_PYTHONPATH"  # keeps the user's PYTHONPATH while a child starts with another one


def interpreter_path() -> str:
    """Return the path of the Python that runs this process.

    Programs that embed Python choose the interpreter with `multiprocessing.set_executable`.

    Raises:
        BuildError: the path is unknown.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (spawn.get_executable(), sys.executable, os.path.join(sys.exec_prefix, "bin", name)):
        if path and os.access(path, os.X_OK):
            return os.path.abspath(os.fsdecode(path))
    raise BuildError(
        f"no other Python process can be started, because sys.executable is {sys.executable!r}: say which Python to "
        'start with multiprocessing.set_executable("/path/to/python"), or use mode="thread"'
    )


def child_environment(**more: str) -> dict[str, str]:
    """Return the environment of a child that must find this package where this process found it."""
    package = str(Path(__file__).resolve().parents[3])
    inherited = os.environ.get("PYTHONPATH", "")
    paths = [inherited] if package in (*site.getsitepackages(), site.getusersitepackages()) else [package, inherited]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        _PARENT_PYTHONPATH: inherited,
        **more,
    }


def import_path() -> tuple[str, ...]:
    """Return the entries of `sys.path` that imports use."""
    return tuple(path for path in sys.path if isinstance(path, str))  # imports ignore others, too


def adopt_import_path(paths: Iterable[str | Path]) -> None:
    """Import the user's modules from where the parent does, and restore its PYTHONPATH for processes of the child.

    Modules of Python's library that libraries import later aren't hidden by modules of the user.
    """
    protect_library_imports()
    sys.path[:] = map(str, paths)
    inherited = os.environ.pop(_PARENT_PYTHONPATH, "")
    os.environ.pop("PYTHONPATH", None)
    if inherited:
        os.environ["PYTHONPATH"] = inherited


def listen_to_signals() -> None:
    """Unblock the signals that the parent's thread blocked or ignored, so that the child can be terminated."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def working_directory() -> str:
    """Return the working directory of this process, or an empty string if it was removed or can't be read."""
    try:
        return os.getcwd()
    except OSError:
        return ""
