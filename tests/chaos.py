"""Drive loaders, server and workers through random events and faults, against a model of what must come out.

    python -m tests.chaos --seconds 1200
    python -m tests.chaos --seed 17 --seconds 60

Hypothesis draws the events. The model knows the samples of every batch and their order, and which errors may come
instead. The events depend only on the seed, which is printed; their exact times depend on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import torch
from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch.utils.data._utils import signal_handling

from dali_proxy import (
    BatchError,
    DALIServer,
    DataLoader,
    LastBatchPolicy,
    ServerClosedError,
    ServerDiedError,
    StaleReferenceError,
    WorkerDiedError,
)
from dali_proxy._common.policies import fill
from tests.dali_proxy.test_signals import LateError, StopNowError, alarms, is_in_our_code
from tests.leftovers import Snapshot, end_processes, wait_until_nothing_is_left
from tests.soak import BAD, BATCH, Images, check_batch, images_and_numbers

ANSWER_S = 30.0  # longest time of a call, even on a busy machine
HANG_S = 150.0  # when a call counts as hanging: all stacks are printed, and the search ends
STEPS = 40  # events of one example
EXAMPLES = 10  # for one seed
LOST = (ServerDiedError, ServerClosedError, StaleReferenceError)

T = TypeVar("T")

totals: Counter[str] = Counter()
_end = float("inf")  # when to stop
_stepping = threading.Lock()  # held while a loop takes a batch


@dataclass(frozen=True)
class Options:
    """Arguments of a loader that determine its batches."""

    length: int
    batch_size: int
    shuffle: bool
    policy: LastBatchPolicy
    padded: bool
    on_error: str

    def batches(self, number: int, draws_seed: bool) -> list[list[int]]:
        """Return the indices of each batch, as torch's samplers draw them.

        Args:
            number: seed of the loader's generator.
            draws_seed: whether the iterator draws a seed for its workers first.
        """
        generator = torch.Generator().manual_seed(number)
        if draws_seed:
            torch.empty((), dtype=torch.int64).random_(generator=generator)
        indices = range(self.length)
        sampler = RandomSampler(indices, generator=generator) if self.shuffle else SequentialSampler(indices)
        batches = list(BatchSampler(sampler, self.batch_size, self.policy is LastBatchPolicy.DROP))
        if self.policy is LastBatchPolicy.FILL and batches:
            batches[-1] = fill(batches[-1], self.batch_size, batches[0], self.padded)
        return batches

    def outcomes(self, batches: list[list[int]]) -> list[Outcome]:
        """Return what comes for each batch. Batches without good samples may be left out."""
        found = (self._outcome(batch) for batch in batches)
        return [outcome for outcome in found if outcome.indices or outcome.bad]

    def _outcome(self, batch: list[int]) -> Outcome:
        bad = [index for index in batch if index in BAD]
        if self.on_error == "raise":
            return Outcome(batch, frozenset(bad))
        good = [index for index in batch if index not in BAD]
        if self.on_error == "replace" and good:
            positions = [place for place, index in enumerate(batch) if index not in BAD]
            good = [batch[next((at for at in positions if at >= place), positions[0])] for place in range(len(batch))]
        return Outcome(good, frozenset())


@dataclass(frozen=True)
class Outcome:
    """A batch of these indices, or an error because of the bad ones."""

    indices: list[int]
    bad: frozenset[int]


class Loop:
    """A loader, and what its current epoch must return.

    Attributes:
        options: arguments that determine the batches.
        loader: the loader.
        iterator: the iterator of the current epoch; None between epochs.
        allowed: errors that may come, because of a fault.
    """

    def __init__(self, server: DALIServer, options: Options, workers: int, persistent: bool) -> None:
        self.options = options
        self.persistent = persistent and workers > 0
        self.loader = DataLoader(
            server,
            Images(options.length, server.proxy),
            options.batch_size,
            options.shuffle,
            num_workers=workers,
            persistent_workers=self.persistent,
            generator=torch.Generator(),
            last_batch_policy=options.policy,
            last_batch_padded=options.padded,
            on_error=options.on_error,
        )
        self.iterator: Any = None
        self.allowed: tuple[type[BaseException], ...] = ()
        self._begun = False
        self._lost_worker = False  # whether a persistent worker was killed, which the next epoch may report
        self._expected: list[list[Outcome]] = []  # for each possible order
        self._at = 0  # position in the epoch
        self._yielded = 0  # position after the last batch, which a state contains
        self._kept: deque[Any] = deque(maxlen=3)  # batches, which must not change

    def begin(self, number: int) -> None:
        """Begin an epoch; abandon the previous one."""
        draws = [True, False] if self.persistent and self._begun else [True]
        self._expected = [self.options.outcomes(self.options.batches(number, each)) for each in draws]
        self._at = self._yielded = 0
        self.iterator = None
        self.loader.generator.manual_seed(number)
        self._iterate()

    def resume(self, server: DALIServer, workers: int, persistent: bool) -> None:
        """Replace the loader by a new one that resumes from its state."""
        state = self.loader.state_dict()
        self.iterator = None
        other = Loop(server, self.options, workers, persistent)
        other.loader.load_state_dict(state)
        self.loader, self.persistent, self._lost_worker = other.loader, other.persistent, False
        self._at = self._yielded
        self._iterate()

    def _iterate(self) -> None:
        self._begun = True
        # A server that isn't started again may end at this moment.
        self.allowed = LOST if self.loader.dali_server.restart == "never" else ()
        lost, self._lost_worker = (WorkerDiedError,) * self._lost_worker, False
        with contextlib.suppress(*self.allowed, *lost):
            self.iterator = iter(self.loader)

    def lose_worker(self) -> None:
        """Record that a worker is killed."""
        self.allowed += (WorkerDiedError,)
        self._lost_worker = self.persistent

    def step(self) -> str:
        """Take the next batch and compare it with the model. Return what came."""
        begin = time.monotonic()
        came = self._step()
        if time.monotonic() - begin > ANSWER_S:
            raise AssertionError(f"{came} took {time.monotonic() - begin:.1f} s")
        totals[came] += 1
        return came

    def _step(self) -> str:
        try:
            with _stepping:
                batch = next(self.iterator)
        except StopIteration:
            self._leave(lambda outcomes: len(outcomes) == self._at, "the end of the epoch")
            self.iterator = None
            return "epochs"
        except (LateError, StopNowError):
            raise
        except self.allowed as error:
            if isinstance(error, WorkerDiedError) or not isinstance(error, BatchError):
                self.iterator = None
            return f"{type(error).__name__} after a fault"
        except (BatchError, OSError) as error:
            bad = {error.dataset_index} if isinstance(error, BatchError) else set(BAD)
            self._leave(lambda outcomes: bool(self._next(outcomes).bad & bad), f"{type(error).__name__}: {error}")
            self._at += 1
            return "errors of bad samples"
        indices = check_batch(batch)
        self._leave(lambda outcomes: self._next(outcomes) == Outcome(indices, frozenset()), f"the batch {indices}")
        self._at += 1
        self._yielded = self._at
        self._kept.append(batch)
        for each in self._kept:
            check_batch(each)
        return "batches"

    def _next(self, outcomes: list[Outcome]) -> Outcome:
        return outcomes[self._at] if self._at < len(outcomes) else Outcome([], frozenset())

    def _leave(self, fits: Callable[[list[Outcome]], bool], what: str) -> None:
        """Drop the orders that don't fit what came."""
        fitting = [outcomes for outcomes in self._expected if fits(outcomes)]
        if not fitting:
            raise AssertionError(
                f"{what} came at {self._at} instead of {[self._next(each) for each in self._expected]}"
            )
        self._expected = fitting


