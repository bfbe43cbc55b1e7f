"""The table of ratios is that of the last results, and complete."""

from __future__ import annotations

import json

import pytest

from benchmarks.operators.cases import CASES, LEFT_OUT
from dali_proxy.pipeline._catalog import all_schemas
from docs import operators, operators_speed, slower


def test_page_is_not_stale() -> None:
    assert operators_speed.PAGE.read_text() == operators_speed.page(), "run `python -m docs.all`"


def test_operators_that_dali_has_are_measured_or_have_a_reason() -> None:
    dali = json.loads(operators.NAMES.read_text())["operators"]
    ours = {schema.name for schema in all_schemas() if not schema.hidden and schema.alias_of is None}
    measured = {case.operator for case in CASES}
    assert ours & set(dali) == measured | (set(LEFT_OUT) & set(dali))
    assert not measured & set(LEFT_OUT)
    assert set(LEFT_OUT) <= ours
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize(("device", "reasons"), [("cpu", slower.ON_CPU), ("gpu", slower.ON_GPU)])
def test_slower_operators_are_explained(device: str, reasons: dict[str, str]) -> None:
    assert operators_speed.slow(device).keys() <= reasons.keys(), "add reasons in docs/slower.py"
