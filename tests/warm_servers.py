"""Start the servers of tests by forking a process that has already imported the modules of a server.

A fresh interpreter takes most of a second of processor time for these imports, or four with torch's. A fork has the
environment, descriptors, working directory, session and parent of a fresh interpreter, and then runs the same function.
"""

from __future__ import annotations

import array
import ctypes
import os
import pickle
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dali_proxy._host import process
from dali_proxy._pool import pool_process
from dali_proxy.pipeline._ipc.interpreter import child_environment

__all__ = ["forked_servers", "warm_servers"]

FRESH = "DALI_PROXY_FRESH_SERVERS"
"""Environment variable. With the value 1, the servers of tests start as fresh interpreters, as those of users."""

_STARTERS = (process, pool_process)
_CALLS = ("sys.exit(main())", "main()")  # what the programs of the starters end with
_PR_SET_CHILD_SUBREAPER = 36
_EARLY = ("LD_", "PYTHON", "MALLOC_", "GLIBC_", "OMP_", "OPENBLAS_", "OPENCV_", "DALI_PROXY_DEBUG", "DALI_PROXY_NATIVE")
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]

# The end of the program of a template. The parent of a server ends at once, so that the process that runs the tests,
# which is the parent of the template, adopts the server and can wait for it.
_SERVE = """
import array, gc, os, pickle, socket, sys
collects = gc.isenabled()
gc.disable()
requests = socket.socket(fileno=int(sys.argv[1]))
while True:
    data, control, *_ = requests.recvmsg(1 << 20, socket.CMSG_SPACE(64))
    if not data:
        os._exit(0)
    descriptors = array.array("i")
    for *_, each in control:
        descriptors.frombytes(each)
    parent = os.fork()
    if parent == 0:
        pid = os.fork()
        if pid:
            requests.send(str(pid).encode())
            os._exit(0)
        requests.close()
        os.setsid()
        environment, folder = pickle.loads(data)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        for number, each in enumerate(descriptors[:2], 1):
            os.dup2(each, number)
            os.close(each)
        sys.argv[1] = str(descriptors[2])
        if collects:
            gc.enable()
        sys.exit(main())
    for each in descriptors:
        os.close(each)
    os.waitpid(parent, 0)
    requests.send(b"adopted")
"""


class _Server(subprocess.Popen[bytes]):
    """A child of this process that another process forked."""

    def __init__(self, arguments: Sequence[str], pid: int) -> None:
        values = {"args": arguments, "pid": pid, "returncode": None, "stdin": None, "stdout": None, "stderr": None}
        own = {"_child_created": True, "_waitpid_lock": threading.Lock(), "_sigint_wait_secs": 0.25}
        vars(self).update(values, **own, _input=None, _communication_started=False)


class _Template:
    """A process, started when it is first needed, that has imported what the program of a starter imports.

    Args:
        starter: the module that starts servers.
    """

    def __init__(self, starter: ModuleType) -> None:
        self._owner, self._limits = os.getpid(), _limits()
        self._starter = starter
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._early: dict[str, str] = {}
        self._requests, self._theirs = _sockets()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def popen(self, arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Return the process of a server, as `subprocess.Popen` does; a fork, if it begins in the same state."""
        alike = os.getpid() == self._owner and arguments[0] == sys.executable and self._limits == _limits()
        if not alike or not self._begin(arguments, options["env"]):
            return subprocess.Popen(arguments, **options)
        with self._lock:
            return _Server(arguments, self._fork(int(arguments[-1]), options["env"], options["cwd"]))

    def close(self) -> None:
        self._requests.shutdown(socket.SHUT_RDWR)  # forks of this process may have it open, too
        self._requests.close()
        self._theirs.close()
        if self._process is not None:
            self._process.wait()

    def _begin(self, arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Start the template if it doesn't run. Return whether its imports depend on the same environment."""
        early = _early(environment)
        with self._lock:
            if self._process is not None and self._process.poll() is not None:  # a test has killed all children
                self._process = None
                self._requests.close()
                self._requests, self._theirs = _sockets()
            if self._process is None:
                self._early = early
                with self._theirs:
                    number = self._theirs.fileno()
                    self._process = subprocess.Popen(
                        [*arguments[:-2], _imports(self._starter) + _SERVE, str(number)],
                        stdin=subprocess.DEVNULL,
                        pass_fds=(number,),
                        env=environment,
                        start_new_session=True,
                    )
        return early == self._early and arguments[-2] == self._starter._PROGRAM

    def _fork(self, channel: int, environment: Mapping[str, str], folder: str) -> int:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1, 2, channel]))]
        with _adopting_orphans():
            self._requests.sendmsg([pickle.dumps((dict(environment), folder))], rights)
            pid = int(self._requests.recv(64))
            assert self._requests.recv(64) == b"adopted"
        return pid


class _ForkedTemplate(_Template):
    """A template that is a fork of this process, which has one thread and has imported what a server imports."""

    def __init__(self) -> None:
        super().__init__(process)
        with self._theirs:
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    self._requests.close()
                    sys.argv = ["-c", str(self._theirs.detach())]
                    exec(_imports(process) + _SERVE, {"__name__": "__main__"})
                except SystemExit as ended:
                    status = ended.code if isinstance(ended.code, int) else 1
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(status)
        self._process = _Server([], pid)
        self._early = _early(child_environment())


templates: list[_Template] = []
"""The templates of this process."""


@contextmanager
def forked_servers() -> Iterator[None]:
    """Let this process start its servers as forks of what it is now: it has imported torch, and has one thread."""
    if os.environ.get(FRESH) == "1":
        yield
        return
    with pytest.MonkeyPatch.context() as patch, closing(_ForkedTemplate()) as template:
        patch.setattr(process, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": template.popen}))
        yield


@contextmanager
def warm_servers() -> Iterator[None]:
    """Let this process fork its servers inside the block."""
    if os.environ.get(FRESH) == "1":
        yield
        return
    with pytest.MonkeyPatch.context() as patch, ExitStack() as running:
        for starter in _STARTERS:
            template = running.enter_context(closing(_Template(starter)))
            patch.setattr(starter, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": template.popen}))
            templates.append(template)
        yield
        templates.clear()


def _imports(starter: ModuleType) -> str:
    """Return the program of a starter without the call at its end."""
    program: str = starter._PROGRAM
    for call in _CALLS:
        program = program.replace(call, "")
    return program


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that imports depend on."""
    return {name: value for name, value in environment.items() if name.startswith(_EARLY)}


def _sockets() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _limits() -> Any:
    """Return limits that a child inherits."""
    return os.sched_getaffinity(0), [resource.getrlimit(each) for each in _LIMITS], os.nice(0)


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Let this process become the parent of descendants whose parent ends."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0)
