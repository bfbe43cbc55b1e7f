"""Detection of leftovers of tests: processes, threads, descriptors, shared memory and folders."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

PATIENCE_S = 20.0
"""Seconds that ending resources may take on a busy machine. Only tests that leave something behind wait so long."""

ENDING_S = 0.5
"""Seconds in which most processes end."""

KILL_S = 30.0
"""Seconds that a killed process may take to end, even on a busy machine."""

POLL_S = 0.01
SHARED_MEMORY = "/dev/shm"
LIBRARY_THREADS = {"TMonitor", "Timer"}
"""Classes of threads that libraries end on their own: tqdm's monitor, and the timers of pytest-timeout."""


class ProcessKey(NamedTuple):
    """Unique key of a process: its number may be reused, but not with the same start time (in ticks)."""

    pid: int
    started: int


@dataclass(frozen=True)
class Snapshot:
    """Everything that exists at one time, with descriptions.

    Attributes:
        processes: descendants of this process, including zombies and orphans.
        threads: Python threads of this process, by ident.
        descriptors: sockets, memfds and eventfds of this process, by number.
        paths: entries of this user in /dev/shm, and dali-proxy's folders in the temporary folder.
    """

    processes: dict[ProcessKey, str]
    threads: dict[int | None, str]
    descriptors: dict[int, str]
    paths: dict[str, str]

    @classmethod
    def take(cls, *, descriptors: bool = True, exact: bool = True) -> Snapshot:
        """Take a snapshot of this process and its environment.

        Args:
            descriptors: whether to list the descriptors.
            exact: whether processes that have ended since the last snapshot must be missing.
        """
        paths = {path: f"shared memory {path}" for path in _own_entries(SHARED_MEMORY, "") if not _is_passing(path)}
        paths |= {path: f"folder {path}" for path in _own_entries(tempfile.gettempdir(), "dali-proxy-")}
        if paths.pop(names := os.path.join(tempfile.gettempdir(), f"dali-proxy-uid{os.getuid()}"), None):  # it stays
            paths |= {path: f"socket {path}" for path in _own_entries(names, "")}
        return cls(_processes(exact), _threads(), _descriptors() if descriptors else {}, paths)

    def leftovers(self, later: Snapshot) -> list[str]:
        """Return descriptions of everything that is in the `later` snapshot, but not in this one."""
        return [
            *(words for key, words in later.processes.items() if key not in self.processes),
            *(words for ident, words in later.threads.items() if ident not in self.threads),
            *_grown(self.descriptors, later.descriptors),
            *(
                words
                for path, words in later.paths.items()
                # Memory that another run has created and not yet mapped is mapped or gone soon.
                if path not in self.paths and not _mapped_by_others(path, later.processes) and os.path.exists(path)
            ),
        ]


def wait_until_nothing_is_left(
    before: Snapshot, *, known: Set[str] = frozenset(), descriptors: bool = True
) -> list[str]:
    """Wait until everything that is neither in `before` nor `known` is gone, for at most `PATIENCE_S`.

    Returns:
        Descriptions of the leftovers; empty if there are none.
    """
    begin = time.monotonic()
    deadline = begin + PATIENCE_S
    # These steps take longer than the check itself, so they run only if they may help, and the last one, which takes
    # seconds in a long run, only if processes had time to end.
    remedies = [(0.0, _collect), (ENDING_S, _collect_everything)]
    exact = False
    while True:
        now = Snapshot.take(descriptors=descriptors, exact=exact)
        exact = True
        left = [words for words in before.leftovers(now) if words not in known]
        if not left or time.monotonic() > deadline:
            return left
        if remedies and time.monotonic() >= begin + remedies[0][0]:
            remedies.pop(0)[1]()
        else:
            time.sleep(POLL_S)


def forget_what_stays() -> None:
    """Exclude all existing objects (modules, tests, objects of earlier modules) from garbage collection.

    Otherwise each collection would visit them for a tenth of a second or more, and tests collect often.
    """
    gc.collect()
    gc.freeze()


def _collect() -> None:
    gc.collect()
    multiprocessing.active_children()  # waits for workers that torch has terminated, which it doesn't do itself


def _collect_everything() -> None:
    gc.unfreeze()
    forget_what_stays()


