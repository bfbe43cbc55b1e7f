"""Descriptions of encoded images in memory."""

from __future__ import annotations

import numpy as np
import pytest

from dali_proxy.pipeline._codecs import EncodedBatch
from tests.pipeline.codecs.test_headers import jpeg


@pytest.mark.parametrize("step", [2, -1])
def test_arrays_with_gaps_are_copied(step: int) -> None:
    whole = jpeg(33, 21)
    apart = np.repeat(whole, 2)[::2] if step == 2 else whole[::-1].copy()[::-1]
    assert apart.strides == (step,)
    batch = EncodedBatch.from_arrays([apart, whole])
    assert batch.headers["width"].tolist() == [33, 33]
    assert batch.headers["simple"].tolist() == [1, 1]
    assert [array.tobytes() for array in batch.arrays] == [whole.tobytes()] * 2
    assert batch.pointers[1] == whole.ctypes.data
