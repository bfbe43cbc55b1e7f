"""The groups and the examples of the operators' reference."""

from __future__ import annotations

from collections import Counter

import pytest

from dali_proxy.pipeline._catalog import all_schemas
from docs.purposes import DRAWN, EXAMPLES, PURPOSES, example
from pipeline import Pipeline, fn, tfrecord, types

NAMES = [schema.name for schema in all_schemas() if not schema.hidden and schema.alias_of is None]


def test_operators_have_one_purpose_and_at_most_one_example() -> None:
    placed = Counter(name for names in PURPOSES.values() for name in names.split())
    assert placed == Counter(NAMES)
    assert DRAWN.keys() | EXAMPLES.keys() <= set(NAMES)
    assert not DRAWN.keys() & EXAMPLES.keys()


@pytest.mark.parametrize("name", NAMES)
def test_example_describes_a_graph(name: str) -> None:
    """Names and types of the arguments are checked when the graph is described."""

    class Inputs(dict[str, object]):
        def __missing__(self, key: str) -> object:
            if key in ("list", "range", "min", "lambda"):
                raise KeyError(key)
            return fn.external_source(name=key)

    features = {"image": tfrecord.FixedLenFeature((), tfrecord.string, "")}
    known = {"fn": fn, "types": types, "np": __import__("numpy"), "SIZE": (150, 200), "features": features}
    with Pipeline(batch_size=1, num_threads=1, device_id=None):
        eval(example(name), Inputs(known))
    assert f"fn.{name}(" in example(name)
