"""Compare every operator, with every argument that it documents, with NVIDIA DALI on the CPU.

Calls are the same in every run. DALI_PROXY_PARITY_EXAMPLES=200 draws more calls, and different ones;
DALI_PROXY_PARITY_RECORD=docs/parity.json records the largest differences, for docs/operators.md.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._declaration.registry import lookup
from tests.parity import (  # noqa: F401 - they register themselves
    cases_arrays,
    cases_audio,
    cases_boxes,
    cases_files,
    cases_geometry,
    cases_images,
)
from tests.parity.exceptions import EXCEPTIONS, UNDRAWN
from tests.parity.machine import CASES, compare, documented, draw_call, record, run_here, run_there
from tests.parity.tolerances import TOLERANCES

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = int(os.environ.get("DALI_PROXY_PARITY_EXAMPLES", "0"))
#: Maximum number of rounds of calls; a further round runs only if arguments haven't been drawn yet.
ROUNDS = 6

options = settings(
    max_examples=EXAMPLES or 12,
    deadline=None,
    database=None,
    derandomize=False,  # the round determines the seed
    phases=[Phase.generate, Phase.shrink] if EXAMPLES else [Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parity
@pytest.mark.timeout(180 + EXAMPLES)
@pytest.mark.parametrize("operator", sorted(CASES))
def test_operators_equal_dali(operator: str) -> None:
    found: dict[str, float] = {}
    drawn: set[str] = set()

    @options
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        call = draw_call(operator, data)
        drawn.update(call.names)
        made = run_here(operator, call)
        for dtype, largest in compare(operator, call, made, run_there(operator, call)).items():
            found[dtype] = max(found.get(dtype, 0.0), largest)

    wanted = documented(lookup(operator)) - UNDRAWN.get(operator, set())
    for number in range(ROUNDS):
        (check if EXAMPLES else seed(number)(check))()
        if wanted <= drawn:
            break
    assert wanted <= drawn, "arguments that no call was drawn with"
    record("cpu", operator, found)


def test_operators_all_have_a_case_or_a_reason() -> None:
    operators = {schema.name for schema in all_schemas() if not schema.hidden and schema.alias_of is None}
    assert operators - set(CASES) - set(EXCEPTIONS) == set(), "add a case in tests/parity, or a reason in exceptions.py"
    assert not set(CASES) & set(EXCEPTIONS)
    assert set(CASES) | set(EXCEPTIONS) <= operators
    assert set(TOLERANCES) <= set(CASES), "tolerances of operators that aren't compared"
    for operator, reason in EXCEPTIONS.items():
        assert (ROOT / reason.split()[-1]).is_file(), f"{operator}: {reason}"


def test_undrawn_arguments_are_documented() -> None:
    for operator, arguments in UNDRAWN.items():
        assert arguments & documented(lookup(operator))
