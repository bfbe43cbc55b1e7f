"""Every operator, with every argument that it documents, against NVIDIA DALI on the CPU.

Calls are the same in every run. DALI_PROXY_PARITY_EXAMPLES=200 draws more of them, and other ones;
DALI_PROXY_PARITY_RECORD=docs/parity.json notes the largest differences, of which docs/operators.md tells.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline.operators.registry import lookup
from tests.parity import cases_arrays  # noqa: F401 - they register themselves
from tests.parity.drawing import Draw
from tests.parity.exceptions import UNDRAWN
from tests.parity.machine import CASES, compare, documented, draw_call, run_here, run_there

EXAMPLES = int(os.environ.get("DALI_PROXY_PARITY_EXAMPLES", "0"))
RECORD = os.environ.get("DALI_PROXY_PARITY_RECORD")

options = settings(
    max_examples=EXAMPLES or 16,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink] if EXAMPLES else [Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parity
@pytest.mark.timeout(60 + EXAMPLES)
@pytest.mark.parametrize("operator", sorted(CASES))
def test_like_dali(operator: str) -> None:
    found: dict[str, float] = {}
    drawn: set[str] = set()

    @options
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        draw = Draw(data)
        call = draw_call(operator, draw.one(*CASES[operator]), draw)
        drawn.update(call.names)
        for dtype, largest in compare(operator, run_here(operator, call), run_there(operator, call)).items():
            found[dtype] = max(found.get(dtype, 0.0), largest)

    check()
    missing = documented(lookup(operator)) - drawn - UNDRAWN.get(operator, set())
    assert not missing, "arguments that no call was drawn with"
    if RECORD:
        path = Path(RECORD)
        notes = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**notes, operator: dict(sorted(found.items()))}, indent=1, sort_keys=True) + "\n")


def test_what_is_not_drawn_is_documented() -> None:
    for operator, arguments in UNDRAWN.items():
        assert arguments <= documented(lookup(operator))
