"""User functions, compared with NVIDIA DALI where it runs without a GPU (its torch functions don't)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from dali_proxy import TorchPythonFunction, torch_python_function
from dali_proxy.pipeline._user_functions.call import FunctionCall
from dali_proxy.pipeline._user_functions.frameworks import Arrays
from dali_proxy.pipeline._user_functions.seeding import Caller
from pipeline import Pipeline, fn
from pipeline.errors import ArgumentTypeError, ArgumentValueError, OperatorError, PipelineError
from pipeline.tensors.gpu import TensorListGPU
from tests import host_cupy
from tests.pipeline.operators.both import Array, compare, refused_by_both, run_ours

FEED = [np.array([[1, 2]], np.uint8), np.array([[3], [4]], np.uint8)]
OTHER = [np.array([[10, 20]], np.float32), np.array([[30], [40]], np.float32)]


def doubled(samples: list[Any]) -> list[Any]:
    return [to_dlpack(from_dlpack(sample) * 2) for sample in samples]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "inputs"),
    [
        ({"function": lambda x: x}, 1),
        ({"function": lambda x: x.T.astype(np.int64), "output_layouts": "WH"}, 1),
        ({"function": lambda x, y: (x + y, np.array(x.sum())), "num_outputs": 2, "output_layouts": ["AB"]}, 2),
        ({"function": lambda x: (x, x * 2.0)}, 1),
        ({"function": lambda: np.arange(3)}, 0),
        ({"function": lambda xs: [x[::-1].copy() for x in xs], "batch_processing": True}, 1),
        ({"function": lambda xs, ys: (ys, xs), "batch_processing": True, "num_outputs": 2}, 2),
    ],
)
def test_functions_behave_as_in_dali(arguments: dict[str, Any], inputs: int) -> None:
    def graph(fn: Any, types: Any, x: Any, y: Any) -> Any:
        made = fn.python_function(*(x, y)[:inputs], **arguments)
        return (*(made if isinstance(made, list | tuple) else (made,)), x, y)

    compare(graph, FEED, OTHER, layouts=["HW", None])


@pytest.mark.parity
def test_capsules() -> None:
    compare(lambda fn, types, x: fn.dl_tensor_python_function(x, function=doubled), FEED)
    compare(
        lambda fn, types, x: fn.dl_tensor_python_function(
            x, function=lambda capsule: to_dlpack(from_dlpack(capsule).T), batch_processing=False
        ),
        FEED,
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"function": lambda x: 1 // 0}, "ZeroDivisionError"),
        ({"function": lambda x: x, "num_outputs": 2}, "returned 1 outputs, but num_outputs is 2"),
        ({"function": lambda x: None}, "returned 0 outputs"),
        (
            {"function": lambda xs: tuple(xs), "batch_processing": True},
            "but num_outputs is 1: return the samples of an output as a list",
        ),
        ({"function": lambda x: np.array("text")}, "isn't an array of numbers"),
        ({"function": lambda xs: xs[:1], "batch_processing": True}, "returned 1 samples as output 0"),
        ({"function": lambda x: x, "output_layouts": ["AB", "CD"]}, "2 output_layouts for 1 outputs"),
    ],
)
def test_bad_calls_are_refused(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, types, x: fn.python_function(x, **arguments), FEED, match=match)


def test_failure_names_its_sample_and_keeps_its_cause() -> None:
    def fails(x: Array) -> Array:
        if x[0, 0] == 3:
            raise KeyError("three")
        return x

    with pytest.raises(OperatorError, match=r"sample 1.*three") as caught:
        run_ours(lambda fn, types, x: fn.python_function(x, function=fails), FEED)
    assert [failure.sample for failure in caught.value.failures] == [1]
    with pytest.raises(PipelineError, match="must be callable"):
        run_ours(lambda fn, types, x: fn.python_function(x, function=3), FEED)


def test_functions_without_outputs_run() -> None:
    seen: list[int] = []
    with Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1) as pipe:
        x = fn.external_source(name="x")
        assert fn.python_function(x, function=lambda sample: seen.append(int(sample.sum())), num_outputs=0) is None
        fn.python_function(x, function=lambda sample: seen.append(-1) or sample)
        pipe.set_outputs(x + 1)
    pipe.run(x=FEED)
    pipe.close()
    assert sorted(seen) == [-1, -1, 3, 7]


def test_tensors_of_torch() -> None:
    def whole(samples: list[torch.Tensor], others: list[torch.Tensor]) -> Any:
        assert all(isinstance(sample, torch.Tensor) for sample in samples)
        return [sample + other for sample, other in zip(samples, others, strict=True)], samples

    def graph(fn: Any, types: Any, x: Any, y: Any) -> Any:
        each = TorchPythonFunction(function=lambda sample: sample.T * 2)(x)
        batches = {"batch_processing": True, "num_outputs": 2, "output_layouts": ["HW"]}
        single = torch_python_function(x, function=lambda sample: sample.T * 2)
        return (*torch_python_function(x, y, function=whole, **batches), each, single)

    added, same, turned, again = run_ours(graph, FEED, OTHER)
    assert added.layout == "HW"
    for number, (x, y) in enumerate(zip(FEED, OTHER, strict=True)):
        assert np.array_equal(added.samples[number], x + y)
        assert np.array_equal(same.samples[number], x)
        assert np.array_equal(turned.samples[number], x.T * 2)
        assert np.array_equal(again.samples[number], x.T * 2)


def test_constants_are_passed_as_copies() -> None:
    def graph(fn: Any, types: Any, x: Any) -> Any:
        constant = types.Constant(np.array([1, 2], np.int32))
        return x, torch_python_function(constant, function=lambda sample: sample.add_(1))

    _, made = run_ours(graph, FEED)
    assert [sample.tolist() for sample in made.samples] == [[2, 3], [2, 3]]


@pytest.mark.parity
@pytest.mark.parametrize(("layout", "replace"), [(None, False), ("HW", True), ("FX", False)])
def test_per_frame(layout: str | None, replace: bool) -> None:
    compare(lambda fn, types, x: fn.per_frame(x, replace=replace), FEED, layouts=[layout])


@pytest.mark.parity
def test_results_that_are_not_sequences_are_refused() -> None:
    refused_by_both(lambda fn, types, x: fn.per_frame(x), FEED, layouts=["HW"], match="doesn't begin with F")
    refused_by_both(lambda fn, types, x: fn.per_frame(x[0, 0]), FEED, match="without dimensions")


def test_arguments_are_checked_when_the_graph_is_described() -> None:
    with pytest.raises(ArgumentTypeError, match='specify values for arguments: "function"'):
        fn.python_function(fn.external_source(name="x"))
    with pytest.raises(ArgumentValueError, match="It must be one of cpu, gpu"):
        fn.python_function(fn.external_source(name="x"), function=len, device="mixed")


@pytest.mark.gpu
def test_functions_on_the_gpu() -> None:
    import cupy

    def arrays(x: Any) -> Any:
        assert isinstance(x, cupy.ndarray)
        x *= 2  # in place: the others get the sample as it was
        return x.T

    def tensors(sample: torch.Tensor) -> Any:
        assert sample.is_cuda
        return sample.mul_(2).T

    def capsules(samples: list[Any]) -> Any:
        made = [to_dlpack((from_dlpack(sample).T * 2).contiguous()) for sample in samples]
        torch.cuda.synchronize()
        return made

    def graph(fn: Any, types: Any, x: Any) -> Any:
        on_gpu = x.gpu()
        return (
            fn.python_function(on_gpu, function=arrays),
            torch_python_function(on_gpu, function=tensors),
            fn.dl_tensor_python_function(on_gpu, function=capsules),
        )

    for output in run_ours(graph, FEED, device_id=0):
        for made, sample in zip(output.samples, FEED, strict=True):
            assert np.array_equal(made, sample.T * 2)


def test_repeated_call_on_the_gpu_gets_unmodified_arguments() -> None:
    """A call is repeated if it imported a library whose generators must be seeded."""

    class Repeating(Caller):
        def call(self, number: int, function: Any, arguments: Any) -> Any:
            super().call(number, function, arguments)
            return super().call(number, function, arguments)

    def add(sample: Any) -> Any:
        sample._host[...] += 1
        return sample

    with host_cupy.installed():
        import cupy

        data = TensorListGPU(cupy.asarray(np.zeros((2, 3), np.float32)))
        result: Any
        (result,) = FunctionCall(add, 1, False, (), Arrays(0)).run([data], 2, Repeating())
        assert [sample.get().tolist() for sample in result.samples] == [[1.0] * 3] * 2
        assert not data.dense.get().any()
