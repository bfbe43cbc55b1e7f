"""Saves and restores the states of the random number generators that a loader's samplers draw from."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader

_LOOKS = 3  # draws of a sampler, after which it is known not to draw as it goes


class Generators:
    """The generators of a loader: the user's, passed to the loader or its samplers, and the global ones.

    States are plain objects and tensors, which `torch.save` and `torch.load` accept.

    Args:
        loader: the loader.

    Attributes:
        only_torch: whether all samplers are those of torch.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        batches = loader.batch_sampler
        holders = {"loader": loader, "batch_sampler": batches, "sampler": getattr(batches, "sampler", loader.sampler)}
        self._own: dict[str, torch.Generator] = {}
        for name, holder in holders.items():
            generator = getattr(holder, "generator", None)
            if isinstance(generator, torch.Generator) and generator not in self._own.values():
                self._own[name] = generator
        # torch's samplers draw only from torch's generators.
        self.only_torch = all(
            type(holder).__module__.startswith("torch.") for name, holder in holders.items() if name != "loader"
        )

    def own(self) -> dict[str, Any]:
        """Return the states of the user's generators, by the object that holds each: loader or sampler."""
        return {name: generator.get_state() for name, generator in self._own.items()}

    def shared(self) -> dict[str, Any]:
        """Return the states of the process's global generators, which samplers without a generator draw from."""
        states: dict[str, Any] = {"torch": torch.get_rng_state()}
        if not self.only_torch:
            version, numbers, gauss = random.getstate()
            states["python"] = [version, list(numbers), gauss]
            kind, keys, *rest = cast("tuple[Any, ...]", np.random.get_state(legacy=True))
            states["numpy"] = [kind, keys.tolist(), *rest]
        return states

    def seed(self) -> int:
        """Return a number that follows from the state of the loader's generator, or of torch's global one."""
        drawn = torch.empty((), dtype=torch.int64).random_(generator=copy_of(self._own.get("loader")))
        return int(drawn)

    @contextmanager
    def going_back(self, own: Mapping[str, Any], shared: Mapping[str, Any]) -> Iterator[None]:
        """Restore earlier states. Reset the global generators at the end of the block: other code draws from them."""
        for name, state in own.items():
            self._own[name].set_state(state)
        now = self.shared() if shared else {}
        _set_shared(shared)
        try:
            yield
        finally:
            _set_shared(now)


class DrawWatch:
    """Notices whether a sampler draws from the global generators when it yields an item, not only at its start.

    Between two items the training draws, too. So the sampler's items depend on the training, and it can't be resumed.

    Attributes:
        found: whether it does so.
    """

    def __init__(self) -> None:
        self.found = False
        self._looks = 0

    def next(self, items: Iterator[Any]) -> Any:
        """Return the next item, which isn't the first one. Look at the generators for a few items only."""
        if self.found or self._looks == _LOOKS:
            return next(items)
        self._looks += 1
        before = global_states()
        item = next(items)
        self.found = global_states() != before
        return item


def global_states() -> tuple[Any, ...]:
    """Return the states of all global generators, for comparisons."""
    kind, keys, *rest = cast("tuple[Any, ...]", np.random.get_state(legacy=True))
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), kind, keys.tobytes(), rest


def _set_shared(states: Mapping[str, Any]) -> None:
    if "torch" in states:
        torch.set_rng_state(states["torch"])
    if "python" in states:
        version, numbers, gauss = states["python"]
        random.setstate((version, tuple(numbers), gauss))
    if "numpy" in states:
        kind, keys, *rest = states["numpy"]
        np.random.set_state((kind, np.array(keys, np.uint32), *rest))


def copy_of(generator: torch.Generator | None) -> torch.Generator:
    """Return a copy of `generator` (None: torch's global one), so that drawing leaves the original unchanged."""
    copied = torch.Generator()
    copied.set_state((generator or torch.default_generator).get_state())
    return copied
