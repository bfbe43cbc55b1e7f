"""The list of operators is complete and correct."""

from __future__ import annotations

import json

import pytest

from dali_proxy._nvidia.differences import ARGUMENTS
from dali_proxy.pipeline._catalog import all_schemas
from docs import arguments, operators
from tests.parity.test_parity import CASES


def test_page_is_not_stale() -> None:
    assert operators.PAGE.read_text() == operators.page(), "run `python -m docs.all`"


def test_differences_of_all_compared_operators_are_noted() -> None:
    found = json.loads(operators.FOUND.read_text())
    assert set(found["cpu"]) == set(CASES), "run `make operators`"


def test_operators_are_all_on_the_page() -> None:
    page = operators.page()
    for schema in all_schemas():
        assert schema.hidden or f"| `{schema.name}` |" in page


@pytest.mark.parity
def test_operators_of_dali_are_all_listed() -> None:
    pytest.importorskip("nvidia.dali")
    assert operators.look_up() == json.loads(operators.NAMES.read_text()), "run `make operators`"


def test_differences_between_arguments_have_reasons() -> None:
    found = list(arguments.differences(json.loads(operators.NAMES.read_text())))
    unexplained = [
        f"{operator}.{name}: {text}" for operator, name, text in found if not arguments.reason(operator, name)
    ]
    assert unexplained == [], "add the argument, or say in dali_proxy/_nvidia/differences.py why it isn't there"
    used = {name for operator, argument, _ in found for name in (argument, f"{operator}.{argument}")}
    assert set(ARGUMENTS) <= used, "reasons for what doesn't differ"
