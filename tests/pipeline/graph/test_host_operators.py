"""Operators without a GPU version run on the CPU when they are called for a GPU."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn, ops
from pipeline._catalog import all_schemas
from pipeline._graph import Graph, host_operators
from tests import host_cupy
from tests.pipeline.kernels import emulator

SIGNALS = [np.sin(np.arange(length, dtype=np.float32)) for length in (40, 50)]


@pytest.fixture(autouse=True)
def power_spectrum_runs_on_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_operators, "HOST_OPERATORS", frozenset({"power_spectrum"}))


def test_list_has_all_operators_that_only_dali_runs_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    names = Path(__file__).resolve().parents[3] / "docs/dali_operators.json"
    theirs = json.loads(names.read_text())["operators"]
    known = {schema.name for schema in all_schemas()}
    on_cpu = {schema.name for schema in all_schemas() if "gpu" not in schema.devices}
    assert {name for name in on_cpu & theirs.keys() if "gpu" in theirs[name]} <= host_operators.HOST_OPERATORS <= known


@pytest.mark.parametrize(
    "describe",
    [
        lambda x: fn.power_spectrum(x.gpu()),
        lambda x: fn.power_spectrum(x, device="gpu"),
        lambda x: ops.PowerSpectrum(device="gpu")(x.gpu()),
    ],
)
def test_call_for_a_gpu_copies_its_data(describe: Any) -> None:
    output = describe(fn.external_source(name="x"))
    graph = Graph.from_outputs([output])
    assert output.device == "gpu"
    assert [node.operator for node in graph.nodes][-2:] == ["power_spectrum", "copy_to_gpu"]
    assert next(node for node in graph.nodes if node.operator == "power_spectrum").device == "cpu"


@pytest.mark.parametrize("device", ["cpu", "host", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_results_are_those_of_the_cpu(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if device == "host" and emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    if device == "cpu":
        monkeypatch.setenv("DALI_PROXY_DEVICE", "cpu")
        warned: Any = pytest.warns(RuntimeWarning, match="is declared for a GPU, but runs on the CPU")
    else:
        warned = contextlib.nullcontext()
    with host_cupy.installed() if device == "host" else contextlib.nullcontext(), warned:
        pipe = Pipeline(batch_size=2, num_threads=1, device_id=0)
        with pipe:
            x = fn.external_source(name="x")
            pipe.set_outputs(fn.power_spectrum(x), fn.power_spectrum(x.gpu(), nfft=64), fn.power_spectrum(x, nfft=64))
        _, moved, expected = pipe.run(x=SIGNALS)
        for ours, other in zip(moved.as_cpu().samples, expected.samples, strict=True):
            np.testing.assert_array_equal(ours, other)
        pipe.close()
