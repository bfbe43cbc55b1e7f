"""Saves and restores the states of the random number generators that a loader's samplers draw from."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader

__all__ = ["Generators", "copy_of"]


class Generators:
    """The generators of a loader: the user's, passed to the loader or its samplers, and the global ones.

    States are plain objects and tensors, which `torch.save` and `torch.load` accept.

    Args:
        loader: the loader.
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
        self._only_torch = all(
            type(holder).__module__.startswith("torch.") for name, holder in holders.items() if name != "loader"
        )

    def own(self) -> dict[str, Any]:
        """Return the states of the user's generators, by the object that holds each: loader or sampler."""
        return {name: generator.get_state() for name, generator in self._own.items()}

    def shared(self) -> dict[str, Any]:
        """Return the states of the process's global generators, which samplers without a generator draw from."""
        states: dict[str, Any] = {"torch": torch.get_rng_state()}
        if not self._only_torch:
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
