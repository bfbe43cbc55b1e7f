"""A GPU whose memory is full when a pipeline is built: the error is one of the library, and names what failed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cuda.errors import CudaError
from pipeline import Pipeline, fn
from pipeline.errors import BuildError
from tests import host_cupy


@pytest.mark.parametrize(
    ("where", "expected", "message"),
    [
        ("asarray", BuildError, "(?s)fn.constant: creating the operator failed: .*out of memory.*test_full_gpu.py"),
        ("alloc", CudaError, "building the pipeline failed: .*out of memory"),
    ],
)
def test_full_gpu_is_an_error_of_the_build(
    where: str, expected: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host_cupy.installed():
        import cupy

        def fail(*arguments: Any, **options: Any) -> Any:
            raise cupy.cuda.runtime.CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")

        monkeypatch.setattr(*((cupy, "asarray") if where == "asarray" else (cupy.cuda, "alloc")), fail)
        pipe = Pipeline(batch_size=2, num_threads=1, device_id=0, bytes_per_sample=1 << 10)
        with pipe:
            pipe.set_outputs(fn.constant(fdata=np.ones(3).tolist(), device="gpu"), fn.external_source(name="x").gpu())
        with pytest.raises(expected, match=message):
            pipe.build()
