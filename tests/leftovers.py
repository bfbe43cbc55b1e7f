"""What a test may leave behind: processes, threads, descriptors, shared memory, folders."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PATIENCE_S = 20.0
"""How long what is going away may take to be gone, on a busy machine. Only who leaves something waits so long."""

KILL_S = 30.0
"""How long a process that was killed may take to end, on a machine however busy."""

POLL_S = 0.01
SHARED_MEMORY = Path("/dev/shm")
LIBRARY_THREADS = {"TMonitor"}
"""Classes of threads that a library keeps until the interpreter ends: tqdm's monitor."""


class ProcessKey(NamedTuple):
    """Names one process for ever: its number may be used again, but not with this start time (in ticks)."""

    pid: int
    started: int


@dataclass(frozen=True)
class Snapshot:
    """What exists at one moment, each with the words that name it.

    Attributes:
        processes: Descendants of this process, zombies too, and those of them that lost their parent.
        threads: Python threads of this process, by ident.
        descriptors: This process's sockets, memfds and eventfds, by number.
        paths: This user's entries in /dev/shm, and dali-proxy's folders in the temporary folder.
    """

    processes: dict[ProcessKey, str]
    threads: dict[int | None, str]
    descriptors: dict[int, str]
    paths: dict[Path, str]

    @classmethod
    def take(cls, *, descriptors: bool = True) -> Snapshot:
        """Look at this process and its surroundings now."""
        paths = {path: f"shared memory {path}" for path in _own_entries(SHARED_MEMORY, "*") if not _is_passing(path)}
        temporary = Path(tempfile.gettempdir())
        paths |= {path: f"folder {path}" for path in _own_entries(temporary, "dali-proxy-*")}
        return cls(_processes(), _threads(), _descriptors() if descriptors else {}, paths)

    def leftovers(self, later: Snapshot) -> list[str]:
        """Name what there is `later` and is not in this snapshot."""
        return [
            *(words for key, words in later.processes.items() if key not in self.processes),
            *(words for ident, words in later.threads.items() if ident not in self.threads),
            *_grown(self.descriptors, later.descriptors),
            *(
                words
                for path, words in later.paths.items()
                # Another run's, between its making and its mapping, is mapped or gone a moment later.
                if path not in self.paths and not _mapped_by_others(path, later.processes) and path.exists()
            ),
        ]


def wait_until_nothing_is_left(
    before: Snapshot, *, known: Set[str] = frozenset(), descriptors: bool = True
) -> list[str]:
    """Wait until nothing is left that was not there `before` and is not `known`, `PATIENCE_S` at most.

    Returns:
        What is left then, in words; empty when all is well.
    """
    deadline = time.monotonic() + PATIENCE_S
    # Dearer than the look itself, so only where they may help.
    remedies = iter((gc.collect, _collect_everything))
    while True:
        now = Snapshot.take(descriptors=descriptors)
        left = [words for words in before.leftovers(now) if words not in known]
        if not left or time.monotonic() > deadline:
            return left
        remedy = next(remedies, None)
        if remedy is None:
            time.sleep(POLL_S)
        else:
            remedy()


def forget_what_stays() -> None:
    """Have the garbage collector look no more at what exists now: modules, tests, what earlier modules made.

    It would do so at each collection, for a tenth of a second and more, and tests collect often.
    """
    gc.collect()
    gc.freeze()


def _collect_everything() -> None:
    gc.unfreeze()
    gc.collect()


def end_processes(before: Snapshot) -> None:
    """Kill the processes that were not there `before` and see them end, so that one failed test disturbs no other."""
    killed = _processes().keys() - before.processes.keys()
    for key in killed:
        try:
            os.kill(key.pid, signal.SIGKILL)
            os.waitpid(key.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue
    # An orphan is no child to wait for: whoever adopted it does, as soon as the kernel lets the process end.
    deadline = time.monotonic() + KILL_S
    while killed & _processes().keys() and time.monotonic() < deadline:
        time.sleep(POLL_S)


_elders: set[tuple[str, int]] = set()
"""Processes that began before this one, and so are none of ours: their entries in /proc, by name and inode."""


def _processes() -> dict[ProcessKey, str]:
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
    """What /proc says of a process, from its state on; nothing where it is gone."""
    # The command's name, the second field, stands in brackets and may hold spaces and brackets.
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def _is_orphan_of_ours(pid: int, own: int, mark: bytes | None) -> bool:
    """Whether a process was a descendant once: it has our temporary folder, or is a fork of this one."""
    if mark and mark in _read(f"/proc/{pid}/environ").split(b"\0"):
        return True
    try:
        return os.getpgid(pid) == os.getpgid(own) and _command(pid) == _command(own)
    except ProcessLookupError:
        return False


def _session_helpers() -> set[int]:
    """The processes that multiprocessing starts once and keeps until the interpreter ends."""
    helpers = {
        getattr(getattr(sys.modules.get(module), variable, None), attribute, None)
        for module, variable, attribute in (
            ("multiprocessing.resource_tracker", "_resource_tracker", "_pid"),
            ("multiprocessing.forkserver", "_forkserver", "_forkserver_pid"),
        )
    }
    return {pid for pid in helpers if pid is not None}


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
        except FileNotFoundError:  # the descriptor by which the folder was read
            continue
        if target.startswith(("socket:", "/memfd:")) or target == "anon_inode:[eventfd]":
            found[int(name)] = target
    return found


def _grown(before: dict[int, str], after: dict[int, str]) -> Iterator[str]:
    """Name the new descriptors of the kinds that there are more of than before.

    Kinds are counted, because something long-lived may replace a socket of its own during a test.
    """
    grown = Counter(map(_kind, after.values())) - Counter(map(_kind, before.values()))
    for number, target in after.items():
        if _kind(target) in grown and before.get(number) != target:
            yield f"descriptor {number}: {target}"


def _kind(target: str) -> str:
    return "socket" if target.startswith("socket:") else target


def _own_entries(folder: Path, pattern: str) -> Iterator[Path]:
    for path in folder.glob(pattern):
        try:
            if path.lstat().st_uid == os.getuid():
                yield path
        except FileNotFoundError:
            continue


def _is_passing(path: Path) -> bool:
    """Whether an entry of /dev/shm is none of ours to remove.

    CUDA's driver keeps files for this process until the interpreter ends, as it does for any user of CUDA IPC.
    Python removes the name of a semaphore as soon as it has made it, and another run's may be seen in between.
    """
    return path.match(f"cuda.shm.*.{os.getpid():x}.*") or path.match("sem.mp-*")


def _mapped_by_others(path: Path, ours: dict[ProcessKey, str]) -> bool:
    """Whether the shared memory `path` is in use by a process that this session did not start."""
    kept = {key.pid for key in ours} | _session_helpers() | {os.getpid()}
    line_end = f" {path}\n".encode()
    return path.parent == SHARED_MEMORY and any(
        line_end in _read(f"/proc/{entry}/maps")
        for entry in os.listdir("/proc")
        if entry.isdigit() and int(entry) not in kept
    )


def _command(pid: int) -> bytes:
    return _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").strip()


def _read(path: str) -> bytes:
    """The content of a file of a process that may end meanwhile, or belong to somebody else."""
    try:
        # Without Python's buffers and paths, which would take most of the time that each test's checks take.
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
