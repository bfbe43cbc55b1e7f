"""Functions of torch and methods of other libraries on our data: errors that say what to do instead."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from pipeline import dynamic, fn
from pipeline.errors import ArgumentTypeError

IMAGE = dynamic.tensor(np.zeros((4, 5, 3), np.uint8), layout="HWC")
OPERATOR = '@operator_def(framework="torch")'


@pytest.fixture(autouse=True)
def _end_threads() -> Iterator[None]:
    yield
    dynamic.set_num_threads(None)  # ends the default threads


@pytest.mark.parametrize(
    "function", [torch.relu, torch.nn.functional.relu, torch.nn.Conv2d(3, 3, 1), lambda x: torch.stack([x, x])]
)
def test_functions_of_torch_name_the_conversion(function: Callable[[Any], Any]) -> None:
    for data, kind in ((IMAGE, "Tensor"), (dynamic.batch([IMAGE]), "Batch")):
        with pytest.raises(ArgumentTypeError) as caught:
            function(data)
        text = str(caught.value)
        assert f"of torch got a {kind} of dali-proxy, not a torch.Tensor: use .torch()" in text
        assert OPERATOR in text
        assert "test_foreign_use.py" in text
    with pytest.raises(ArgumentTypeError, match="of torch got a DataNode of dali-proxy") as caught:
        function(fn.external_source(name="x"))
    assert OPERATOR in str(caught.value)
    with pytest.raises(ArgumentTypeError, match="of torch got a Tensor of dali-proxy") as caught:
        dynamic.trace(lambda x: function(x))
    assert OPERATOR in str(caught.value)
    assert ".torch()" not in str(caught.value)  # a traced tensor has no data


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("resize", "use dynamic.resize(x, ...)"),
        ("permute", "use dynamic.transpose(x"),
        ("float", "use dynamic.cast(x"),
        ("mean", "use dynamic.reductions.mean(x)"),
        ("cuda", "use x.gpu()"),
        ("convert", "use dynamic.color_space_conversion("),
        ("to", "use x.gpu() or x.cpu()"),
        ("unsqueeze", "use dynamic.expand_dims(x"),
        ("__array_interface__", "use .torch() or .numpy()"),  # PIL's Image.fromarray reads it
        ("backward", "use .torch() or .numpy()"),
    ],
)
def test_methods_of_other_libraries_name_the_operator(name: str, instead: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(IMAGE, name)
    assert f"a Tensor of dali-proxy has no attribute '{name}': {instead}" in str(caught.value)
    assert OPERATOR in str(caught.value)
    assert not hasattr(IMAGE, name)


def test_method_of_a_data_node_names_the_operator_of_graphs() -> None:
    with pytest.raises(AttributeError, match=r"a DataNode of dali-proxy has no attribute 'resize': use fn.resize\(x"):
        fn.external_source(name="x").resize((3, 3))


def test_operators_of_python_and_conversions_still_work() -> None:
    ones, x = torch.ones(3), dynamic.tensor(np.float32([1, 2, 3]))
    for result in (ones + x, x + ones):
        assert isinstance(result, dynamic.Tensor)
        assert result.numpy().tolist() == [2, 3, 4]
    assert (ones < x).numpy().tolist() == [False, True, True]
    for tensor in (torch.as_tensor(x), torch.tensor(x), torch.from_dlpack(x)):
        assert tensor.tolist() == [1, 2, 3]


def test_objects_without_data_have_no_endless_search_for_it() -> None:
    assert np.array_equal(copy.copy(IMAGE), IMAGE)
    with pytest.raises(AttributeError, match="object has no attribute '_value'"):
        dynamic.Tensor.__new__(dynamic.Tensor)._value  # noqa: B018
