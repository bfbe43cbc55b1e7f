"""The calls of a libnvjpeg function for each image, with and without the C module."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._codecs import nvjpeg

PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_int] * 4)
PARAMETERS = np.array([16, 32, 48], np.uint64)
REGIONS = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.int32)


@pytest.fixture(params=["compiled", "python"])
def set_regions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "python":
        monkeypatch.setattr(nvjpeg, "compiled", None)
    elif nvjpeg.compiled is None:
        pytest.skip("needs the C module")
    return nvjpeg._set_regions


def test_regions_are_set(set_regions: Any) -> None:
    calls = []

    def record(*arguments: int) -> int:
        calls.append(arguments)
        return 0

    assert set_regions(PROTOTYPE(record), PARAMETERS, REGIONS) == 0
    assert calls == [(16, 1, 2, 3, 4), (32, 5, 6, 7, 8)]


def test_first_refusal_is_returned(set_regions: Any) -> None:
    assert set_regions(PROTOTYPE(lambda parameters, *_: 2 if parameters == 32 else 0), PARAMETERS, REGIONS) == 2


def test_parameters_must_suffice() -> None:
    if nvjpeg.compiled is None:
        pytest.skip("needs the C module")
    function = PROTOTYPE(lambda *_: 0)
    with pytest.raises(ValueError, match="as many parameters"):
        nvjpeg.compiled.set_regions(ctypes.cast(function, ctypes.c_void_p).value, PARAMETERS[:1], REGIONS)
