"""Misspelled names of operators and arguments: the error suggests the right one."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._declaration.synonyms import SYNONYMS, operators_for
from pipeline import dynamic, fn, ops
from pipeline.errors import ArgumentTypeError, UnknownArgumentError


@pytest.mark.parametrize(
    ("module", "name", "suggested"),
    [
        (dynamic, "Crop", "crop"),
        (dynamic, "resizee", "resize"),
        (dynamic, "Resize", "resize"),
        (dynamic, "random_resize_crop", "random_resized_crop"),
        (dynamic, "uniform", "random.uniform"),
        (dynamic.decoders, "imge", "decoders.image"),
        (fn, "gausian_blur", "gaussian_blur"),
        (fn.readers, "fil", "readers.file"),
        (fn, "colour_twist", "color_twist"),
        (ops, "Resizee", "Resize"),
        (ops, "resize", "Resize"),
        (dynamic, "color_jitter", "color_twist"),
        (fn, "Cutout", "erase"),
        (ops, "ColorJitter", "ColorTwist"),
    ],
)
def test_operator_is_suggested(module: Any, name: str, suggested: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert f"has no operator {name!r}. Did you mean {suggested!r}" in str(caught.value)
    assert "".join(traceback.format_exception(caught.value)).count("Did you mean") == 1


def test_nothing_is_suggested_for_a_name_like_no_other() -> None:
    with pytest.raises(AttributeError, match=r"has no operator 'xyzzy'$"):
        fn.xyzzy  # noqa: B018


def test_synonyms_are_of_operators_and_not_names_of_others() -> None:
    known = {schema.name for schema in all_schemas() if not schema.hidden and schema.alias_of is None}
    assert set(SYNONYMS) - known == set()
    for operator, names in SYNONYMS.items():
        assert operator in operators_for(names.split()[0])
        assert known.isdisjoint(names.split()), operator


def test_argument_is_suggested() -> None:
    with pytest.raises(UnknownArgumentError, match="Did you mean 'horizontal'"):
        fn.flip(fn.external_source(name="x"), horizontl=1)
    with pytest.raises(UnknownArgumentError, match="Did you mean 'size'"):
        dynamic.resize(np.zeros((4, 4, 3), np.uint8), sise=3)
    with pytest.raises(ArgumentTypeError, match=r"unexpected argument 'sed'.*Did you mean 'seed'"):
        dynamic.trace(lambda x: x, sed=1)
