from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn, pipeline_def, tensors, types


@pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=7)
def plus_one() -> Any:
    return fn.external_source(name="x") + 1


def batch(start: int, size: int = 4) -> Any:
    return np.arange(start, start + size, dtype=np.int32).reshape(size, 1)


def values(outputs: Any) -> list[int]:
    return [int(value) for value in outputs[0].as_array().ravel()]


def test_ways_to_define_give_the_same_results() -> None:
    class Derived(Pipeline):
        def define_graph(self) -> Any:
            return fn.external_source(name="x") + 1

    with Pipeline(batch_size=4, num_threads=1, device_id=None) as direct:
        direct.set_outputs(fn.external_source(name="x") + 1)
    for pipe in (plus_one(), direct, Derived(batch_size=4, num_threads=1, device_id=None)):
        assert values(pipe.run(x=batch(0))) == [1, 2, 3, 4]
        pipe.close()


def test_arguments_of_the_call_override_those_of_the_decorator() -> None:
    pipe = plus_one(batch_size=2, num_threads=1)
    assert (pipe.max_batch_size, pipe.num_threads, pipe.seed, pipe.device_id) == (2, 1, 7, None)


def test_graph_function_may_not_take_variadic_keywords() -> None:
    @pipeline_def
    def graph(**kwargs: Any) -> None:
        return None

    with pytest.raises(errors.ArgumentTypeError, match=r"Using variadic keyword argument `\*\*kwargs`"):
        graph(batch_size=1)


def test_graph_function_that_returns_nothing_is_refused() -> None:
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def graph() -> None:
        fn.external_source(name="x")

    with pytest.raises(errors.GraphError, match=r"graph \(.*test_pipeline.*\) returned nothing"):
        graph()


def test_outputs_that_are_not_data_nodes_are_refused() -> None:
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def graph() -> Any:
        return "text"

    with pytest.raises(errors.ArgumentTypeError, match=r"Illegal output type\. The output 0 is a .*DataNode"):
        graph()


def test_batches_of_different_sizes_come_in_order() -> None:
    pipe = plus_one()
    for start, size in ((0, 4), (10, 2), (20, 3)):
        pipe.feed_input("x", batch(start, size))
    assert [values(pipe.run()) for _ in range(3)] == [[1, 2, 3, 4], [11, 12], [21, 22, 23]]
    pipe.close()


def test_fed_arrays_may_change_right_after_feeding() -> None:
    pipe = plus_one()
    data = batch(0)
    pipe.feed_input("x", data)
    data[:] = -100
    assert values(pipe.run()) == [1, 2, 3, 4]
    pipe.close()


def test_scheduling_and_sharing_keep_order_and_do_not_mix_with_run() -> None:
    pipe = plus_one()
    for start in (0, 10):
        pipe.feed_input("x", batch(start))
        pipe.schedule_run()
    assert not pipe.empty()
    assert values(pipe.share_outputs()) == [1, 2, 3, 4]
    pipe.release_outputs()
    assert values(pipe.share_outputs()) == [11, 12, 13, 14]
    pipe.release_outputs()
    assert pipe.empty()
    with pytest.raises(errors.PipelineError, match="can't be mixed"):
        pipe.run(x=batch(0))
    pipe.close()


def test_outputs_stay_unchanged_while_they_are_held() -> None:
    @pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def graph() -> Any:
        return fn.external_source(name="x") * 2

    pipe = graph()
    held = []
    for number in range(20):
        held.append(pipe.run(x=np.full((2, 200, 200), number, np.int32))[0])
    assert [int(out.as_array().min()) for out in held] == [2 * number for number in range(20)]
    assert [int(out.as_array().max()) for out in held] == [2 * number for number in range(20)]
    pipe.close()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["a", "b"], "str"),
        ([None], "None"),
        ([object()], "object"),
        (np.zeros((5, 1)), "the batch has 5 samples"),
        ([np.zeros(2), np.zeros((2, 2))], "cannot have different numbers of dimensions"),
        ([np.zeros(2), np.zeros(2, np.int8)], "cannot have different data types"),
        (np.float32(1), "batch dimension"),
        ([], "empty"),
    ],
)
def test_data_that_cannot_be_fed_is_refused_at_once(data: Any, message: str) -> None:
    pipe = plus_one()
    with pytest.raises(errors.InputError, match=message):
        pipe.feed_input("x", data)
    assert values(pipe.run(x=batch(0))) == [1, 2, 3, 4], "the pipeline continues"
    pipe.close()