def end_processes(before: Snapshot) -> None:
    """Kill the processes that aren't in `before` and wait for them, so that a failed test doesn't affect others."""
    killed = _processes().keys() - before.processes.keys()
    for key in killed:
        try:
            os.kill(key.pid, signal.SIGKILL)
            os.waitpid(key.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue
    # Orphans aren't children, so this process can't wait for them: the adopting process does, as soon as they end.
    deadline = time.monotonic() + KILL_S
    while killed & _processes().keys() and time.monotonic() < deadline:
        time.sleep(POLL_S)


_elders: set[tuple[str, int]] = set()
"""Entries in /proc, by name and inode, of processes that started before this one, so it didn't start them."""


_found: dict[bytes, dict[ProcessKey, str]] = {}
"""The processes that were found last, by the number that the system had given to a process or thread last."""


def _processes(exact: bool = True) -> dict[ProcessKey, str]:
    """Return the descendants of this process. They are searched for in /proc only if there may be new ones."""
    last = _read("/proc/loadavg").rpartition(b" ")[2] + b" of %d" % os.getpid()
    if exact or last not in _found:
        _found.clear()
        _found[last] = _all_processes()
    return _found[last]


def _all_processes() -> dict[ProcessKey, str]:
    parents: dict[int, int] = {}
    states: dict[int, tuple[ProcessKey, str]] = {}
    own = os.getpid()
    began = int(_stat(own)[19])
    with os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdigit() or (entry.name, entry.inode()) in _elders:
                continue
            fields = _stat(int(entry.name))
            if not fields:
                continue
            pid, started = int(entry.name), int(fields[19])
            if started < began:
                _elders.add((entry.name, entry.inode()))
                continue
            parents[pid] = int(fields[1])
            states[pid] = ProcessKey(pid, started), fields[0].decode()
    kept = _session_helpers() | {own}
    mark = f"TMPDIR={os.environ['TMPDIR']}".encode() if "TMPDIR" in os.environ else None
    return {
        key: f"process {pid} (state {state}): {_command(pid).decode(errors='replace')[:200]}"
        for pid, (key, state) in states.items()
        if pid not in kept and (_descends(pid, own, parents) or _is_orphan_of_ours(pid, own, mark))
    }


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on; an empty list if the process is gone."""
    # The second field, the command's name, is in parentheses and may contain spaces and parentheses.
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def _is_orphan_of_ours(pid: int, own: int, mark: bytes | None) -> bool:
    """Return whether a process was a descendant: it has this session's temporary folder, or is a fork of this one."""
    if mark and mark in _read(f"/proc/{pid}/environ").split(b"\0"):
        return True
    try:
        return os.getpgid(pid) == os.getpgid(own) and _command(pid) == _command(own)
    except ProcessLookupError:
        return False


def _session_helpers() -> set[int]:
    """Return the processes that multiprocessing and tests/warm_servers.py start once and keep until the end."""
    helpers = {
        getattr(getattr(sys.modules.get(module), variable, None), attribute, None)
        for module, variable, attribute in (
            ("multiprocessing.resource_tracker", "_resource_tracker", "_pid"),
            ("multiprocessing.forkserver", "_forkserver", "_forkserver_pid"),
        )
    }
    templates = getattr(sys.modules.get("tests.warm_servers"), "templates", [])
    return {pid for pid in [*helpers, *(each.pid for each in templates)] if pid is not None}


def _threads() -> dict[int | None, str]:
    return {
        thread.ident: f"thread {thread.name}"
        for thread in threading.enumerate()
        if type(thread).__name__ not in LIBRARY_THREADS and not isinstance(thread, threading._DummyThread)
    }


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the descriptor that was open for reading the folder
            continue
        if target.startswith(("socket:", "/memfd:")) or target == "anon_inode:[eventfd]":
            found[int(name)] = target
    return found


def _grown(before: dict[int, str], after: dict[int, str]) -> Iterator[str]:
    """Yield descriptions of the new descriptors, for kinds whose number has grown.

    Descriptors are counted by kind, because a long-lived object may replace its socket during a test.
    """
    grown = Counter(map(_kind, after.values())) - Counter(map(_kind, before.values()))
    for number, target in after.items():
        if _kind(target) in grown and before.get(number) != target:
            yield f"descriptor {number}: {target}"


def _kind(target: str) -> str:
    return "socket" if target.startswith("socket:") else target


def _own_entries(folder: str, prefix: str) -> Iterator[str]:
    """Yield the paths of this user's entries of a folder whose names begin with `prefix`."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.name.startswith(prefix) and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    yield entry.path
            except FileNotFoundError:
                continue


def _is_passing(path: str) -> bool:
    """Return whether to ignore an entry of /dev/shm, because others remove it.

    The CUDA driver keeps files for this process until the interpreter ends, as for any user of CUDA IPC. Python removes
    the name of a semaphore directly after creating it; a semaphore of another run may be visible in between.
    """
    name = os.path.basename(path)
    return name.startswith("sem.mp-") or fnmatchcase(name, f"cuda.shm.*.{os.getpid():x}.*")


def _mapped_by_others(path: str, ours: dict[ProcessKey, str]) -> bool:
    """Return whether a process that this session didn't start uses the shared memory `path`."""
    kept = {key.pid for key in ours} | _session_helpers() | {os.getpid()}
    line_end = f" {path}\n".encode()
    return path.startswith(f"{SHARED_MEMORY}/") and any(
        line_end in _read(f"/proc/{entry}/maps")
        for entry in os.listdir("/proc")
        if entry.isdigit() and int(entry) not in kept
    )


def _command(pid: int) -> bytes:
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").strip()


def _read(path: str) -> bytes:
    """Return the content of a file of a process that may end meanwhile or belong to another user."""
    try:
        # Python's buffers and paths would take most of the time of each test's checks, so they aren't used.
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    parts = []
    try:
        while part := os.read(file, 65536):
            parts.append(part)
    except OSError:
        return b""
    finally:
        os.close(file)
    return b"".join(parts)
