"""Errors of operators on arrays, and differences from DALI; tests/parity compares the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import compare, refused_by_both, run_dali, run_ours, sample_images

SAMPLES = sample_images((2, 6, 1), (4, 6, 1))
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("cat", {"axis": 3}, "Invalid axis argument, 3 for "),
    ("cat", {"axis_name": "Q"}, "Axis 'Q' is not present"),
    ("cat", {"axis_name": "H", "axis": 0}, "can't be used together"),
    ("stack", {"axis": -4}, "Invalid axis argument, -4 for "),
    ("stack", {"axis_name": "AB"}, "must be a single character"),
    ("reshape", {}, "the call is no-op"),
    ("reshape", {"shape": [-1, -1]}, "Only one negative extent is allowed"),
    ("reshape", {"shape": [5, 5]}, "must occupy the same size in bytes"),
    ("reshape", {"shape": [6, -1], "layout": "HWC"}, "is not compatible with a 2D shape"),
    ("reshape", {"shape": [6, -1], "rel_shape": [1, -1]}, "mutually exclusive"),
    ("reshape", {"rel_shape": [1, 1, 1, 1]}, "has more elements .4. than there are dimensions in the input .3."),
    ("reshape", {"rel_shape": []}, "is empty"),
    ("reshape", {"src_dims": [0, 3, 1]}, "`src_dims` has 3, which is out of bounds"),
    ("reinterpret", {}, "the call is no-op"),
    ("squeeze", {}, "Missing argument ``axes`` or ``axis_names``"),
    ("squeeze", {"axes": [1]}, "don't all have extent 1"),
    ("squeeze", {"axis_names": "Q"}, "Axis 'Q' is not present"),
    ("expand_dims", {"axes": [-1]}, "Axis value can't be negative"),
    ("expand_dims", {"axes": [5]}, "not enough dimensions to add new axes.*axis 5"),
    ("expand_dims", {"axes": [0, 1], "new_axis_names": "A"}, "Specified 2 new dimensions, but layout contains 1"),
    ("one_hot", {"axis": 4}, "got: 4, expected to be in range: .-1, 3."),
    ("one_hot", {"axis_name": "AB"}, "must be a single character"),
    ("one_hot", {"num_classes": -1}, "can't be negative"),
    ("element_extract", {"element_map": [0]}, "must describe a sequence"),
    ("permute_batch", {"indices": [0]}, "sample indices 1 does not match the current batch size, which is 2"),
    ("permute_batch", {"indices": [0, 2]}, "Sample index out of range. 2 is not a valid index"),
    ("normalize", {"axes": [3]}, "Axis 3 out of range"),
    ("normalize", {"axes": []}, "at least one axis"),
    ("normalize", {"mean": 1.0, "stddev": 2.0, "axes": [0]}, "axes have no effect"),
    ("normalize", {"batch": True, "axes": [1]}, "must be the same"),
    ("full_like", {}, "expects from 2 to 2 inputs"),
]


@pytest.mark.parity
@pytest.mark.parametrize(("name", "arguments", "match"), CALLS)
def test_calls_refused_by_both(name: str, arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: getattr(fn, name)(x, **arguments), SAMPLES, layouts=["HWC"], match=match)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "one of the arguments"),
        ({"fdata": [1.0], "idata": [1]}, "but not both"),
        ({"idata": [1, 2, 3], "shape": [2, 2]}, "3 values can't fill"),
        ({"idata": [1, 2], "shape": [2], "layout": "HW"}, "has 2 dimensions but output shape has 1"),
    ],
)
def test_constants_refused_by_both(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _: fn.constant(**arguments), match=match)


@pytest.mark.parity
@pytest.mark.parity
def test_first_values_fill_smaller_samples() -> None:
    rows = [np.arange(5, dtype=np.int32), np.arange(5, dtype=np.int32) + 7]
    compare(lambda fn, _, x: (fn.full(x, shape=[1]), fn.full(x, shape=[]), fn.full(x, shape=[2, 5])), rows)
    compare(lambda fn, _, x: fn.full_like(np.zeros(1), x), rows)


@pytest.mark.parity
def test_canvas_may_have_a_number_of_channels() -> None:
    images = sample_images((4, 5, 3), (6, 7, 3))
    in_ids = np.array([1, 0], np.int32)
    compare(lambda fn, _, x: fn.multi_paste(x, in_ids=in_ids, output_size=[9, 8, 3]), images, layouts=["HWC"])


def test_values_that_do_not_broadcast_are_refused() -> None:
    refused_by_both(
        lambda fn, _: fn.full(np.array([1, 2, 3], np.int16), shape=[2, 4]), match="don't broadcast to \\(2, 4\\)"
    )
    refused_by_both(lambda fn, _: fn.zeros(shape=[2, 3], layout="H"), match="has 1 dimensions but output shape has 2")


def test_inputs_that_do_not_go_together_are_refused() -> None:
    x, other = sample_images((2, 3)), sample_images((2, 4))
    for graph, match in (
        (lambda fn, types, a, b: fn.cat(a, b), r"shapes \(2, 3\) and \(2, 4\) can't be joined along axis 0"),
        (lambda fn, types, a, b: fn.stack(a, b), r"can't be joined\n"),
        (lambda fn, types, a, b: fn.cat(a, fn.cast(b, dtype=types.FLOAT)), "input 1 is float32"),
        (lambda fn, types, a, b: fn.normalize(a, mean=fn.cast(b, dtype=types.FLOAT)), "it must be"),
    ):
        with pytest.raises(PipelineError, match=match):
            run_ours(graph, x, other)
    with pytest.raises(PipelineError, match="different layouts"):
        run_ours(lambda fn, _, a, b: fn.cat(a, b), x, x, layouts=["HW", "WH"])


@pytest.mark.parity
def test_deviations_of_zero() -> None:
    def graph(fn: Any, _: Any, x: Any) -> Any:
        return (
            fn.normalize(x, axes=[0]),
            fn.normalize(x, axes=[0], ddof=2, shift=3),
            fn.normalize(x, axes=[0], ddof=5, epsilon=1),
            fn.normalize(x, stddev=0.0, mean=4.0),
            fn.normalize(x, stddev=np.array([[0, 2]], np.float32), mean=0.0),
            fn.normalize(x, stddev=-2.0, mean=0.0),
        )

    feed = [np.array([[5, 1], [5, 2]], np.uint8)]
    for ours, theirs in zip(run_ours(graph, feed), run_dali(graph, feed), strict=True):
        np.testing.assert_allclose(ours.samples[0], theirs.samples[0], rtol=1e-6)


def test_one_hot_values_saturate() -> None:
    """In DALI, the values wrap around."""
    (made,) = run_ours(
        lambda fn, types, x: fn.one_hot(x, num_classes=2, on_value=300, off_value=-2.5, dtype=types.UINT8),
        [np.int32(1)],
    )
    assert made.samples[0].tolist() == [0, 255]


def test_orders_of_batches() -> None:
    def graph(fn: Any, _: Any) -> Any:
        return (
            fn.batch_permutation(),
            fn.batch_permutation(no_fixed_points=True),
            fn.batch_permutation(allow_repetitions=True),
            fn.batch_permutation(allow_repetitions=True, no_fixed_points=True),
        )

    counts = np.zeros((4, 4, 4))
    for seed in range(40):
        made = run_ours(graph, batch_size=4, seed=seed)
        rows = [[int(sample) for sample in output.samples] for output in made]
        assert sorted(rows[0]) == sorted(rows[1]) == [0, 1, 2, 3]
        for kind, row in enumerate(rows):
            counts[kind, range(4), row] += 1
    assert (counts[[0, 2]] > 0).all()
    others = ~np.eye(4, dtype=bool)
    for kind in (1, 3):
        assert (counts[kind][others] > 0).all()
        assert not counts[kind][~others].any()
    single = run_ours(graph)
    assert [int(output.samples[0]) for output in single] == [0, 0, 0, 0]


@pytest.mark.parity
def test_large_images_are_normalized_alike() -> None:
    def graph(fn: Any, types: Any, x: Any) -> Any:
        return fn.normalize(x, axes=[0, 1]), fn.normalize(x, axes=[0, 1], batch=True, shift=128, dtype=types.UINT8)

    feed = sample_images((61, 53, 3), (40, 90, 3))
    for ours, theirs in zip(run_ours(graph, feed), run_dali(graph, feed), strict=True):
        for our, their in zip(ours.samples, theirs.samples, strict=True):
            np.testing.assert_allclose(our, their, atol=1e-5 if our.dtype == np.float32 else 1)
