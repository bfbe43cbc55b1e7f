"""The list of operators tells what there is."""

from __future__ import annotations

import json

import pytest

from docs import operators
from pipeline.operators import all_schemas
from tests.parity.test_parity import CASES


def test_the_page_is_not_stale() -> None:
    assert operators.PAGE.read_text() == operators.page(), "run `make operators`, or `python -m docs.operators`"


def test_differences_of_all_compared_operators_are_noted() -> None:
    found = json.loads(operators.FOUND.read_text())
    assert set(found["cpu"]) == set(CASES), "run `make operators`"


def test_every_operator_is_on_the_page() -> None:
    page = operators.page()
    for schema in all_schemas():
        assert schema.hidden or f"| `{schema.name}` |" in page


@pytest.mark.parity
def test_all_of_dalis_operators_are_listed() -> None:
    pytest.importorskip("nvidia.dali")
    assert operators.look_up() == json.loads(operators.NAMES.read_text()), "run `make operators`"
