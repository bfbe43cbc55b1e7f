"""Run one DALI operator on the CPU, to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

dali = pytest.importorskip("nvidia.dali")
Array = npt.NDArray[Any]


def run(
    operator: Callable[..., Any], samples: Sequence[Array], *, layout: str | None = None, **arguments: Any
) -> list[Array]:
    """Return the outputs of a DALI operator for the given samples."""
    options = {} if layout is None else {"layout": layout}

    @dali.pipeline_def(batch_size=len(samples), num_threads=1, device_id=None, prefetch_queue_depth=1)
    def graph() -> Any:
        return operator(dali.fn.external_source(source=lambda: list(samples), batch=True, **options), **arguments)

    pipe = graph()
    pipe.build()
    (outputs,) = pipe.run()
    return [np.array(outputs.at(index)) for index in range(len(samples))]


def decode(encoded: bytes, **arguments: Any) -> Array:
    """Decode an image as DALI does."""
    pipe = _decoder(tuple(arguments.items()))
    try:
        pipe.feed_input("encoded", [np.frombuffer(encoded, np.uint8)])
        (outputs,) = pipe.run()
    except RuntimeError:
        _decoder.cache_clear()  # a pipeline that failed can't run again
        raise
    return np.array(outputs.at(0))


@cache
def _decoder(arguments: tuple[tuple[str, Any], ...]) -> Any:
    """Return a pipeline that decodes one image."""

    @dali.pipeline_def(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def graph() -> Any:
        return dali.fn.decoders.image(dali.fn.external_source(name="encoded"), **dict(arguments))

    pipe = graph()
    pipe.build()
    return pipe
