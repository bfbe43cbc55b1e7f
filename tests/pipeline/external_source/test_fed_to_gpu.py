"""Data that users feed from the CPU to a GPU is copied once on the host, to pinned memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn
from tests import host_cupy


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_fed_data_is_copied_once_on_the_host(device: str, dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [np.full((100, 70 if dense else 70 + number, 30), number, np.uint8) for number in range(4)]
    with host_cupy.installed():
        import cupy

        staged: list[int] = []
        allocate = cupy.cuda.alloc_pinned_memory

        def alloc_pinned_memory(nbytes: int) -> Any:
            staged.append(nbytes)
            return allocate(nbytes)

        monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", alloc_pinned_memory)
        with Pipeline(batch_size=4, num_threads=2, device_id=0) as pipe:
            fed = fn.external_source(lambda: np.stack(samples) if dense else samples, device=device, batch=True)
            pipe.set_outputs(fed.gpu() if device == "cpu" else fed)
        (output,) = pipe.run()
        on_cpu = output.as_cpu()
        for number, sample in enumerate(samples):
            np.testing.assert_array_equal(on_cpu.at(number), sample)
        pipe.close()
    assert all(nbytes < samples[0].nbytes for nbytes in staged)
