"""The same calls as in test_parity.py, on the GPU against our CPU."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from pipeline._declaration.registry import lookup
from tests.parity.machine import CASES, compare, draw_call, record, run_here
from tests.parity.test_parity import options

ON_GPU = sorted(operator for operator in CASES if {"gpu", "mixed"} & {*lookup(operator).devices})


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