def test_declared_dtype_ndim_and_layout_are_checked() -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def graph() -> Any:
        return fn.external_source(name="x", dtype=types.UINT8, ndim=3, layout="HWC")

    pipe = graph()
    good = np.zeros((2, 4, 4, 3), np.uint8)
    assert pipe.run(x=good)[0].layout() == "HWC"
    with pytest.raises(errors.InputError, match="declares dtype"):
        pipe.run(x=good.astype(np.float32))
    with pytest.raises(errors.InputError, match="declares ndim=3"):
        pipe.run(x=good[:, 0])
    with pytest.raises(errors.InputError, match="declares 'HWC'"):
        pipe.feed_input("x", good, layout="CHW")
    pipe.close()


def test_unknown_inputs_and_missing_data_name_the_inputs() -> None:
    pipe = plus_one()
    with pytest.raises(errors.InputError, match="an input operator with name 'y'; the inputs are: 'x'"):
        pipe.run(y=batch(0))
    with pytest.raises(errors.InputError, match="'x' has no data"):
        pipe.run()
    pipe.close()


def test_inputs_of_different_sizes_are_refused() -> None:
    with Pipeline(batch_size=4, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="a") + fn.external_source(name="b"))
    with pytest.raises(errors.InputError, match="different sizes"):
        pipe.run(a=batch(0, 4), b=batch(0, 3))
    pipe.close()


def test_failed_batch_does_not_disturb_its_neighbours() -> None:
    with Pipeline(batch_size=2, num_threads=2, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x")[fn.external_source(name="index")])
    data = np.array([[1, 2], [3, 4]])
    for index in ([0, 1], [0, 5], [1, 1]):
        pipe.feed_input("x", data)
        pipe.feed_input("index", np.array(index))
    assert values(pipe.run()) == [1, 4]
    with pytest.raises(errors.OperatorError, match=r"for sample 1: Index 5 is out of range"):
        pipe.run()
    assert values(pipe.run()) == [2, 4]
    pipe.close()


def test_missing_sizes_are_errors_of_build() -> None:
    for missing in ("batch_size", "num_threads"):
        with Pipeline(**{"batch_size": 1, "num_threads": 1, "device_id": None, missing: -1}) as pipe:
            pipe.set_outputs(fn.external_source(name="x"))
        with pytest.raises(errors.BuildError, match=missing):
            pipe.build()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 2.5}, "batch_size must be int"),
        ({"prefetch_queue_depth": 0}, "1 or more"),
        ({"prefetch_queue_depth": {"cpu_size": 2}}, "prefetch_queue_depth must be int or"),
        ({"py_start_method": "magic"}, "py_start_method"),
    ],
)
def test_bad_arguments_are_refused_when_the_pipeline_is_created(arguments: Any, message: str) -> None:
    with pytest.raises(errors.GraphError, match=message):
        Pipeline(**arguments)


def test_gpu_operator_needs_a_device() -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=99) as pipe:
        pipe.set_outputs(fn.external_source(name="x").gpu())
    with pytest.raises(errors.DeviceError, match=r"needs a GPU|device_id=99 is invalid"):
        pipe.build()


def test_build_may_be_called_twice_and_close_ends_threads() -> None:
    before = threading.active_count()
    pipe = plus_one()
    pipe.build()
    executor = pipe._internals.runner.executor
    pipe.build()
    assert pipe._internals.runner.executor is executor
    pipe.close()
    pipe.close()
    assert threading.active_count() == before


def test_tensor_lists_are_accepted_as_input_with_their_layout() -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x"))
    ragged = tensors.TensorListCPU([np.zeros((2, 3)), np.ones((4, 3))], layout="HW")
    (out,) = pipe.run(x=ragged)
    assert out.layout() == "HW"
    assert out.shape() == [(2, 3), (4, 3)]
    assert not out.is_dense_tensor()
    with pytest.raises(ValueError, match="ragged"):
        out.as_array()
    pipe.close()


def test_random_numbers_repeat_with_the_seed_and_differ_between_batches_and_operators() -> None:
    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def graph() -> Any:
        return fn.random.uniform(range=(0, 1)), fn.random.uniform(range=(0, 1))

    runs = []
    for _ in range(2):
        pipe = graph(seed=5)
        runs.append([[out.as_array().tolist() for out in pipe.run()] for _ in range(2)])
        pipe.close()
    assert runs[0] == runs[1]
    flat = [tuple(numbers) for outputs in runs[0] for numbers in outputs]
    assert len(set(flat)) == 4


def test_repr_says_what_a_pipeline_is_and_whether_it_runs() -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def train() -> Any:
        return fn.external_source(name="images"), fn.external_source(name="labels")

    pipe = train()
    assert "train: outputs: 2; batch_size=2, num_threads=1, device_id=None; not built>" in repr(pipe)
    pipe.build()
    assert "train: inputs 'images', 'labels'; outputs on cpu, cpu; " in repr(pipe)
    assert repr(pipe).endswith("; built>")
    pipe.close()
    assert repr(pipe).endswith("; closed>")
    assert repr(Pipeline(2, 1, None)).startswith("<Pipeline: not described; ")
