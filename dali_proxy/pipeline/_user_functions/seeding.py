"""`GlobalGenerators`: seeds the random number generators that all code of a process shares."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._concurrency.locks import Level, new_rlock

#: A seed for each sample, or one for the batch if the function processes batches; uint64.
Seeds = npt.NDArray[np.uint64]

# Held while the user's code runs, which may take any other lock.
_lock = new_rlock(Level.USER_CODE, "global generators")
_TORCH_DEFAULT = 67280421310721  # the seed of torch's generator in a new process
_NUMBA = "numba._helperlib"
_WORD = (1 << 32) - 1
_PHILOX = 161  # CURAND_RNG_PSEUDO_PHILOX4_32_10, which is quick to seed

_cupy_states: dict[int, Any] = {}  # our generator of each GPU; creating one takes long


class _Nesting(threading.local):
    depth = 0


nesting = _Nesting()
"""Its attribute `depth` is above 0 while this thread runs a function of the user, with the generators seeded for it.

A pipeline that such a function runs must not wait for the generators.
"""


class GlobalGenerators:
    """The global generators of `random`, NumPy and torch, and Numba's of this thread, during a `with` block.

    The block has the generators for itself, inside of a block of `turn`. Its end resets them, so other code of the
    process doesn't notice.
    Libraries that the process hasn't imported are left alone.

    Args:
        gpu: whether to seed torch's generator of the current GPU, too, if torch uses it.
        cupy: whether to seed CuPy's generator of the current GPU, too.
        exclusive: whether to wait for other blocks. Only a block inside of another one, on another thread, must not.

    Example:
        >>> generators = GlobalGenerators()
        >>> with generators.turn, generators:
        ...     generators.seed(7)
        ...     first = random.random()
        ...     generators.seed(7)
        ...     first == random.random()
        True
    """

    def __init__(self, *, gpu: bool = False, cupy: bool = False, exclusive: bool = True) -> None:
        self._gpu = gpu
        self._wants_cupy = cupy
        self._exclusive = exclusive
        self._torch: list[Any] = []
        self._cupy: Any = None
        self._resets: list[Callable[[], object]] = []
        self._had_torch = self._had_numba = False

    @property
    def turn(self) -> AbstractContextManager[Any]:
        """The lock to take before the block. A ``with`` statement takes it in C, where no signal handler can raise."""
        return _lock if self._exclusive else nullcontext()

    def __enter__(self) -> GlobalGenerators:
        nesting.depth += 1
        try:
            self._save()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            for reset in reversed(self._resets):
                reset()
        finally:
            self._resets.clear()
            nesting.depth -= 1

    def seed(self, number: int) -> None:
        """Seed all generators with an integer of 64 bits."""
        random.seed(number)
        np.random.seed(number & _WORD)  # 64 bits would take seven times as long
        for generator in self._torch:
            generator.manual_seed(number)
        if self._cupy is not None:
            self._cupy.seed(number)
        _seed_numba(number & _WORD)

    def missed(self) -> bool:
        """Return whether code of the block has imported torch or Numba, and may have drawn unseeded numbers."""
        had_numba, self._had_numba = self._had_numba, _NUMBA in sys.modules
        return self._missed_torch() or (self._had_numba and not had_numba)

    def _missed_torch(self) -> bool:
        if self._had_torch or "torch" not in sys.modules:
            return False
        torch = sys.modules["torch"]
        generator = getattr(torch, "default_generator", None)
        if generator is None:  # another thread is importing it
            return False
        self._had_torch = True
        self._torch.append(generator)
        fresh = torch.Generator()
        fresh.manual_seed(_TORCH_DEFAULT)
        return not torch.equal(generator.get_state(), fresh.get_state())

    def _save(self) -> None:
        self._resets.append(partial(random.setstate, random.getstate()))
        before, state = np.random.get_bit_generator(), np.random.get_state(legacy=False)  # type: ignore[attr-defined]
        self._resets.append(partial(np.random.set_state, state))
        if not isinstance(before, np.random.MT19937):  # the user has set another one, which has no `seed`
            self._resets.append(partial(np.random.set_bit_generator, before))  # type: ignore[attr-defined]
            np.random.set_bit_generator(np.random.MT19937(0))  # type: ignore[attr-defined]
        self._had_numba = _NUMBA in sys.modules
        torch = sys.modules.get("torch")
        self._had_torch = hasattr(torch, "default_generator")  # it is missing while another thread imports torch
        if torch is not None and self._had_torch:
            self._torch = [torch.default_generator]
            if self._gpu and torch.cuda.is_initialized():
                self._torch.append(torch.cuda.default_generators[torch.cuda.current_device()])
            self._resets += [partial(each.set_state, each.get_state()) for each in self._torch]
        if self._wants_cupy and "cupy" in sys.modules:
            self._cupy = self._own_cupy(sys.modules["cupy"])

    def _own_cupy(self, cupy: Any) -> Any:
        """Replace CuPy's generator of this GPU for the block. Return the other one; None if CuPy lacks cuRAND."""
        try:
            before = cupy.random.get_random_state()
            device = cupy.cuda.runtime.getDevice()
            if device not in _cupy_states:
                _cupy_states[device] = cupy.random.RandomState(0, method=_PHILOX)
        except (ImportError, RuntimeError):
            return None
        cupy.random.set_random_state(_cupy_states[device])
        self._resets.append(partial(cupy.random.set_random_state, before))
        return _cupy_states[device]


def _seed_numba(number: int) -> None:
    """Seed the generators of code that Numba has compiled. Each thread has its own, so nothing needs a reset."""
    helpers = sys.modules.get(_NUMBA)
    if helpers is not None:
        with suppress(AttributeError):  # another version of Numba
            helpers.rnd_seed(helpers.rnd_get_np_state_ptr(), number)
            helpers.rnd_seed(helpers.rnd_get_py_state_ptr(), number)


class Caller:
    """Calls functions of the user."""

    def call(self, number: int, function: Callable[..., Any], arguments: Callable[[], Sequence[Any]]) -> Any:
        """Call a function for a sample, a number among those that are being processed; 0 for all of them.

        The function may modify its arguments, so each call needs new ones.
        """
        return function(*arguments())


class SeededCaller(Caller):
    """Seeds the generators before each call."""

    def __init__(self, generators: GlobalGenerators, seeds: Seeds, caller: Caller | None = None) -> None:
        self._generators = generators
        self._seeds = seeds
        self._caller = caller or Caller()

    def call(self, number: int, function: Callable[..., Any], arguments: Callable[[], Sequence[Any]]) -> Any:
        seed = int(self._seeds[number])
        self._generators.seed(seed)
        returned = self._caller.call(number, function, arguments)
        if self._generators.missed():
            self._generators.seed(seed)
            returned = self._caller.call(number, function, arguments)
        return returned
