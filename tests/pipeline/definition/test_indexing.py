"""``x[...]`` on data nodes, and properties of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline import Pipeline, errors, fn, newaxis

DATA = np.arange(2 * 3 * 4, dtype=np.int32).reshape(2, 3, 4)
RAGGED = [DATA[0], DATA[1][:2]]


def evaluate(d: Any, expression: Any, data: Any, *indices: Any, layout: str | None = None) -> list[tuple[str, Any]]:
    """Run an expression of a batch and index inputs; return the layout and the samples of each output."""
    pipe = d.Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    names = [f"n{number}" for number in range(len(indices))]
    with pipe:
        x = d.fn.external_source(name="x", layout=layout)
        results = expression(x, *(d.fn.external_source(name=name) for name in names))
        pipe.set_outputs(*(results if isinstance(results, tuple) else (results,)))
    try:
        pipe.build()
        outputs = pipe.run(x=data, **dict(zip(names, indices, strict=True)))
        return [(out.layout(), [np.asarray(out[sample]).tolist() for sample in range(2)]) for out in outputs]
    finally:
        getattr(pipe, "close", lambda: None)()


@pytest.fixture(scope="module")
def dali() -> Any:
    from nvidia import dali

    return dali


INDICES: dict[str, Any] = {
    "an index": lambda x, new: x[0],
    "from the end": lambda x, new: x[-1],
    "a NumPy integer": lambda x, new: x[np.int64(1)],
    "all indices": lambda x, new: x[1, 2],
    "a slice": lambda x, new: x[1:],
    "a slice beyond the end": lambda x, new: x[1:100, -100:2],
    "an empty slice": lambda x, new: x[2:1],
    "a column": lambda x, new: x[:, 1],
    "steps": lambda x, new: x[::2, ::-1],
    "steps back": lambda x, new: x[5:0:-2],
    "None": lambda x, new: x[None],
    "nothing": lambda x, new: x[()],
    "a new axis in front": lambda x, new: x[new],
    "a new axis within": lambda x, new: x[:, new],
    "a new axis at the end": lambda x, new: x[:, :, new],
    "two new axes": lambda x, new: x[new, :, new],
    "a new axis and an index": lambda x, new: x[0, new],
    "a new axis and slices": lambda x, new: x[1:, new, ::2],
}
NAMED: dict[str, Any] = {
    "in front": lambda x, new: x[new("N")],
    "within": lambda x, new: x[:, new("C"), :],
    "and an index": lambda x, new: x[0, new("C")],
    "two": lambda x, new: x[new("A"), :, :, new("B")],
}


@pytest.mark.parity
@pytest.mark.parametrize("data", [DATA, RAGGED], ids=["dense", "ragged"])
@pytest.mark.parametrize("index", INDICES)
def test_indices_equal_dali(index: str, data: Any, dali: Any) -> None:
    for layout in (None, "HW"):
        got = evaluate(pipeline, lambda x: INDICES[index](x, newaxis), data, layout=layout)
        want = evaluate(dali, lambda x: INDICES[index](x, dali.newaxis), data, layout=layout)
        assert got == want


@pytest.mark.parity
@pytest.mark.parametrize("index", NAMED)
def test_names_of_new_axes_equal_dali(index: str, dali: Any) -> None:
    got = evaluate(pipeline, lambda x: NAMED[index](x, newaxis), DATA, layout="HW")
    assert got == evaluate(dali, lambda x: NAMED[index](x, dali.newaxis), DATA, layout="HW")
    ((layout, _),) = evaluate(pipeline, lambda x: NAMED[index](x, newaxis), DATA)
    assert layout == "", "one name doesn't give a layout to data without a layout"


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "uint64"])
def test_index_nodes_equal_dali(dtype: str, dali: Any) -> None:
    n, m = np.array([0, 2], dtype), np.array([1, 3], dtype)

    def expression(x: Any, n: Any, m: Any) -> Any:
        return x[n], x[n:], x[:n, m], x[1, n:m], x[n, m], x[:, m], x[::m, n]

    assert evaluate(pipeline, expression, DATA, n, m) == evaluate(dali, expression, DATA, n, m)


@pytest.mark.parametrize("data", [DATA, RAGGED], ids=["dense", "ragged"])
def test_ellipsis_stands_for_all_other_axes(data: Any) -> None:
    same: list[tuple[Any, Any]] = [
        ((..., 0), (slice(None), 0)),
        ((0, ...), (0,)),
        ((...,), ()),
        ((0, ..., 1), (0, 1)),
        ((..., slice(1, 3)), (slice(None), slice(1, 3))),
        ((..., newaxis), (slice(None), slice(None), newaxis)),
        ((newaxis, ..., 0), (newaxis, slice(None), 0)),
    ]
    got = evaluate(pipeline, lambda x: tuple(x[key] for key, _ in same), data, layout="HW")
    assert got == evaluate(pipeline, lambda x: tuple(x[key] for _, key in same), data, layout="HW")
    for (_, samples), (key, _) in zip(got, same, strict=True):
        plain = tuple(None if entry == newaxis else entry for entry in key)
        assert samples == [np.asarray(sample)[plain].tolist() for sample in data]
    with pytest.raises(TypeError, match="one ellipsis"):
        fn.external_source()[..., ...]


@pytest.mark.parametrize(
    "index", [True, 1.5, "a", [0], np.array([0]), object()], ids=lambda index: type(index).__name__
)
def test_invalid_index_is_refused(index: Any) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="an index must be an integer"):
        fn.external_source()[index]


def test_failure_names_each_sample() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x")[fn.external_source(name="n")])
    with pytest.raises(
        errors.OperatorError, match="for sample 1: Index 5 is out of range for axis 0 of length 2"
    ) as one:
        pipe.run(x=np.zeros((3, 2)), n=np.array([0, 5, -3]))
    assert [failure.sample for failure in one.value.failures] == [1, 2]
    assert "test_indexing.py" in one.value.location
    with pytest.raises(errors.OperatorError, match="one integer per sample, not float64"):
        pipe.run(x=np.zeros((3, 2)), n=np.zeros(3))
    pipe.close()


def test_indexed_pipeline_is_serialized() -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        x = fn.external_source(name="x", layout="HW")
        pipe.set_outputs(x[..., newaxis("C")], x[1:, newaxis], x[fn.external_source(name="n") :])
    copy = Pipeline.deserialize(pipe.serialize())
    outputs = [each.run(x=DATA, n=np.array([1, 2])) for each in (pipe, copy)]
    assert [out.layout() for out in outputs[1]] == ["HWC", "", "HW"]
    for ours, copied in zip(*outputs, strict=True):
        assert [sample.tolist() for sample in ours.samples] == [sample.tolist() for sample in copied.samples]
    pipe.close()
    copy.close()


@pytest.mark.parity
@pytest.mark.parametrize("layout", [None, "HW"])
@pytest.mark.parametrize("key", ["layout", "source_info"])
def test_properties_equal_dali(key: str, layout: str | None, dali: Any) -> None:
    def ask(d: Any) -> Any:
        return lambda x: (x.property(key), d.fn.get_property(x[0], key=key))

    assert evaluate(pipeline, ask(pipeline), DATA, layout=layout) == evaluate(dali, ask(dali), DATA, layout=layout)
