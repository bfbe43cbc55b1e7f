"""The same calls as in test_parity.py, on the GPU against our CPU.

Without a GPU, a few calls run on the host: see `tests.host_cupy`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._declaration.registry import lookup
from tests import host_cupy
from tests.parity import cases_on_gpu  # noqa: F401 - it registers its cases
from tests.parity.machine import CASES, CASES_ON_GPU, compare, draw_call, record, run_here
from tests.parity.test_parity import options
from tests.pipeline.kernels import emulator

ON_GPU = sorted(name for name in (*CASES, *CASES_ON_GPU) if {"gpu", "mixed"} & {*lookup(name).devices})
#: Operators whose kernels no other test runs on the host.
ON_HOST = (
    *("audio_resample", "box_encoder", "clahe", "debayer", "grid_mask", "laplacian", "mel_filter_bank", "mfcc"),
    *("multi_paste", "nonsilent_region", "preemphasis_filter", "spectrogram", "sphere", "tensor_resize"),
    *("to_decibels", "water", "experimental.warp_perspective", *CASES_ON_GPU),
)


@pytest.mark.gpu
@pytest.mark.timeout(300)
@pytest.mark.parametrize("operator", ON_GPU)
def test_gpu_equals_cpu(operator: str) -> None:
    found: dict[str, float] = {}

    @options
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        call = draw_call(operator, data, gpu=True)
        made = run_here(operator, call, gpu=True)
        for dtype, largest in compare(operator, call, made, run_here(operator, call), gpu=True).items():
            found[dtype] = max(found.get(dtype, 0.0), largest)

    seed(0)(check)()
    record("gpu", operator, found)


@pytest.mark.skipif(emulator.COMPILER is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("operator", ON_HOST)
def test_emulated_gpu_equals_cpu(operator: str) -> None:
    @settings(options, max_examples=2)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        call = draw_call(operator, data, gpu=True)
        expected = run_here(operator, call)
        with host_cupy.installed():
            made = run_here(operator, call, gpu=True)
        compare(operator, call, made, expected, gpu=True)

    seed(1)(check)()
