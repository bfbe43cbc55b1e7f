"""`fn.lookup_table` equals DALI's exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import compare, refused_by_both, sample_images

TABLE: dict[str, Any] = {
    "keys": [0, 2, 3, 4, 200, 3],
    "values": [0.2, 300, -2.5, 2.5, 7, 0.1],
    "default_value": -1.5,
}
FLOATS = ["FLOAT16", "FLOAT", "FLOAT64"]
DTYPES = ["UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64", "BOOL", *FLOATS]


@pytest.mark.parity
@pytest.mark.parametrize("source", ["uint8", "int8", "uint16", "uint32", "int32", "uint64"])
def test_numbers(source: str) -> None:
    feed = sample_images((7, 9, 2), (3, 5, 1), dtype=source, low=0 if source.startswith("u") else -5, high=9)
    feed += [np.array([[[200, 199, 201, 255]]]).astype(source)]
    compare(lambda fn, _, x: fn.lookup_table(x, **TABLE), feed, layouts=["HWC"])


@pytest.mark.parity
def test_dtypes_of_the_output() -> None:
    def graph(fn: Any, types: Any, x: Any) -> Any:
        return tuple(fn.lookup_table(x, **TABLE, dtype=getattr(types, dtype)) for dtype in DTYPES)

    compare(graph, [np.int32(3), np.int32(2), np.int32(70_000)])


@pytest.mark.parity
def test_missing_table() -> None:
    compare(lambda fn, types, x: fn.lookup_table(x, output_dtype=types.UINT8), [np.arange(5, dtype=np.int64)])


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"keys": [1], "values": [1.0, 2.0]}, "there are 1 and 2"),
        ({"keys": [-1], "values": [1.0]}, "from 0 to 65535"),
        ({"keys": [65536], "values": [1.0]}, "from 0 to 65535"),
    ],
)
def test_bad_calls_are_refused(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: fn.lookup_table(x, **arguments), sample_images((2, 2)), match=match)


@pytest.mark.parity
def test_real_numbers_are_refused() -> None:
    refused_by_both(
        lambda fn, _, x: fn.lookup_table(x), sample_images((2, 2), dtype="float32"), match="must be integers"
    )
