"""A server whose pipeline is declared for a GPU, but runs on the CPU."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from dali_proxy import DALIServer, DataLoader
from dali_proxy.pipeline._graph.nodes import apply_operator
from pipeline import Pipeline, fn, pipeline_def
from pipeline.errors import ArgumentValueError, DeviceError
from tests.dali_proxy.indexed import JpegDataset


@pipeline_def(batch_size=4, num_threads=2, device_id=0, seed=3)
def images() -> Any:
    decoded = fn.decoders.image(fn.external_source(name="images"), device="mixed")
    fn.external_source(name="forgotten")
    return fn.crop_mirror_normalize(fn.resize(decoded, size=(12, 10)), mirror=fn.random.coin_flip())


def batches(server: DALIServer) -> list[torch.Tensor]:
    with server:
        return [batch for batch, _ in DataLoader(server, JpegDataset(8, server.proxy), batch_size=4)]


def test_device_cpu_moves_the_pipeline_of_one_server() -> None:
    pipe = images()
    with pytest.warns(RuntimeWarning, match=r"(?s)pipeline images is .*fn\.decoders\.image.*outputs on the CPU: 0"):
        server = DALIServer(pipe, device="cpu", placement="consumer")
    assert (server.placement, server.endpoint.unused) == ("server", ("forgotten",))
    assert pipe.output_devices == ("gpu",)
    found = batches(server)
    assert {(*batch.shape[1:], batch.device.type) for batch in found} == {(3, 12, 10, "cpu")}


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_variable_moves_the_pipelines_of_all_servers(monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    monkeypatch.setenv("DALI_PROXY_DEVICE", "cpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = batches(DALIServer(images(), mode=mode))
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert {batch.device.type for batch in found} == {"cpu"}


def test_another_device_is_an_error() -> None:
    with pytest.raises(ArgumentValueError, match=r"device must be \"cpu\" or None, not 'gpu'"):
        DALIServer(images(), device="gpu")  # type: ignore[arg-type]


def test_pipeline_of_nvidia_cannot_be_moved() -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=0) as pipe:  # as `adopt` returns it
        arguments = {"serialized": b"", "input_names": ["x"], "output_count": 1, "device": "mixed"}
        pipe.set_outputs(apply_operator("nvidia_pipeline", [fn.external_source(name="x")], arguments))
    with pytest.raises(DeviceError, match="was made with NVIDIA's package can't be moved to the CPU"):
        DALIServer(pipe, device="cpu")
