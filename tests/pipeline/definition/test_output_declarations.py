"""Declared outputs, and other arguments and attributes of pipelines that DALI has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline import OperatorConcurrency, Pipeline, StreamPolicy, errors, fn, pipeline_def, types


def two_outputs(**arguments: Any) -> Pipeline:
    with Pipeline(batch_size=2, num_threads=1, device_id=None, **arguments) as pipe:
        pipe.set_outputs(fn.constant(fdata=[1.0, 2.0], shape=[2]), fn.constant(idata=[3], shape=[1, 1], layout="HW"))
    return pipe


def test_declarations_that_hold_change_nothing() -> None:
    pipe = two_outputs(output_dtype=[types.FLOAT, None], output_ndim=(1, 2), output_layout=[None, "HW"])
    assert (pipe.output_dtype(), pipe.output_ndim()) == ([types.FLOAT, None], [1, 2])
    assert len(pipe.run()) == 2
    copy = Pipeline.deserialize(pipe.serialize())
    assert (copy.output_dtype(), copy.output_ndim()) == ([types.FLOAT, None], [1, 2])
    assert two_outputs().output_dtype() == [None, None]
    pipe.close()
    copy.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"output_dtype": types.FLOAT},
            r"Data type in the output_idx=1 does not match\. Expected: FLOAT\. Received: INT32\.",
        ),
        (
            {"output_ndim": [2, 2]},
            r"Number of dimensions in the output_idx=0 does not match\. Expected: 2\. .*: 1",
        ),
        ({"output_layout": "HW"}, r"Layout in the output_idx=0 does not match\. Expected: HW\. Received: \."),
        ({"output_ndim": [1]}, "Lengths of provided output descriptions do not match"),
    ],
)
def test_outputs_that_differ_from_declarations_are_errors(arguments: dict[str, Any], message: str) -> None:
    pipe = two_outputs(**arguments)
    with pytest.raises(RuntimeError, match=message):
        pipe.run()
    pipe.close()


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"output_dtype": "a"}, TypeError),
        ({"output_dtype": int}, TypeError),
        ({"output_dtype": [types.NO_TYPE]}, ValueError),
        ({"output_ndim": True}, TypeError),
        ({"output_ndim": [1, -1]}, ValueError),
        ({"output_layout": 1}, TypeError),
        ({"stream_policy": "single"}, TypeError),
        ({"concurrency": 6}, TypeError),
    ],
)
def test_impossible_declarations_are_refused(arguments: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        two_outputs(**arguments)
    assert isinstance(caught.value, errors.PipelineError)


def test_policies_are_accepted_and_returned() -> None:
    pipe = two_outputs(stream_policy=StreamPolicy.SINGLE, concurrency=OperatorConcurrency.FULL)
    assert (pipe.stream_policy, pipe.concurrency) == (StreamPolicy.SINGLE, OperatorConcurrency.FULL)
    copy = Pipeline.deserialize(pipe.serialize())
    assert (copy.stream_policy, copy.concurrency) == (StreamPolicy.SINGLE, OperatorConcurrency.FULL)
    assert copy.output_stream() is None
    copy.close()


def test_current_pipeline_is_the_described_one() -> None:
    seen = []

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def graph() -> Any:
        seen.append(Pipeline.current())
        return fn.constant(idata=[1], shape=[1])

    assert Pipeline.current() is None
    pipe = graph()
    assert seen == [pipe]
    with pipe:
        assert Pipeline.current() is pipe
    assert Pipeline.current() is None


def test_shared_memory_of_workers_is_counted() -> None:
    pipe = two_outputs()
    assert pipe.external_source_shm_statistics() == {"capacities": [], "per_sample_capacities": []}
    with Pipeline(batch_size=4, num_threads=1, device_id=None, py_num_workers=1, py_start_method="spawn") as parallel:
        parallel.set_outputs(fn.external_source(_ones, parallel=True, batch=False))
    parallel.run()
    found = parallel.external_source_shm_statistics()
    assert found["capacities"][0] >= 4 * 8000
    assert found["per_sample_capacities"] == [size // 4 for size in found["capacities"]]
    parallel.close()


def _ones(info: types.SampleInfo) -> Any:
    return np.ones(1000)
