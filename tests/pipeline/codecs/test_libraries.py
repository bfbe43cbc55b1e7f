"""A library that lacks what is needed is one clear error, so that decoding goes on without it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.codecs import nvjpeg
from pipeline.errors import DeviceError


def test_a_libnvjpeg_without_the_batched_call_is_no_engine() -> None:
    old: Any = SimpleNamespace(nvjpegCreateEx=SimpleNamespace())
    with pytest.raises(DeviceError, match="too old: it has no nvjpegDestroy"):
        nvjpeg._bind(old)
