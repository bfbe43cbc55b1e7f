from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline import errors, fn, types


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"source": 5}, TypeError, "must be callable, iterable or a parameterless generator function, not int"),
        ({"source": object}, TypeError, "a class that isn't iterable"),
        ({"source": lambda a, b: 0}, TypeError, "the parameter 'b' is one too many"),
        ({"source": lambda *a: 0}, TypeError, r"the parameter '\*a' is one too many"),
        ({"source": lambda: 0, "cycle": True}, ValueError, "'cycle' needs an iterable source"),
        ({"source": [0], "cycle": "often"}, ValueError, '"no".*"quiet".*"raise"'),
        ({"source": (i for i in ()), "cycle": "raise"}, TypeError, "Cannot cycle through a generator"),
        ({"source": lambda: 0, "num_outputs": 0}, ValueError, "1 or more"),
        (
            {"source": lambda: 0, "num_outputs": 2, "name": "x"},
            RuntimeError,
            "``num_outputs`` is not compatible with named",
        ),
        ({"source": lambda: 0, "num_outputs": 1, "layout": ["HW", "C"]}, ValueError, "2 values, for 1 outputs"),
        ({"source": lambda: 0, "prefetch_queue_depth": 2}, ValueError, "valid only for parallel external sources"),
        ({"source": lambda i: 0, "parallel": True, "prefetch_queue_depth": 0}, ValueError, "1 or more"),
        ({"source": lambda: 0, "parallel": True}, TypeError, "must accept exactly one argument"),
        (
            {"source": [0], "parallel": True, "batch": False},
            TypeError,
            "must be run in a batch mode.*Let it return batches",
        ),
        (
            {"source": lambda i: 0, "parallel": True, "no_copy": False},
            ValueError,
            "``no_copy`` cannot be specified to False",
        ),
        ({"source": lambda: 0, "foo": 1}, TypeError, 'Argument "foo" is not defined'),
        ({"num_outputs": 2}, ValueError, "needs a source"),
        ({"cycle": "quiet"}, ValueError, "needs a source"),
        ({"parallel": True}, ValueError, "needs a source"),
        ({"layout": "HW", "ndim": 3}, ValueError, "doesn't name ndim=3"),
    ],
)
def test_invalid_arguments_are_refused_at_the_call(arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(errors.GraphError, match=message) as caught:
        fn.external_source(**arguments)
    assert isinstance(caught.value, kind)
    assert str(caught.value).startswith("fn.external_source: ")
    assert "test_spec.py" in str(caught.value), "the user's line"


def test_num_outputs_decides_the_type_of_the_result() -> None:
    assert not isinstance(fn.external_source(lambda: 0), list)
    assert len(fn.external_source(lambda: (0,), num_outputs=1)) == 1
    assert len(fn.external_source(lambda: (0, 0), num_outputs=2, dtype=types.UINT8)) == 2


def test_documentation_is_that_of_the_function() -> None:
    assert "cycle" in (fn.external_source.__doc__ or "")
    assert np.int32 is not None
