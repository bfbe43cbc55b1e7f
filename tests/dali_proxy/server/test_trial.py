"""The choice between placements beside simulated loops, whose true rates are known."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from dali_proxy._server.trial import Trial
from dali_proxy._transport.protocol import Computed

NAMES = ("a", "b", "c")
WORSE = 0.94  # part of the best rate that a choice must reach: two candidates may differ less than their noise


class Clock:
    """A loop in which a batch takes a time that depends on where it is computed."""

    def __init__(self, seconds: list[float], refused: int = -1) -> None:
        self.seconds = seconds
        self.now = 1.0
        self.refuses = refused
        self.trial = Trial(NAMES, lambda number, measured: None, self.refused, clock=lambda: self.now)

    def refused(self, number: int) -> str:
        return "broken" if number == self.refuses else ""

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            candidate = 0 if self.trial.current == self.refuses else self.trial.current
            self.now += self.seconds[candidate]
            self.trial.take(candidate, None)


def test_trial_chooses_the_fastest_and_repeats_itself_after_a_change() -> None:
    clock = Clock([0.05, 0.03, 0.04])
    clock.run(5)
    assert not clock.trial.is_settled
    clock.run(7)
    assert clock.trial.is_settled
    assert clock.trial.current == 1
    assert clock.trial.reason.startswith("batches/s of the loop: a 20.0, b 33.3, c 25.0; measured in ")
    clock.run(20)
    clock.seconds = [0.05, 0.06, 0.04]
    clock.run(5)
    assert clock.trial.is_settled, "a change must last"
    clock.run(60)
    assert clock.trial.current == 2


def test_trial_ignores_small_changes_and_pauses() -> None:
    clock = Clock([0.05, 0.0501, 0.0502])
    clock.run(20)
    assert clock.trial.current == 0
    reason = clock.trial.reason
    for _ in range(50):
        clock.now += 5.0
        clock.trial.pause()
        clock.run(5)
    assert clock.trial.reason is reason


def test_trial_regrets_a_choice_that_is_slower_than_measured() -> None:
    clock = Clock([0.05, 0.03, 0.032])
    clock.run(15)
    assert clock.trial.current == 1
    clock.seconds[1] = 0.0335  # slower than before by less than a tenth
    clock.run(60)
    assert clock.trial.current == 2


def test_trial_leaves_out_what_cannot_run() -> None:
    clock = Clock([0.05, 0.03, 0.04], refused=1)
    clock.run(20)
    assert clock.trial.current == 2
    assert "b not measured (broken)" in clock.trial.reason


@dataclass(frozen=True)
class Form:
    """A form of the pipeline: batches per second, seconds of a batch, and the factor by which the loop slows down."""

    rate: float
    latency: float
    slower: float


@dataclass
class SimulatedLoop:
    """A loop and a server that computes its batches ahead.

    Attributes:
        forms: the forms of the pipeline.
        seconds: time of a step of the loop, if nothing slows it down.
        random: source of the noise.
        noise: standard deviation of the time of a step, as a part of it.
        in_flight: number of batches that are computed ahead.
        held: the same while a form is measured.
        asynchronous: number of steps after which the loop waits for its GPU.
        start: number of steps, at the beginning, that take three times as long.
        pause: position of a step after which the loop pauses for 2 s; -1 for none.
    """

    forms: tuple[Form, ...]
    seconds: float
    random: random.Random
    noise: float
    in_flight: int
    held: int
    asynchronous: int
    start: int
    pause: int
    now: float = 100.0

    def __post_init__(self) -> None:
        self._form, self._measured = 0, False
        self._done: list[tuple[float, int]] = []  # end and form of each batch
        self._taken: list[float] = []
        self._gpu = self._free = self.now  # times until which the GPU and the server are busy
        self._seen, self._computed = 0, Computed(0, 0, 0)
        self._first = 0.0

    def choose(self, form: int, measured: bool) -> None:
        self._form, self._measured = form, measured

    def step(self) -> tuple[int, Computed | None]:
        """Take a batch. Return its form, and what the server has computed in the chosen form."""
        number = len(self._taken)
        self._compute(self.now)
        until = self.now
        while len(self._done) <= number:
            until += self.seconds / 20
            self._compute(until)
        end, form = self._done[number]
        self.now = max(self.now, end)
        self._taken.append(self.now)
        self._compute(self.now)
        self._count()
        step = self.seconds * self.forms[self._form].slower * max(0.3, self.random.gauss(1, self.noise))
        step *= 3 if number < self.start else 1
        self._gpu = max(self._gpu, self.now) + step
        self.now = self.now + step / 10 if (number + 1) % self.asynchronous else self._gpu
        if number == self.pause:
            self.now += 2.0
        return form, self._computed if self._computed.variant == self._form else None

    def rate(self, form: int, steps: int = 1000) -> float:
        """Return the batches per second with a form."""
        self.choose(form, False)
        for _ in range(100):
            self.step()
        begin = self.now
        for _ in range(steps):
            self.step()
        return steps / (self.now - begin)

    def _compute(self, until: float) -> None:
        while True:
            wanted = len(self._done) - (self.held if self._measured else self.in_flight)
            if wanted >= len(self._taken):
                return
            begin = max(self._free, self._taken[wanted] if wanted >= 0 else 0.0)
            if begin > until:
                return
            form = self.forms[self._form]
            self._free = begin + max(0.2, self.random.gauss(1, 0.1)) / form.rate
            before = self._done[-1][0] if self._done else 0.0
            self._done.append((max(before, self._free + form.latency * self.random.uniform(0.9, 1.1)), self._form))

    def _count(self) -> None:
        while self._seen < len(self._done) and self._done[self._seen][0] <= self.now - self.seconds / 5:
            end, form = self._done[self._seen]
            self._seen += 1
            if form != self._computed.variant or not self._first:
                self._computed, self._first = Computed(form, 0, 0), end
            self._computed = Computed(form, self._computed.batches + 1, int((end - self._first) * 1e9))


def simulated(seed: int) -> SimulatedLoop:
    """Return a random loop: its rate, its noise, and what the forms of the pipeline cost it."""
    draw = random.Random(seed)
    rate = 10 ** draw.uniform(1.2, 2.2)

    def form() -> Form:
        kept = draw.choice([draw.uniform(0.5, 0.99), draw.uniform(0.9, 1.1), draw.uniform(1.0, 5.0)])
        slower = draw.choice([0.0, draw.uniform(0, 0.03), draw.uniform(0, 0.3)])
        return Form(rate * kept, draw.uniform(0.02, 0.2), 1 + slower)

    forms = (form(), form(), form())
    needed = 6 + int(max(min(form.rate, 1.5 * rate) * form.latency for form in forms))
    return SimulatedLoop(
        forms,
        1 / rate,
        random.Random(seed + 1),
        noise=draw.choice([0.005, 0.03, 0.1]),
        in_flight=max(needed, draw.choice([8, 28, 56])),
        held=needed,
        asynchronous=draw.choice([1, 1, 2, 4]),
        start=draw.choice([0, 0, 20]),
        pause=draw.choice([-1, -1, draw.randrange(50, 500)]),
    )


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_trial_chooses_well_beside_random_loops(first: int) -> None:
    durations, lost = [], []
    for seed in range(first, first + 100):
        loop = simulated(seed)
        trial = Trial(NAMES, loop.choose, lambda number: "", clock=lambda: loop.now)  # noqa: B023  # it ends here
        begin, batches = loop.now, 0
        while not trial.is_settled:
            trial.take(*loop.step())
            batches += 1
            assert batches < 30 / loop.seconds, f"seed {seed}: not settled"
        durations.append(loop.now - begin)
        undisturbed = simulated(seed)
        undisturbed.start, undisturbed.pause = 0, -1
        rates = [undisturbed.rate(form) for form in range(3)]
        lost.append(1 - rates[trial.current] / max(rates))
        assert lost[-1] < 1 - WORSE, f"seed {seed}: {rates}, {trial.reason}"
    assert sorted(durations)[50] < 11.0, "the usual case takes about 10 s"
    assert sum(lost) / 100 < 0.005
