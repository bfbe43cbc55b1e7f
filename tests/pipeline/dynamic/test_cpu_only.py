"""Functions for a GPU that run on the CPU, because the environment variable requests it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from dali_proxy.pipeline._dynamic import devices
from pipeline import dynamic
from pipeline.errors import InputError
from pipeline.torchvision import Resize

IMAGE = np.random.default_rng(0).integers(0, 255, (12, 10, 3), np.uint8)
MOVED = "dynamic mode uses the CPU in place of GPUs, because DALI_PROXY_DEVICE is cpu"


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALI_PROXY_DEVICE", "cpu")
    monkeypatch.setattr(devices._Warned, "already", True)


def image() -> dynamic.Tensor:
    return dynamic.tensor(IMAGE, layout="HWC")


@pytest.fixture
def encoded(jpeg_folder: Path) -> dynamic.Tensor:
    return dynamic.tensor(np.fromfile(min(jpeg_folder.rglob("*.jpg")), np.uint8))


def test_gpus_are_the_cpu() -> None:
    for device in ("gpu", "gpu:3", "cuda", torch.device("cuda", 1), dynamic.Device("gpu", 2)):
        assert dynamic.device(device) == dynamic.Device("cpu")
    assert dynamic.Device.current() == dynamic.Device("cpu")


def test_gpu_that_has_a_wrong_name_is_still_an_error() -> None:
    for wrong in ("gpus", "gpu:x"):
        with pytest.raises(ValueError, match="Invalid device"):
            dynamic.Device(wrong)


@pytest.mark.parametrize(
    "compute",
    [
        lambda data: dynamic.resize(data, size=(4, 4), device="gpu"),
        lambda data: dynamic.resize(data.gpu(), size=(4, 4)),
        lambda data: dynamic.resize(data.to_device("gpu:0"), size=(4, 4)).cpu(),
        lambda data: dynamic.resize(dynamic.tensor(data, device="gpu"), size=(4, 4)),
        lambda data: dynamic.resize(dynamic.batch([data], device="gpu"), size=(4, 4)).tensors[0],
    ],
)
@pytest.mark.parametrize("mode", [dynamic.EvalMode.eager, dynamic.EvalMode.deferred, dynamic.EvalMode.sync_full])
def test_results_are_those_of_the_cpu(compute: Callable[[Any], Any], mode: dynamic.EvalMode) -> None:
    with mode:
        result = compute(image())
        assert result.device == dynamic.Device("cpu")
        np.testing.assert_array_equal(result, dynamic.resize(image(), size=(4, 4)))
        assert result.torch().device.type == "cpu"


@pytest.mark.parametrize("device", ["gpu", "mixed"])
def test_decoders_run_on_the_cpu(device: str, encoded: dynamic.Tensor) -> None:
    np.testing.assert_array_equal(dynamic.decoders.image(encoded, device=device), dynamic.decoders.image(encoded))


def test_readers_run_on_the_cpu(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", IMAGE)
    reader = dynamic.readers.Numpy(files=[str(tmp_path / "a.npy")], device="gpu")
    ((data,),) = reader.next_epoch()
    np.testing.assert_array_equal(data, IMAGE)
    reader.close()


def test_blocks_of_devices_contexts_and_streams_have_no_effect() -> None:
    with dynamic.Device("gpu"), dynamic.EvalContext(device_id=0, num_threads=1) as context:
        assert (context.device_id, context.cuda_stream) == (None, None)
        assert dynamic.random.uniform(range=(0, 1), shape=2).device == dynamic.Device("cpu")
        dynamic.set_current_stream(dynamic.stream())
        dynamic.set_default_stream(dynamic.stream(device_id=0))
        assert dynamic.get_current_stream() is dynamic.get_default_stream() is None
    context.close()


def test_transforms_run_on_the_cpu() -> None:
    data = torch.from_numpy(IMAGE).permute(2, 0, 1)
    assert torch.equal(Resize((4, 4), device="gpu")(data), Resize((4, 4))(data))


def test_traced_function_runs_on_the_cpu() -> None:
    mean = dynamic.tensor(np.float32([1, 2, 3]), device="gpu")

    def function(x: dynamic.Tensor) -> Any:
        return dynamic.cast(x, dtype="float32").gpu() - mean

    with dynamic.trace(function, batch_size=2, device_id=0) as pipe:
        np.testing.assert_array_equal(pipe.run(x=[IMAGE])[0].at(0), IMAGE - np.float32([1, 2, 3]))
        assert pipe.device_id is None


def test_data_on_a_gpu_is_an_error() -> None:
    class OnGpu:
        __cuda_array_interface__: ClassVar[Any] = {
            "shape": (4, 2),
            "typestr": "|u1",
            "data": (1 << 20, True),
            "version": 3,
        }

    with pytest.raises(InputError, match="OnGpu is on a GPU, but DALI_PROXY_DEVICE is cpu: pass a copy on the CPU"):
        dynamic.as_tensor(OnGpu())


def test_first_use_of_a_gpu_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices._Warned, "already", False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        image().cpu()
        image().gpu()
        dynamic.Device("gpu")
    assert [str(each.message) for each in caught] == [MOVED]
    assert caught[0].filename == __file__


def test_streams_are_absent_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DALI_PROXY_DEVICE")
    if dynamic.Device.current() != dynamic.Device("cpu"):
        pytest.skip("there is a GPU")
    dynamic.set_current_stream(None)
    dynamic.set_default_stream(None)
    assert dynamic.get_default_stream() is None
