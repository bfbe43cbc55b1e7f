"""Behaviour that only a GPU shows: staging under load, scratch memory, errors of CUDA and NVRTC."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.errors import CudaError, KernelCompileError
from dali_proxy.pipeline._cuda.staging import SMALLEST
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.resample import ResamplePlan
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from pipeline.errors import DeviceError

on_gpu = [pytest.mark.gpu, pytest.mark.usefixtures("gpu")]


def test_importing_needs_no_cupy() -> None:
    code = "import sys; from dali_proxy.pipeline import _codecs, _kernels; "
    code += "from dali_proxy.pipeline._cuda import ipc; "
    code += "sys.exit('cupy' in sys.modules or 'nvidia.nvimgcodec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=150).returncode == 0


def test_errors_name_the_call_and_survive_a_pickle() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(KernelCompileError("compiling x.cu", "line 1: no")))
    assert isinstance(error, CudaError)
    assert str(error) == "compiling x.cu failed: line 1: no"


def test_missing_device_is_one_clear_error() -> None:
    pytest.importorskip("cupy")
    with pytest.raises(DeviceError, match="device"):
        KernelContext(99)


class TestOnTheGpu:
    pytestmark = on_gpu

    def test_kernel_that_does_not_compile_shows_the_log(self) -> None:
        from dali_proxy.pipeline._cuda.compiler import get_kernel

        with pytest.raises(KernelCompileError, match=r"(?s)nonsense.*error"):
            get_kernel("resample.cu", "resample_axis", (("IN", "nonsense"), ("OUT", "float32")), 0)

    def test_launches_from_threads_on_their_own_streams(self) -> None:
        import cupy

        failures: list[BaseException] = []

        def work(context: KernelContext, seed: int) -> None:
            try:
                with cupy.cuda.Device(0):
                    rng, stream = np.random.default_rng(seed), cupy.cuda.Stream(non_blocking=True)
                    for _ in range(60):
                        host = [rng.integers(0, 256, (n, 3), dtype=np.uint8) for n in rng.integers(1, 999, 40)]
                        with stream:
                            src = [cupy.asarray(array) for array in host]
                            dst = [cupy.empty(array.shape, cupy.float32) for array in host]
                        moved = {"start": [-1, 0], "fill": seed}
                        launch = plan_strided_copy(Samples.from_arrays(src), Samples.from_arrays(dst), **moved)
                        assert launch is not None
                        context.run(launch, stream)
                        stream.synchronize()
                        for array, out in zip(host, dst, strict=True):
                            expected = np.concatenate([np.full((1, 3), seed, np.float32), array[:-1]])
                            np.testing.assert_array_equal(out.get(), expected)
            except BaseException as error:  # noqa: BLE001 - handed to the test's thread
                failures.append(error)

        with KernelContext(0) as context:
            threads = [threading.Thread(target=work, args=(context, seed)) for seed in range(1, 5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(timeout=150)
        assert failures == []

    def test_steady_state_allocates_nothing(self) -> None:
        """Tables have a buffer for each launch in flight; timing decides how many launches of two per round overlap."""
        import cupy

        stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
        with cupy.cuda.using_allocator(pool.malloc), KernelContext(0) as context, stream:
            src = cupy.zeros((8, 300, 400, 3), cupy.uint8)
            dst = cupy.empty((8, 224, 224, 3), cupy.uint8)
            used, scratch = [], set()
            for round_ in range(30):
                context.run_plan(ResamplePlan(Samples.dense(src), Samples.dense(dst)), stream)
                stream.synchronize()
                if round_ > 2:
                    used.append(pool.used_bytes())
                    scratch.add(context.scratch(1, stream))
        assert len(scratch) == 1
        assert 0 <= used[-1] - used[0] <= SMALLEST, "one more buffer at most, and not one each round"