def event(**arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare an event. It does nothing if it isn't possible, because Hypothesis requires the same draws each time."""

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def occur(self: Training, **drawn: Any) -> None:
            if time.monotonic() < _end:
                self.events.append((function.__name__, drawn))
                with contextlib.suppress(Impossible), self.reported():
                    function(self, **drawn)
                    totals[f"event: {function.__name__.replace('_', ' ')}"] += 1

        return rule(**arguments)(occur)

    return declare


class Impossible(Exception):
    """The event can't happen: it needs a loop, a worker or a server."""


_LOOPS = st.integers(0, 2)
_SEEDS = st.integers(0, 1000)
_WORKERS = st.sampled_from([0, 1, 1, 2])
_DELAYS = st.floats(0, 0.02)
_LOADER: dict[str, Any] = {
    "length": st.sampled_from([1, 8, 30, 70, 110]),
    "batch_size": st.integers(1, BATCH),
    "shuffle": st.booleans(),
    "policy": st.sampled_from(LastBatchPolicy),
    "padded": st.booleans(),
    "on_error": st.sampled_from(["raise", "skip", "replace"]),
    "workers": _WORKERS,
    "persistent": st.booleans(),
    "number": _SEEDS,
}


class Training(RuleBasedStateMachine):
    """A server and up to three loops."""

    def __init__(self) -> None:
        super().__init__()
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        self.before = Snapshot.take()
        self.loops: list[Loop] = []
        self.events: list[tuple[str, Any]] = []

    @initialize(restart=st.sampled_from(["on-failure", "on-failure", "never"]), depth=st.integers(1, 3), **_LOADER)
    def start_server(self, restart: Any, depth: int, **loader: Any) -> None:
        if time.monotonic() >= _end:
            return
        totals["examples"] += 1
        self.events.append(("start_server", {"restart": restart, "depth": depth, **loader}))
        with self.reported():
            self.server = DALIServer(images_and_numbers(prefetch_queue_depth=depth), restart=restart)
            self.server.start()
            self._add_loader(**loader)

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Print an error, and the events before it: Hypothesis may replace it by its own, since runs differ in time."""
        try:
            yield
        except Impossible:
            raise
        except BaseException:
            sys.stderr.write("".join(f"{name} {drawn}\n" for name, drawn in self.events) + traceback.format_exc())
            raise

    @event(**_LOADER)
    def add_loader(self, **options: Any) -> None:
        """Create a loader in place of the oldest of three, and begin an epoch."""
        self._add_loader(**options)

    @event(which=_LOOPS, number=_SEEDS)
    def begin_epoch(self, which: int, number: int) -> None:
        _pick(self.loops, which).begin(number)

    @event(which=_LOOPS, steps=st.integers(1, 12))
    def take_batches(self, which: int, steps: int) -> None:
        loop = self._running(which)
        for _ in range(steps):
            note(loop.step())
            if loop.iterator is None:
                break

    @event(which=_LOOPS)
    def finish_epoch(self, which: int) -> None:
        loop = self._running(which)
        while loop.iterator is not None:
            loop.step()

    @event(which=_LOOPS)
    def leave_epoch(self, which: int) -> None:
        self._running(which).iterator = None

    @event(which=_LOOPS, workers=_WORKERS, persistent=st.booleans())
    def resume_with_other_workers(self, which: int, workers: int, persistent: bool) -> None:
        loop = self._running(which)
        loop.resume(self.server, workers, persistent)

    @event(which=_LOOPS, delay=st.floats(1e-5, 0.02), exits=st.booleans())
    def interrupt(self, which: int, delay: float, exits: bool) -> None:
        """Let a signal handler raise while the loop waits; the same batch must come afterwards."""
        loop, error = self._running(which), StopNowError if exits else LateError
        with alarms(error) as raised:
            signal.setitimer(signal.ITIMER_REAL, delay)
            with contextlib.suppress(error):
                loop.step()
            signal.setitimer(signal.ITIMER_REAL, 0)
        totals["interrupts"] += raised[0]

    @event(how=st.sampled_from(["SIGKILL", "SIGTERM", "folder", "stop", "restart"]), which=_LOOPS, delay=_DELAYS)
    def end_server(self, how: str, which: int, delay: float) -> None:
        """Kill, terminate or stop the server, or remove its folder, possibly while a loop waits for it."""
        pid = self._server_pid()
        if how in ("stop", "restart") or self.server.restart == "never":
            for loop in self.loops:
                loop.allowed += LOST
        if how in ("stop", "restart"):
            self.server.stop()
            if how == "restart":
                self.server.start()
        elif how == "folder":
            shutil.rmtree(Path(self.server.endpoint.path).parent, ignore_errors=True)
        else:
            timer = threading.Timer(delay, self._send, [pid, signal.Signals[how]])
            timer.start()
            if self.running and delay > 0.005:
                self._running(which).step()
            timer.join()

    @event(which=_LOOPS, delay=st.floats(0.01, 0.3))
    def pause_server(self, which: int, delay: float) -> None:
        self._pause(self._server_pid(), delay, which)

    @event(which=_LOOPS, number=st.integers(0, 5), delay=st.floats(0.01, 0.3))
    def pause_worker(self, which: int, number: int, delay: float) -> None:
        self._pause(self._worker(number)[1], delay, which)

    @event(number=st.integers(0, 5))
    def kill_worker(self, number: int) -> None:
        loop, pid = self._worker(number)
        loop.lose_worker()
        self._send(pid, signal.SIGKILL)

    @property
    def running(self) -> list[Loop]:
        """The loops that are in an epoch."""
        return [loop for loop in self.loops if loop.iterator is not None]

    def _running(self, which: int) -> Loop:
        return _pick(self.running, which)

    def _worker(self, which: int) -> tuple[Loop, int]:
        found = ((loop, worker) for loop in self.running for worker in loop.iterator._loop.workers)
        return _pick([(loop, worker.pid) for loop, worker in found if worker.is_alive()], which)

    def _server_pid(self) -> int:
        pid = self.server.pid if self.server.running else None
        if pid is None:
            raise Impossible
        return pid

    def _add_loader(self, policy: LastBatchPolicy, padded: bool, number: int, **options: Any) -> None:
        workers, persistent = options.pop("workers"), options.pop("persistent")
        described = Options(policy=policy, padded=padded and policy is LastBatchPolicy.FILL, **options)
        loop = Loop(self.server, described, workers, persistent)
        assert len(loop.loader) == len(described.batches(0, True))
        self.loops = [*self.loops[-2:], loop]
        loop.begin(number)

    def _pause(self, pid: int, delay: float, which: int) -> None:
        self._send(pid, signal.SIGSTOP)
        timer = threading.Timer(delay, self._send, [pid, signal.SIGCONT])
        timer.start()
        if self.running:
            self._running(which).step()
        timer.join()

    @staticmethod
    def _send(pid: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def teardown(self) -> None:
        """Check that nothing is left."""
        faulthandler.cancel_dump_traceback_later()
        if not hasattr(self, "server"):
            return
        self.loops.clear()
        self.server.stop()
        gc.collect()
        left = wait_until_nothing_is_left(self.before)
        if left:
            end_processes(self.before)
            with self.reported():
                raise AssertionError(f"left: {left}")


def _pick(items: list[T], which: int) -> T:
    if not items:
        raise Impossible
    return items[which % len(items)]


def report_in_loops_only() -> None:
    """Let torch's handler, which reports dead workers of any loader, raise only in loops: it would raise anywhere."""
    signal_handling._set_SIGCHLD_handler()
    report: Any = signal.getsignal(signal.SIGCHLD)
    signal.signal(
        signal.SIGCHLD,
        lambda number, frame: report(number, frame) if _stepping.locked() and is_in_our_code(frame) else None,
    )


def search(first: int, seconds: float, examples: int | None = None) -> None:
    """Try examples of one seed after the other, until the time is over, or a number of examples of the first seed.

    Raises:
        AssertionError: something came that the model excludes; the message has the events.
    """
    global _end
    _end = time.monotonic() + seconds
    report_in_loops_only()
    warnings.simplefilter("ignore")  # on skipped samples, at the end of each epoch
    options = settings(
        max_examples=examples or EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # events have no exact times, so a shorter list of them may pass
        suppress_health_check=list(HealthCheck),
    )
    for number in count(first):
        if time.monotonic() >= _end or (examples is not None and number > first):
            return
        totals["seeds"] += 1
        try:
            run_state_machine_as_test(seed(number)(Training), settings=options)
        except BaseException:
            print(f"chaos: failed with --seed {number}", file=sys.stderr, flush=True)
            raise


def main() -> int:
    """Run the search that the command line describes."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1200.0, help="how long (default: %(default)g)")
    parser.add_argument("--seed", type=int, help="of the first examples (default: a random one)")
    parser.add_argument("--examples", type=int, help="how many, for the first seed only (default: no limit)")
    options = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"chaos: {options.seconds:g} s, seed {first}", flush=True)
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        os.environ["TMPDIR"] = folder  # processes with this variable are those that may be left
        tempfile.tempdir = None
        search(first, options.seconds, options.examples)
    for what, number in sorted(totals.items()):
        print(f"{number:8,} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
