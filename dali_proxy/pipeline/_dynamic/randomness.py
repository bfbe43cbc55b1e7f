"""`RNG`: the random state of dynamic mode."""

from __future__ import annotations

import itertools
import operator
import os
import sys
import threading
from typing import Any

import numpy as np

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._rng import BatchKey, RandomState, fresh_seed
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

_MASK = (1 << 64) - 1


class RNG:
    """A random number generator for operators. Each random operator that is called with it takes one draw.

    The numbers depend on the seed and the number of earlier draws only, so results are reproducible in all modes. In
    its `with` block, a generator is the default of the thread.

    Args:
        seed: seed, truncated to 64 bits; by default drawn from the operating system.
        state: a state that `RNG.state` returned, instead of a seed.

    Raises:
        ArgumentValueError: both arguments are given, or the state is invalid.

    Example:
        >>> RNG(seed=1234)() == RNG(seed=1234)()
        True
    """

    def __init__(self, seed: int | None = None, state: str | None = None) -> None:
        if seed is not None and state is not None:
            raise ArgumentValueError("RNG: pass a seed or a state, not both")
        self._draws = 0
        if state is not None:
            self.set_state(state)
        else:
            self.seed = fresh_seed() if seed is None else seed

    @property
    def seed(self) -> int:
        """The seed. Setting it restarts the sequence."""
        return self._seed

    @seed.setter
    def seed(self, value: int) -> None:
        try:
            self._seed = operator.index(value) & _MASK
        except TypeError as error:
            raise ArgumentTypeError(f"RNG: the seed must be an int, not {type(value).__name__}") from error
        self._draws = 0

    @property
    def state(self) -> str:
        """The state, as text: `set_state` resumes from it."""
        return self.get_state()

    @state.setter
    def state(self, value: str) -> None:
        self.set_state(value)

    def get_state(self, *, cuda_stream: Any = None) -> str:
        """Return the state, as text.

        Args:
            cuda_stream: accepted for compatibility.
        """
        return f"Philox_{self._seed:016x}_{self._draws:016x}"

    def set_state(self, state: str) -> None:
        """Resume from a state.

        Raises:
            ArgumentValueError: the text isn't a state.
        """
        try:
            name, seed, draws = str(state).split("_")
            if name != "Philox":
                raise ValueError(name)
            self._seed, self._draws = int(seed, 16), int(draws, 16)
        except ValueError as error:
            raise ArgumentValueError(f"RNG: {state!r} isn't the state of an RNG") from error

    def advance(self, n: int) -> None:
        """Skip `n` draws."""
        self._draws += operator.index(n)

    def clone(self) -> RNG:
        """Return a generator that continues the same sequence."""
        return RNG(state=self.state)

    def draw(self) -> RandomState:
        """Return the random state of the next call of an operator."""
        self._draws += 1
        return RandomState(self._seed, 0, BatchKey(0, self._draws - 1))

    def __call__(self) -> int:
        """Return a random integer of 32 bits."""
        _, _, key = self.draw()
        philox = np.random.Philox(key=[self._seed, 0], counter=[0, key.iteration, 0, 0])
        return int(philox.random_raw() >> 32)

    def __enter__(self) -> RNG:
        _DEFAULT.before.append(_DEFAULT.rng)
        _DEFAULT.rng = self
        return self

    def __exit__(self, *exc_info: object) -> None:
        _DEFAULT.rng = _DEFAULT.before.pop()

    def __repr__(self) -> str:
        return f"RNG(state={self.state!r})"


class SampleRNG(RNG):
    """The random state with which a pipeline or a server runs a traced function on one sample of a batch.

    A function that is called with it as the default generator gets the numbers of that sample.

    Args:
        seed: seed of the pipeline.
        epoch: number of the epoch.
        iteration: number of the batch within its epoch.
        view: number of the view of the same samples.
        sample: position of the sample in the batch.
    """

    def __init__(self, seed: int, epoch: int = 0, iteration: int = 0, view: int = 0, sample: int = 0) -> None:
        super().__init__(seed)
        self._key = BatchKey(epoch, iteration, view)
        #: Position of the sample in the batch.
        self.sample = sample

    def draw(self) -> RandomState:
        """Return the random state of the next call of an operator: each call has its own stream of numbers."""
        self._draws += 1
        return RandomState(self._seed, self._draws, self._key)


class _Default(threading.local):
    def __init__(self) -> None:
        self.before: list[RNG] = []  # of the `with` blocks around

    @cached_property
    def rng(self) -> RNG:
        return RNG(_worker_seed())


def _worker_seed() -> int | None:
    """Return a seed that follows from that of a worker of torch's `DataLoader`; None in other processes."""
    torch = sys.modules.get("torch")
    worker = None if torch is None else torch.utils.data.get_worker_info()
    if worker is None:
        return None
    return int(np.random.SeedSequence([worker.seed, next(_numbers)]).generate_state(1, np.uint64)[0])


_numbers = itertools.count()  # of the threads of a worker
_DEFAULT = _Default()


def _begin_in_child() -> None:
    """Forget the generators of the parent: otherwise all workers would draw the same numbers, in each epoch."""
    global _DEFAULT, _numbers
    _DEFAULT, _numbers = _Default(), itertools.count()


os.register_at_fork(after_in_child=_begin_in_child)


def get_default_rng() -> RNG:
    """Return the generator of this thread, which operators use unless they are called with `rng`."""
    return _DEFAULT.rng


def set_seed(seed: int) -> None:
    """Set the seed of this thread's generator."""
    _DEFAULT.rng.seed = seed
