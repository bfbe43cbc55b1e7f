"""The data that the proxy accepts, and the data that it rejects at once."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dali_proxy import DALIServer, PlaceholderError, SampleTypeError
from dali_proxy._loader.numbered_datasets import NumberedIndices
from dali_proxy._transport.endpoint import InputSpec
from dali_proxy._worker.proxy import as_input_array
from tests.dali_proxy.indexed import declared, sample

ANY = InputSpec("x")
GRID = np.arange(24).reshape(4, 6)


class FromArray:
    """An object that NumPy can read."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.arange(3, dtype=np.int16)


class FromDLPack:
    """An object that supports only DLPack."""

    def __dlpack__(self, **kwargs: Any) -> Any:
        return np.arange(3, dtype=np.int16).__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return (1, 0)


class Hostile:
    """An object that raises when it is read."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise OSError("the file is gone")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(3), np.float32(3)),
        (GRID.T, GRID.T),
        (GRID[::2, ::-1], GRID[::2, ::-1]),
        (np.asfortranarray(GRID), GRID),
        (GRID.astype(">i4"), GRID.astype(np.int32)),
        (np.ma.masked_less(GRID, 3), GRID),
        (np.zeros((0, 3), np.uint8), np.zeros((0, 3), np.uint8)),
        (np.array([True, False]), np.array([True, False])),
        (b"abc", np.array([97, 98, 99], np.uint8)),
        (bytearray(b"abc"), np.array([97, 98, 99], np.uint8)),
        (memoryview(b"abc"), np.array([97, 98, 99], np.uint8)),
        (5, np.int64(5)),
        (np.float32(1.5), np.float32(1.5)),
        (2.5, np.float64(2.5)),
        (True, np.bool_(True)),
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
        ((1.0, 2.0), np.array([1.0, 2.0])),
        (torch.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T),
        (torch.ones(3, requires_grad=True), np.ones(3, np.float32)),
        (torch.ones(3, dtype=torch.float16), np.ones(3, np.float16)),
        (torch.tensor(7), np.int64(7)),
        ([torch.ones(2), torch.zeros(2)], np.array([[1, 1], [0, 0]], np.float32)),
        (Image.new("RGB", (3, 2), (1, 2, 3)), np.tile(np.array([1, 2, 3], np.uint8), (2, 3, 1))),
        (FromArray(), np.arange(3, dtype=np.int16)),
        (FromDLPack(), np.arange(3, dtype=np.int16)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_inputs_that_are_accepted(value: Any, expected: Any) -> None:
    array = as_input_array(value, ANY)
    assert array.dtype.newbyteorder("=") == expected.dtype
    assert array.shape == expected.shape
    assert np.array_equal(array, expected)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "return a value for every sample"),
        ("a/path.jpg", "os.fsencode"),
        (Path("a/path.jpg"), "object"),
        (object(), "pass bytes, numbers, a NumPy array"),
        (io.BytesIO(b"abc"), r"file\.read\(\)"),
        ({"a": 1}, "a separate input"),
        ({1, 2}, "object"),
        (np.array([None]), "object"),
        (np.array(["a"]), "<U1"),
        (np.ones(3, complex), "complex128"),
        (np.array(["2020-01-01"], "M8[D]"), "datetime64"),
        (np.zeros(2, [("a", "i4")]), "'a'"),
        ([[1, 2], [3]], "inhomogeneous"),
        (["a", "b"], "<U1"),
        (torch.ones(3, dtype=torch.bfloat16), "bfloat16"),
        (torch.ones(3, dtype=torch.complex64), "complex64"),
        (torch.eye(3).to_sparse(), "sparse|Sparse"),
        (torch.ones(3, device="meta"), "meta"),
        (Hostile(), "the file is gone"),
        (NumberedIndices(0, 0, [1]), "object"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_inputs_that_are_refused(value: Any, reason: str) -> None:
    with pytest.raises(SampleTypeError, match=reason) as caught:
        as_input_array(value, InputSpec("images"))
    assert "'images'" in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_declared_inputs_are_checked_in_the_dataset() -> None:
    with DALIServer(declared(), mode="thread") as server:
        server.proxy(np.zeros(3, np.uint8))
        with pytest.raises(SampleTypeError, match="dtype=uint8"):
            server.proxy(np.zeros(3, np.float32))
        with pytest.raises(SampleTypeError, match="ndim=1"):
            server.proxy(np.zeros((3, 3), np.uint8))


def test_placeholder_is_refused_as_an_input(server: DALIServer) -> None:
    ref = server.proxy(sample(1))
    with pytest.raises(PlaceholderError, match="one pipeline"):
        server.proxy(ref)


def test_dataset_may_reuse_its_buffer(server: DALIServer) -> None:
    buffer = np.zeros((2, 3), np.int32).T
    refs = []
    for index in range(4):
        buffer[:] = index
        refs.append(server.proxy(buffer))
    buffer[:] = -1
    assert [server.produce_data(ref).unique().tolist() for ref in refs] == [[7], [10], [13], [16]]
