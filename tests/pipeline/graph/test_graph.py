from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._declaration.registry import all_schemas
from dali_proxy.pipeline._graph import Edge, Graph
from dali_proxy.pipeline._graph.constants import constant_array
from pipeline import Pipeline, errors, fn, ops, types
from tests.pipeline import graphs


def graph_of(*outputs: Any) -> Graph:
    return graphs.graph_of(outputs)


def test_nodes_are_numbered_inputs_first_and_unused_ones_are_pruned() -> None:
    x = fn.external_source(name="x")
    fn.external_source(name="unused")
    y = x + 1
    graph = graph_of(y, x)
    assert [node.operator for node in graph.nodes] == ["external_source", "constant_value", "arithmetic"]
    assert graph.outputs == (Edge(2), Edge(0))
    assert all(edge.node < node.index for node in graph.nodes for edge in node.sources)


def test_nodes_know_the_line_that_created_them() -> None:
    node = fn.external_source(name="here")
    location = graph_of(node).nodes[0].location
    assert location.file == __file__
    assert location.text == 'node = fn.external_source(name="here")'
    assert location.function == "test_nodes_know_the_line_that_created_them"


def test_operators_of_one_name_are_refused_with_both_lines() -> None:
    a, b = fn.external_source(name="x"), fn.external_source(name="x")
    with pytest.raises(errors.GraphError, match="two operators are called 'x'") as caught:
        graph_of(a, b)
    assert str(caught.value).count("test_graph.py") == 2


def test_nodes_of_another_pipeline_are_refused_beside_own_nodes() -> None:
    one, other = (Pipeline(batch_size=1, num_threads=1, device_id=None) for _ in range(2))
    with one:
        foreign = fn.external_source(name="foreign")
    by_nobody = foreign + 1
    with other:
        other.set_outputs(by_nobody, fn.random.coin_flip())
    with pytest.raises(
        errors.GraphError, match=r"fn.external_source \(name='foreign'\) was called within a different"
    ) as caught:
        other.build()
    assert 'foreign = fn.external_source(name="foreign")' in str(caught.value)
    third = Pipeline(batch_size=1, num_threads=1, device_id=None)
    third.set_outputs(by_nobody)
    assert third.run(foreign=np.zeros(1))[0].as_array().tolist() == [1]
    third.close()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: fn.random.uniform(rnage=(0, 1)),
            errors.ArgumentTypeError,
            'Argument "rnage" is not defined for operator "random__Uniform"',
        ),
        (lambda: fn.random.uniform(range="wide"), errors.ArgumentTypeError, "'range' must be float or list of float"),
        (
            lambda: fn.random.uniform(dtype="float"),
            errors.ArgumentTypeError,
            "DALIDataType, such as types.FLOAT",
        ),
        (lambda: fn.random.coin_flip(probability=[0.5]), errors.ArgumentTypeError, "'probability' must be float"),
        (
            lambda: fn.random.coin_flip(device="tpu"),
            errors.ArgumentValueError,
            'Unsupported device type: "tpu". It must be one of cpu',
        ),
        (lambda: fn.random.coin_flip(1, 2, 3), errors.ArgumentTypeError, "expects from 0 to 1 inputs, but received 3"),
        (
            lambda: fn.resize(size=(2, 2)),
            errors.ArgumentTypeError,
            "expects from 1 to 1 inputs, but received 0; its inputs: data",
        ),
        (lambda: fn.external_source(name=3), errors.ArgumentTypeError, "'name' must be str"),
        (lambda: fn.external_source(name="x") + "1", errors.ArgumentTypeError, "str"),
        (lambda: fn.external_source(name="x", layout=5), errors.ArgumentTypeError, "'layout' must be layout str"),
    ],
)
def test_bad_calls_are_refused_at_once_and_name_the_line(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "test_graph.py" in str(caught.value)


def test_gpu_node_is_refused_by_a_cpu_operator() -> None:
    on_gpu = fn.external_source(name="x").gpu()
    assert on_gpu.device == "gpu"
    assert on_gpu.cpu().device == "cpu"
    with pytest.raises(errors.ArgumentValueError, match=r"add \.cpu\(\)"):
        fn.random.uniform(range=on_gpu)


def test_ops_and_fn_come_from_one_declaration() -> None:
    visible = [schema for schema in all_schemas() if not schema.hidden]
    assert visible
    for schema in visible:
        space_fn: Any = fn
        space_ops: Any = ops
        *folders, last = schema.name.split(".")
        for folder in folders:
            space_fn, space_ops = getattr(space_fn, folder), getattr(space_ops, folder)
        function = getattr(space_fn, last)
        assert schema.doc.splitlines()[0] in function.__doc__
        assert function.__name__ == last
        assert any(vars(space_ops)[name].__doc__ == function.__doc__ for name in vars(space_ops) if name[:1].isupper())
        for argument in schema.arguments:
            assert argument.doc, f"{schema.name}: {argument.name} has no documentation"
            assert argument.name in inspect.signature(function).parameters


def test_operator_class_keeps_its_arguments() -> None:
    draw = ops.random.Uniform(range=(3.0, 4.0))
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(draw(), draw(shape=3))
    first, second = (out.as_array() for out in pipe.run())
    pipe.close()
    assert ((first >= 3) & (first < 4)).all()
    assert second.shape == (2, 3)
    assert ((second >= 3) & (second < 4)).all()


def test_array_that_changes_after_the_description_does_not_change_the_graph() -> None:
    array, shift = np.float32([1, 2]), np.zeros((), np.float32)
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        image = types.Constant(np.zeros((1, 1, 1), np.float32))
        shifted = fn.brightness(image, brightness_shift=shift, dtype=types.FLOAT)
        pipe.set_outputs(types.Constant(array), fn.cast(array, dtype=types.INT32), shifted)
    array[:] = shift[...] = 100
    assert [output.at(0).ravel().tolist() for output in pipe.run()] == [[1, 2], [1, 2], [0]]


def test_constants_take_types_as_in_dali() -> None:
    numbers = {
        types.INT32: 1,
        types.FLOAT: 1.5,
        types.BOOL: True,
        types.FLOAT64: np.float64(1),
        types.INT64: np.int64(3),
    }
    for dtype, value in numbers.items():
        assert types.Constant(value).dtype == dtype
    assert types.Constant(5).uint8().dtype == types.UINT8
    assert types.Constant(5).bool().value is True
    assert not types.Constant(0)
    for value in (5.5, np.zeros(2), [1.5, 2]):
        assert constant_array(value).dtype == np.float32, "constants have 32 bits"
    assert constant_array(np.uint64([1])).dtype == np.uint32
    assert constant_array(types.Constant(np.int64(3))).dtype == np.int64
    assert constant_array(2, shape=(2, 2)).tolist() == [[2, 2], [2, 2]]
    with pytest.raises(OverflowError, match="more than 32 bits"):
        types.Constant([2**40])
    for wrong in ("text", None, types.Constant(3)):
        with pytest.raises(errors.ArgumentTypeError, match="must be a bool, an int or a float"):
            types.Constant(wrong)
    with pytest.raises(errors.ArgumentTypeError, match="dtype of a constant must be one of"):
        types.Constant(3, dtype=int)
