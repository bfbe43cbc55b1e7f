"""Lists in messages are short."""

from __future__ import annotations

import pytest

from dali_proxy.pipeline._listing import listed
from pipeline import Pipeline, fn
from pipeline.errors import OperatorError


@pytest.mark.parametrize(
    ("count", "expected"), [(0, ""), (1, "0"), (8, "0, 1, 2, 3, 4, 5, 6, 7"), (10, "0, 1, 2, 3, 4, 5, 6, 7 and 2 more")]
)
def test_list_names_eight_items_and_counts_the_others(count: int, expected: str) -> None:
    assert listed(range(count)) == expected


def test_negative_shapes_of_a_batch_are_not_all_listed() -> None:
    with Pipeline(batch_size=32, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.zeros(shape=fn.external_source(lambda: [[-1]] * 32)))
    with pytest.raises(OperatorError, match=r"\[-1\] and 24 more"):
        pipe.run()
    pipe.close()
