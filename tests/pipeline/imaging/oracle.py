"""Run one DALI operator on the CPU, to compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    return run(dali.fn.decoders.image, [np.frombuffer(encoded, np.uint8)], **arguments)[0]
