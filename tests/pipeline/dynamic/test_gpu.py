"""Tests of dynamic mode on a GPU. Without one, host memory stands for its memory: see `tests.host_cupy`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pipeline import dynamic
from tests import host_cupy
from tests.pipeline.kernels import emulator

IMAGES = [np.random.default_rng(n).integers(0, 255, (20 + n, 30, 3), dtype=np.uint8) for n in range(3)]


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def context(request: pytest.FixtureRequest) -> Iterator[dynamic.EvalContext]:
    if request.param == "gpu":
        with dynamic.EvalContext(num_threads=1) as context:
            yield context
        context.close()
        return
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed():
        with dynamic.EvalContext(num_threads=1) as context:
            yield context
        context.close()


def augment(images: dynamic.Batch) -> dynamic.Batch:
    images = dynamic.resize(images, size=(16, 16))
    images = dynamic.flip(images, horizontal=dynamic.batch([0, 1, 1]))
    return dynamic.crop_mirror_normalize(images, mean=[100.0], std=[50.0])


def test_deferred_chain_on_a_gpu_is_one_launch(context: dynamic.EvalContext, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[str] = []
    get = host_cupy.RawModule.get_function

    def counted(self: host_cupy.RawModule, name: str) -> object:
        kernel = get(self, name)
        return lambda *arguments: (launched.append(name), kernel(*arguments))

    monkeypatch.setattr(host_cupy.RawModule, "get_function", counted)
    images = dynamic.batch(IMAGES, layout="HWC").gpu()
    eager = augment(images).cpu().torch()
    separate, launched[:] = len(launched), []
    with dynamic.EvalMode.deferred:
        deferred = augment(images).cpu().torch()
    assert np.array_equal(eager, deferred)
    if separate:  # on the stand-in, which counts
        assert (separate, len(launched)) == (3, 1)


def test_data_goes_to_the_gpu_and_back(context: dynamic.EvalContext) -> None:
    tensor = dynamic.tensor([1, 2, 3], device="gpu")
    batch = dynamic.batch(IMAGES, layout="HWC").to_device("gpu")
    assert tensor.device == batch.device == dynamic.Device("gpu")
    assert tensor.cpu().numpy().tolist() == [1, 2, 3]
    assert hasattr(tensor, "__cuda_array_interface__")
    assert np.array_equal(batch.select(1).cpu(), IMAGES[1])
    assert np.array_equal(dynamic.as_batch([batch.select(0)]).cpu().select(0), IMAGES[0])
    assert dynamic.as_tensor(batch, pad=True).shape == (3, 22, 30, 3)
    assert dynamic.flip(IMAGES[0], device="gpu").device == tensor.device
    with pytest.raises(ValueError, match="Cannot mix GPU and CPU inputs"):
        dynamic.math.pow(tensor, dynamic.tensor([1, 2, 3]))
    with pytest.raises(TypeError, match="on a GPU"):
        np.asarray(tensor)
    assert context.cuda_stream is not None
    context.cuda_stream.synchronize()
