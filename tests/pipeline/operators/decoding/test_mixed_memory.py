"""The inputs of GPU decoders live until the batch is done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from pipeline._operators.decoding.image import MixedImageDecoder
from pipeline.tensors import TensorListCPU
from pipeline.types import RGB


def test_copies_of_encoded_samples_live_until_the_batch_is_done() -> None:
    seen: list[Any] = []

    def decode(encoded: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(encoded)
        return SimpleNamespace(failures=())

    operator = object.__new__(MixedImageDecoder)
    operator.node = SimpleNamespace(operator="decoders.image")  # type: ignore[assignment]
    operator._decoder = SimpleNamespace(decode=decode)  # type: ignore[assignment]
    operator._output_type, operator._adjust = RGB, True
    batch: Any = SimpleNamespace(keep_alive=[], stream=None)
    gaps = TensorListCPU([np.arange(20, dtype=np.uint8)[::2]])
    operator.decode(batch, [gaps])
    (encoded,) = seen
    assert encoded.arrays[0].tolist() == list(range(0, 20, 2))
    assert any(kept is encoded for kept in batch.keep_alive)
