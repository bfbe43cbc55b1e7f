"""NumPy files: errors here and in DALI, and readers; tests/parity compares the rest."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._operators.decoding.numpy_file import parse_npy
from pipeline import Pipeline, fn
from pipeline.errors import DecodeError, PipelineError
from tests.pipeline.operators.both import refused_by_both, run_dali, run_ours


def npy(array: Any, version: tuple[int, int] | None = None) -> np.ndarray[Any, Any]:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), version=version)
    return np.frombuffer(file.getvalue(), np.uint8)


BROKEN = [
    (np.arange(60, dtype=np.uint8), "Got bad magic string for numpy header 0x000102030405, expected 0x934e554d5059"),
    (npy(np.arange(6))[:-3], "Expected data numpy size 176 bytes does not match the actual size 173 bytes"),
    (npy(np.arange(6))[:20], "not a NumPy file"),
    (npy(np.ones(3, np.complex64)), "dtype complex64"),
    (npy(np.array(["a"])), "dtype <U1"),
]


@pytest.mark.parity
@pytest.mark.parametrize(("content", "match"), BROKEN)
def test_files_refused_by_both(content: np.ndarray[Any, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: fn.decoders.numpy(x), [content], match=match)


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (np.zeros((2, 3, 1), np.float32), "same number of dimensions, but got differing sample dimensions: 2 and 3"),
        (np.zeros((2, 3), np.int32), "same data type, but got differing types: float32 and int32"),
    ],
)
def test_arrays_of_a_data_set_are_alike(other: Any, match: str) -> None:
    first = npy(np.zeros((2, 3), np.float32))
    refused_by_both(lambda fn, _, x: fn.decoders.numpy(x), [first, npy(other)], match=match)
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.decoders.numpy(fn.external_source(name="x")))
    pipe.run(x=[first])
    with pytest.raises(PipelineError, match=match):
        pipe.run(x=[npy(other)])
    pipe.close()


@pytest.mark.parity
@pytest.mark.parametrize("shape", [(7,), (5, 4), (3, 4, 5, 2)])
def test_dimensions_known_only_from_the_file(shape: tuple[int, ...]) -> None:
    """Operators that need the number of dimensions learn it from the samples."""

    def graph(fn: Any, _: Any, content: Any) -> Any:
        array = fn.decoders.numpy(content)
        return fn.slice(array, start=1, shape=2, axes=[0]), fn.transpose(array)

    content = [npy(np.arange(np.prod(shape)).reshape(shape))] * 2
    for ours, dali in zip(run_ours(graph, content), run_dali(graph, content), strict=True):
        np.testing.assert_array_equal(ours.samples, dali.samples)


def test_objects_are_refused_and_not_unpickled() -> None:
    file = io.BytesIO()
    np.save(file, np.array([print], object), allow_pickle=True)
    with pytest.raises(DecodeError, match="dtype object"):
        parse_npy(np.frombuffer(file.getvalue(), np.uint8))


def test_files_that_dali_refuses() -> None:
    fortran = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
    for array in (fortran, np.arange(6, dtype=">i4").reshape(2, 3)):
        made = parse_npy(npy(array))
        assert made.dtype.isnative
        np.testing.assert_array_equal(made, array)
    np.testing.assert_array_equal(parse_npy(npy(fortran, (2, 0))), fortran)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(["z", "b/z", "a/y", "a/Y", ".hidden", "b/a", "b/c/deep"]):
        path = tmp_path / f"{name}.npy"
        path.parent.mkdir(exist_ok=True, parents=True)
        np.save(path, np.arange(2) + 10 * number)
    (tmp_path / "a" / "notes.txt").write_text("none of them")
    return tmp_path


@pytest.mark.parity
def test_files_of_a_folder_have_source_info(folder: Path) -> None:
    def graph(fn: Any, _: Any) -> Any:
        data = fn.readers.numpy(file_root=str(folder))
        return data, data.property("source_info")

    ours, theirs = (run(graph, batch_size=8) for run in (run_ours, run_dali))
    for our, their in zip(ours, theirs, strict=True):
        assert [sample.tolist() for sample in our.samples] == [sample.tolist() for sample in their.samples]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "is required when not using"),
        ({"files": ["a"], "file_list": "b"}, "but not both"),
        ({"files": ["nowhere.npy"]}, "can't read the file"),
    ],
)
def test_readers_refused_by_both(arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _: fn.readers.numpy(**arguments), match=match)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"roi_start": [1], "roi_end": [5]}, "can't be placed out of bounds"),
        ({"roi_start": [1], "rel_roi_start": [0.5]}, "are mutually exclusive"),
    ],
)
def test_regions_refused_by_both(folder: Path, arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _: fn.readers.numpy(file_root=str(folder), **arguments), match=match)


def test_files_of_different_dtypes_are_refused(tmp_path: Path) -> None:
    for name, dtype in (("a", np.int32), ("b", np.float32)):
        np.save(tmp_path / f"{name}.npy", np.zeros(2, dtype))
    with pytest.raises(PipelineError, match="different data types"):
        run_ours(lambda fn, _: fn.readers.numpy(file_root=str(tmp_path)), batch_size=2)
