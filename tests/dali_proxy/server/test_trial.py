"""The choice between placements beside simulated loops, whose true rates are known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from dali_proxy._server.trial import Trial
from dali_proxy._transport.protocol import Computed

NAMES = ("a", "b", "c")
LIMIT = 50.0  # seconds until a trial ends


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


def test_trial_survives_a_loop_without_batches() -> None:
    clock = Clock([0.05, 0.03, 0.04])
    for _ in range(1000):
        clock.now += 0.1
        clock.trial.take(clock.trial.current, Computed(clock.trial.current, 1, 0))
    assert clock.trial.is_settled


def test_pauses_do_not_shorten_a_trial() -> None:
    draw = random.Random(1)
    durations = []
    for _ in range(20):
        clock, active = Clock([0.05, 0.0505, 0.051]), 0.0
        while not clock.trial.is_settled:
            slow = draw.gauss(1, 0.06)  # for 1.5 s
            clock.seconds = [seconds * slow for seconds in (0.05, 0.0505, 0.051)]
            clock.run(1.5)
            active += 1.5
            if active % 6 == 0:
                clock.now += 60.0
                clock.trial.pause()
        durations.append(active)
    assert sorted(durations)[10] > 20


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
        drift: standard deviation of the logarithm of the loop's own speed, which changes within 1.5 s.
    """

    forms: tuple[Form, ...]
    seconds: float
    random: random.Random
    noise: float
    in_flight: int
    held: int
    asynchronous: int
    start: int = 0
    pause: int = -1
    drift: float = 0.0
    now: float = 100.0

    def __post_init__(self) -> None:
        self._form, self._measured = 0, False
        self._done: list[tuple[float, int]] = []  # end and form of each batch
        self._taken: list[float] = []
        self._gpu = self._free = self.now  # times until which the GPU and the server are busy
        self._seen, self._computed = 0, Computed(0, 0, 0)
        self._speed = 0.0  # its logarithm, relative to the mean
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
        step /= self._drifted(step)
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

    def _drifted(self, passed: float) -> float:
        if self.drift:
            kept = math.exp(-passed / 1.5)
            self._speed = kept * self._speed + math.sqrt(1 - kept**2) * self.random.gauss(0, self.drift)
        return math.exp(self._speed)

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


def eager(seed: int) -> SimulatedLoop:
    """Return a random loop whose own speed changes from second to second by more than its placement matters."""
    draw = random.Random(seed)
    rate = draw.uniform(25, 50)

    def form() -> Form:
        slower = draw.choice([0.0, draw.uniform(0, 0.1)])
        return Form(rate * draw.uniform(1.5, 4), draw.uniform(0.02, 0.1), 1 + slower)

    forms = (form(), form(), form())
    generator = random.Random(seed + 1)
    return SimulatedLoop(forms, 1 / rate, generator, noise=0.1, in_flight=14, held=10, asynchronous=4, drift=0.06)


def try_out(make: Callable[[int], SimulatedLoop], seed: int) -> tuple[float, float]:
    """Let a trial choose beside a loop. Return its duration, and the part of the best rate that its choice loses."""
    loop = make(seed)
    trial = Trial(NAMES, loop.choose, lambda number: "", clock=lambda: loop.now)
    begin = loop.now
    while not trial.is_settled:
        trial.take(*loop.step())
        assert loop.now - begin < LIMIT, f"seed {seed}: not settled"
    undisturbed = replace(make(seed), start=0, pause=-1, drift=0.0)
    rates = [undisturbed.rate(form) for form in range(3)]
    return loop.now - begin, 1 - rates[trial.current] / max(rates)


def test_trial_chooses_well_beside_random_loops() -> None:
    durations, lost = zip(*(try_out(simulated, seed) for seed in range(100)), strict=True)
    assert sorted(durations)[50] < 14, "the usual case takes about 12 s"
    assert max(lost) < 0.06, "two candidates may differ less than their noise"
    assert sum(lost) / 100 < 0.005


def test_trial_measures_longer_what_varies_more() -> None:
    durations, lost = zip(*(try_out(eager, seed) for seed in range(80)), strict=True)
    assert sorted(durations)[40] > 15
    assert sum(each > 0.02 for each in lost) <= 5
    assert sum(lost) / 80 < 0.0045
