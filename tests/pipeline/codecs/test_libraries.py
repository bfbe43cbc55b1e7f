"""A library that lacks a function causes one clear error, so that decoding can continue without it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dali_proxy.pipeline._codecs import missing_codec_reason, nvjpeg
from pipeline.errors import DeviceError


def test_libnvjpeg_without_the_batched_call_is_not_an_engine() -> None:
    old: Any = SimpleNamespace(nvjpegCreateEx=SimpleNamespace())
    with pytest.raises(DeviceError, match="too old: it lacks nvjpegDestroy"):
        nvjpeg._bind(old)


def test_stand_in_for_nvidia_is_not_reported_as_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """`dali-proxy run` creates a package `nvidia` if there is none."""
    made = ModuleType("nvidia")
    made.__path__ = []
    monkeypatch.setitem(sys.modules, "nvidia", made)
    monkeypatch.delitem(sys.modules, "nvidia.nvimgcodec", raising=False)
    assert str(missing_codec_reason.__wrapped__()).startswith("nvImageCodec is not installed")


def test_codec_is_missing_without_a_package_of_nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvidia", None)  # importing it fails
    monkeypatch.delitem(sys.modules, "nvidia.nvimgcodec", raising=False)
    assert str(missing_codec_reason.__wrapped__()).startswith("nvImageCodec is not installed")
