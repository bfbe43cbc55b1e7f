from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline import errors, fn, types


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"source": 5}, TypeError, "callable, iterable or a generator function, not int"),
        ({"source": object}, TypeError, "a class that isn't iterable"),
        ({"source": lambda a, b: 0}, TypeError, "the parameter 'b' is one too many"),
        ({"source": lambda *a: 0}, TypeError, r"the parameter '\*a' is one too many"),
        ({"source": lambda: 0, "cycle": True}, ValueError, "'cycle' needs an iterable source"),
        ({"source": [0], "cycle": "often"}, ValueError, '"no".*"quiet".*"raise"'),
        ({"source": (i for i in ()), "cycle": "raise"}, TypeError, "pass the generator function"),
        ({"source": lambda: 0, "num_outputs": 0}, ValueError, "1 or more"),
        ({"source": lambda: 0, "num_outputs": 2, "name": "x"}, RuntimeError, "'name' is for one output"),
        ({"source": lambda: 0, "num_outputs": 1, "layout": ["HW", "C"]}, ValueError, "2 values, for 1 outputs"),
        ({"source": lambda: 0, "prefetch_queue_depth": 2}, ValueError, "needs parallel=True"),
        ({"source": lambda i: 0, "parallel": True, "prefetch_queue_depth": 0}, ValueError, "1 or more"),
        ({"source": lambda: 0, "parallel": True}, TypeError, "must take one argument"),
        ({"source": [0], "parallel": True, "batch": False}, TypeError, "let it return batches"),
        ({"source": lambda i: 0, "parallel": True, "no_copy": False}, ValueError, "data isn't copied"),
        ({"source": lambda: 0, "repeat_last": True}, ValueError, "only for fed data"),
        ({"source": lambda: 0, "foo": 1}, TypeError, "unknown argument 'foo'"),
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
