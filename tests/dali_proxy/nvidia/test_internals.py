"""Private functions of NVIDIA's package: names of operators and classes, and operands of arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from dali_proxy._nvidia import internals
from dali_proxy._nvidia.install import find
from dali_proxy.pipeline._graph import DataNode
from pipeline import Pipeline, fn
from pipeline.errors import ArgumentTypeError
from pipeline.types import Constant


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("ImageCrop", "image_crop"), ("MFCC", "mfcc"), ("ROIRandomCrop", "roi_random_crop"), ("Caffe2", "caffe2")),
        *(("RandomBBoxCrop", "random_bbox_crop"), ("TFRecord", "tfrecord"), ("readers__MXNet", "readers__mxnet")),
        *(("numpy", "numpy"), ("_Hidden", "_hidden"), ("A_B", "a_b")),
    ],
)
def test_class_names_in_snake_case(name: str, expected: str) -> None:
    assert internals.to_snake_case(name) == expected


def test_names_of_schemas_lead_to_the_operators() -> None:
    names = internals.all_registered_ops()
    assert {"readers__File", "RandomBBoxCrop", "random__Uniform"} <= names
    for name in names:
        operator = fn
        for part in internals.op_name(name).split("."):
            operator = getattr(operator, part)
        assert operator._schema_name == name  # type: ignore[attr-defined]


def test_operands_are_sorted_by_kind() -> None:
    first, second = DataNode("first"), DataNode("second")
    small = Constant(3).uint8()
    kinds, edges, integers, reals = internals.group_inputs([first, 2.5, small, second, 7, True])
    assert kinds == [("edge", 0), ("real", 0), ("integer", 0), ("edge", 1), ("integer", 1), ("integer", 2)]
    assert edges[0] is first
    assert edges[1] is second
    assert (integers, reals) == ([small, 7, True], [2.5])
    assert internals.generate_input_desc(kinds, integers, reals) == "&0 $0:float32 $0:uint8 &1 $1:int32 $2:int32"
    assert internals.group_inputs([first])[2:] == (None, None)
    with pytest.raises(ArgumentTypeError, match=r"of type 'bool', 'int' or 'float', got str\."):
        internals.group_inputs(["text"])


def test_class_that_is_not_iterable() -> None:
    class Items:
        def __iter__(self) -> None: ...

    assert isinstance(Items(), Iterable)
    assert not isinstance(internals.not_iterable(Items)(), Iterable)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(("ops._registry", "_all_registered_ops"), ("ops", "_op_name"), ("fn", "_to_snake_case")),
        *(("_utils.hacks", "not_iterable"), ("ops", "_group_inputs"), ("ops", "_generate_input_desc")),
    ],
)
def test_private_names_exist(module: str, name: str) -> None:
    stand = find(f"nvidia.dali.{module}")
    assert stand is not None
    assert callable(stand.load(name))


def test_subscripts_are_those_of_data_nodes() -> None:
    subscript = find("nvidia.dali.fn").load("_tensor_subscript")  # type: ignore[union-attr]
    data = np.arange(24).reshape(1, 4, 6)
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        x = fn.external_source(name="x")
        pipe.set_outputs(subscript(x, at_0=1), subscript(x, lo_0=1, hi_1=-1, step_1=2), subscript(x, at_1=x[0, 2]))
    outputs = [output.as_array() for output in pipe.run(x=data)]
    for output, expected in zip(outputs, (data[:, 1], data[:, 1:, :-1:2], data[:, :, 2]), strict=True):
        np.testing.assert_array_equal(output, expected)
    pipe.close()


def test_arrays_of_cupy_are_recognized() -> None:
    is_cupy_array = find("nvidia.dali.types").load("_is_cupy_array")  # type: ignore[union-attr]
    array = type("ndarray", (), {"__module__": "cupy"})
    assert is_cupy_array(array())
    assert not is_cupy_array(np.zeros(2))
