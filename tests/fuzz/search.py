"""Search for files that a parser neither reads nor refuses with an error of this package.

Each file is read in a child process, so that the search survives crashes, and notices calls that never return.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import random
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from pipeline.errors import OperatorError, PipelineError
from tests.fuzz.parsers import PARSERS, Parser, damage

__all__ = ["Findings", "read_damaged", "search"]

ANSWER_S = 60.0  # longest time for one file, even on a busy machine
SETTLE_S = 1.0  # longest time until a thread has ended that Python has joined
CASES = 300  # files that one child process reads
MOST_BYTES = 6 << 30  # address space of a child process, without AddressSanitizer, which needs much more


@dataclass
class Findings:
    """Results of a search.

    Attributes:
        counts: number of files that were read, and refused.
        faults: for each kind of fault, the first seed and a description.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: dict[str, tuple[int, str]] = field(default_factory=dict)


def search(name: str, first: int, seconds: float, cases: int | None = None) -> Findings:
    """Let a parser read damaged files, one for each seed from `first` on.

    Args:
        name: key of `PARSERS`.
        first: first seed.
        seconds: when to stop.
        cases: how many files to read at most.
    """
    findings, seed, end = Findings(), first, time.monotonic() + seconds
    last = None if cases is None else first + cases
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        PARSERS[name].write(Path(folder))
        _settle()
        _check_valid(name, Path(folder))
        valid = {path: path.read_bytes() for path in Path(folder).glob(PARSERS[name].damaged) if path.is_file()}
        while time.monotonic() < end and (last is None or seed < last):
            until = seed + CASES if last is None else min(last, seed + CASES)
            for kind, text in _answers(name, Path(folder), range(seed, until), end):
                findings.counts[kind] += 1
                if kind not in ("read", "refused"):
                    findings.faults.setdefault(kind, (seed, text))
                seed += 1
            for path, content in valid.items():  # a process that ended early has left a damaged one
                path.write_bytes(content)
    return findings


def _settle() -> None:
    """Wait until the system has ended the threads that Python has joined, which free memory until then.

    A child that is forked meanwhile may inherit the locked lock of AddressSanitizer. Those of libraries remain, and do
    nothing.
    """
    deadline = time.monotonic() + SETTLE_S
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:
        time.sleep(0.001)


def _check_valid(name: str, folder: Path) -> None:
    """Check in a child process that the files are read before they are damaged."""
    parser = PARSERS[name]

    def read() -> None:
        for path in sorted(folder.glob(parser.damaged)) if parser.single else [folder]:
            parser.read(path)

    child = multiprocessing.get_context("fork").Process(target=read)
    child.start()
    child.join()
    if child.exitcode:
        raise AssertionError(f"{name}: the undamaged files can't be read")


def _answers(name: str, folder: Path, seeds: range, end: float) -> Iterator[tuple[str, str]]:
    """Yield for each file whether it was read or refused, or which fault it caused. A crash ends the child process."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_read_all, args=(name, folder, seeds, sender))
    child.start()
    sender.close()
    done = 0
    try:
        while done < len(seeds) and time.monotonic() < end:
            if not receiver.poll(ANSWER_S):
                os.kill(child.pid or 0, signal.SIGABRT)  # prints the stacks
                yield "hang", f"no answer within {ANSWER_S:g} s"
                return
            yield receiver.recv()
            done += 1
    except EOFError:
        child.join()
        yield f"crash, exit code {child.exitcode}", "see the output of the process"
    finally:
        child.kill()
        child.join()
        receiver.close()


def _read_all(name: str, folder: Path, seeds: range, sender: Connection) -> None:
    faulthandler.enable(os.dup(2))
    if "asan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)  # libraries print what they notice about damaged files
    warnings.simplefilter("ignore")
    for seed in seeds:
        sender.send(read_damaged(PARSERS[name], folder, seed))


def read_damaged(parser: Parser, folder: Path, seed: int) -> tuple[str, str]:
    """Damage a file, read it and restore it.

    Returns:
        "read", "refused", or a kind of fault, and its description.
    """
    path, content = damage(parser, folder, random.Random(seed))
    try:
        parser.read(path if parser.single else folder)
        return "read", ""
    except MemoryError:
        return "refused", ""  # a size that is too large for this machine
    except Exception as error:  # noqa: BLE001 - any other error is a finding
        unexpected = _unexpected(error)
        if unexpected is None:
            return "refused", ""
        last = traceback.extract_tb(unexpected.__traceback__)[-1:]
        place = "".join(f" at {Path(frame.filename).name}:{frame.lineno}" for frame in last)
        return f"{type(unexpected).__name__}{place}", "".join(traceback.format_exception(unexpected))
    finally:
        path.write_bytes(content)


def _unexpected(error: BaseException) -> BaseException | None:
    """Return the error, or the one that it wraps, which isn't of this package; None if all are."""
    if isinstance(error, OperatorError) and error.failures:
        return next(filter(None, (_unexpected(failure.error) for failure in error.failures)), None)
    if isinstance(error, OperatorError) and error.__cause__ is not None:
        return _unexpected(error.__cause__)
    return None if isinstance(error, PipelineError | MemoryError) else error
