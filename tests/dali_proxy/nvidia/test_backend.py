"""`nvidia.dali.backend`, the plugin manager and the evaluator of loaders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy._loader.evaluator import LoaderEvaluator
from dali_proxy._nvidia import backend, names, plugin_manager, sysconfig


def test_capsules_are_recognized() -> None:
    assert backend.CheckDLPackCapsule(None) == (False, False)
    assert backend.CheckDLPackCapsule(np.ones(3).__dlpack__()) == (True, False)


def test_schemas_are_found_by_name() -> None:
    assert backend.GetSchema("readers__File").Name() == "readers__File"
    assert backend.TryGetSchema("nope") is None
    with pytest.raises(KeyError, match="Schema for operator 'nope' not registered"):
        backend.GetSchema("nope")
    assert [schema.Name() for schema in backend.GetSchemaAndTarget("CoinFlip")] == ["CoinFlip", "random__CoinFlip"]
    assert "Resize" in backend.cpu_ops() & backend.gpu_ops()
    assert backend.mixed_ops() <= set(backend.RegisteredMixedOps(internal_ops=True))


def test_settings_of_buffers_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("device_growth", "host_growth", "shrink_threshold"):
        monkeypatch.setattr(backend._Buffers, name, getattr(backend._Buffers, name))
    backend.SetBufferGrowthFactor(1.5)
    assert backend.GetDeviceBufferGrowthFactor() == backend.GetHostBufferGrowthFactor() == 1.5
    backend.SetHostBufferShrinkThreshold(0.25)
    assert backend.GetHostBufferShrinkThreshold() == 0.25
    with pytest.raises(ValueError, match="between 1 and 4"):
        backend.SetBufferGrowthFactor(0.5)
    with pytest.raises(ValueError, match="between 0"):
        backend.SetHostBufferShrinkThreshold(2)


def test_versions_are_numbers() -> None:
    import cv2

    assert backend.GetOpenCVVersion() == cv2.__version__
    found = [backend.GetCudaVersion(), backend.GetNvimgcodecVersion(), backend.GetCUDADeviceCount()]
    assert all(isinstance(each, int) for each in found)
    assert backend.IsDriverInitialized() == (found[-1] > 0)


def test_plugins_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="Failed to load library"):
        plugin_manager.load_library(str(tmp_path / "libdali_x.so"))
    plugin_manager.load_directory(str(tmp_path))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "libdali_x.so").touch()
    with pytest.raises(RuntimeError, match="compiled operators"):
        plugin_manager.load_directory(str(tmp_path))
    with pytest.raises(RuntimeError, match="no C\\+\\+ interface"):
        sysconfig.get_compile_flags()
    assert Path(sysconfig.get_lib_dir(), "_nvidia").is_dir()


def test_modules_list_the_modules_below_them() -> None:
    assert {"backend", "fn", "tfrecord", "plugin_manager"} <= set(names.children("nvidia.dali"))
    assert {"fn", "ops", "loader_evaluator"} <= set(names.children("nvidia.dali.plugin.pytorch"))


def test_evaluator_measures_and_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log: Any = LoaderEvaluator([1, 2, 3], metrics_file=str(tmp_path / "metrics.json"))
    assert log.get_metrics() == {}
    assert (list(log), len(log)) == ([1, 2, 3], 3)
    log.save_metrics()
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert (metrics["mode"], metrics["total_batches"], len(metrics["batch_times"])) == ("log", 3, 3)
    log.print_summary()
    assert "total_batches: 3" in capsys.readouterr().out
    replay = LoaderEvaluator([1, 2, 3, 4, 5], mode="replay", num_cached_batches=2)
    assert replay.cache_ready
    assert list(replay) == list(replay) == [1, 2, 1, 2, 1]


def test_settings_of_buffers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALI_BUFFER_GROWTH_FACTOR", "1.5")
    assert backend._setting("DALI_BUFFER_GROWTH_FACTOR", 1.1) == 1.5
    assert backend._setting("DALI_HOST_BUFFER_GROWTH_FACTOR", 1.1) == 1.1
    assert not backend.RestrictPinnedMemUsage()
    monkeypatch.setenv("DALI_RESTRICT_PINNED_MEM", "1")
    assert backend.RestrictPinnedMemUsage()
