"""`readers.numpy` reads only the surroundings of a region."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from dali_proxy.pipeline._bulk.read_file import read_file
from dali_proxy.pipeline._operators.decoding.numpy_file import parse_npy
from dali_proxy.pipeline._readers.npy_file import NpyFile
from pipeline import Pipeline, fn
from pipeline.errors import DecodeError, PipelineError

HUGE = (1 << 16, 1 << 14, 64)  # 64 GiB of bytes, which no file system allocates


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """Create a sparse file with only a few bytes of data."""
    path = tmp_path / "huge.npy"
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": HUGE})
        begin = file.tell()
        file.truncate(begin + int(np.prod(HUGE)))
        for row in range(3):
            file.seek(begin + np.ravel_multi_index((60_000 + row, 9, 5), HUGE))
            file.write(bytes([1 + row, 7]))
    return path


class Counted:
    """A counter of the bytes that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.calls = 0
        for name in ("preadv", "pread"):
            monkeypatch.setattr(os, name, self._counting(getattr(os, name)))

    def _counting(self, original: Any) -> Any:
        def read(*arguments: Any) -> Any:
            made = original(*arguments)
            self.bytes += made if isinstance(made, int) else len(made)
            self.calls += 1
            return made

        return read


def read(**arguments: Any) -> list[np.ndarray]:
    with Pipeline(batch_size=2, num_threads=2, device_id=None) as pipe:
        pipe.set_outputs(fn.readers.numpy(**arguments))
    try:
        (made,) = pipe.run()
        return [np.array(made.at(index)) for index in range(2)]
    finally:
        pipe.close()


@pytest.mark.parametrize("per_sample", [False, True])
def test_region_of_a_huge_file(huge: Path, per_sample: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    start: Any = [60_000, 8, 4]
    if per_sample:
        with Pipeline(batch_size=2, num_threads=2, device_id=None) as pipe:
            begin = fn.external_source(name="begin")
            pipe.set_outputs(fn.readers.numpy(files=[str(huge)], roi_start=begin, roi_shape=[3, 2, 4]))
        pipe.feed_input("begin", [np.int32(start), np.int32([60_001, 8, 4])])
        (made,) = pipe.run()
        first, second = (np.array(made.at(index)) for index in range(2))
        pipe.close()
        assert second[:2].tolist() == first[1:].tolist()
    else:
        first, _ = read(files=[str(huge)], roi_start=start, roi_shape=[3, 2, 4])
    assert first[:, 1, 1].tolist() == [1, 2, 3]
    assert first.sum() == 6 + 3 * 7
    assert counted.bytes < 200_000  # headers, and rows of 68 bytes; one batch is prefetched


@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "?"])
def test_regions_of_all_arrays(tmp_path: Path, fortran: bool, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for number in range(25):
        shape = tuple(rng.integers(1, [9, 300, 40, 5][: number % 5] if number % 5 else 1, size=number % 5).tolist())
        array = rng.integers(0, 2, shape).astype(dtype) if dtype == "?" else rng.integers(0, 99, shape).astype(dtype)
        path = tmp_path / f"{number}.npy"
        array = np.asfortranarray(array) if fortran else array  # the call turns 0 dimensions into 1
        shape = array.shape
        np.save(path, array)
        file = NpyFile.open(str(path))
        start = [int(rng.integers(0, extent)) for extent in shape]
        size = [int(rng.integers(0, extent - begin + 1)) for extent, begin in zip(shape, start, strict=True)]
        made = file.read(start, size)
        window = tuple(slice(begin, begin + extent) for begin, extent in zip(start, size, strict=True))
        assert made.dtype == array.dtype.newbyteorder("=")
        assert made.dtype.isnative
        np.testing.assert_array_equal(made, array[window])
        np.testing.assert_array_equal(file.read([0] * len(shape), shape), parse_npy(read_file(str(path))))


def test_narrow_columns_take_few_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(50_000 * 20, dtype=np.float32).reshape(50_000, 20)
    np.save(tmp_path / "x.npy", array)
    file = NpyFile.open(str(tmp_path / "x.npy"))
    counted = Counted(monkeypatch)
    np.testing.assert_array_equal(file.read([0, 3], [50_000, 1]), array[:, 3:4])
    assert counted.calls < 30


def test_files_that_are_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((100, 100)))
    file = NpyFile.open(str(path))
    os.truncate(path, 5000)
    with pytest.raises(PipelineError, match="was truncated while it was read"):
        file.read([90, 0], [5, 5])
    with pytest.raises(DecodeError, match=r"has 80000 bytes, but the file '.*x\.npy' has"):
        NpyFile.open(str(path))
    path.unlink()
    with pytest.raises(PipelineError, match=r"can't read the file '.*x\.npy'"):
        file.read([90, 0], [5, 5])


def test_long_header(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    header = str({"descr": "|u1", "fortran_order": False, "shape": (3,)}).encode().ljust(9_000) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"abc")
    assert NpyFile.open(str(path)).read([1], [2]).tolist() == [98, 99]


@pytest.mark.gpu
def test_arrays_on_the_gpu(tmp_path: Path) -> None:
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.arange(60, dtype=np.int16).reshape(6, 10) + number)
    results = []
    for device in ("cpu", "gpu"):
        for region in ({}, {"roi_start": [1, 2], "roi_end": [9, 5], "out_of_bounds_policy": "pad"}):
            with Pipeline(batch_size=3, num_threads=2, device_id=0) as pipe:
                pipe.set_outputs(fn.readers.numpy(device=device, file_root=str(tmp_path), **region))
            results.append(pipe.run()[0].as_cpu().as_array())
            pipe.close()
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[3])


@pytest.mark.parity
def test_bytes_behind_an_array_are_skipped(tmp_path: Path) -> None:
    """As in DALI and np.load: `np.save` twice into one file is legal."""
    for number in range(2):
        with (tmp_path / f"{number}.npy").open("wb") as file:
            np.save(file, np.arange(6) + number)
            np.save(file, np.arange(3 + number))
    whole = {"file_root": str(tmp_path)}
    region = {**whole, "roi_start": [2], "roi_end": [5]}
    for arguments in (whole, region):
        ours, theirs = (arrays_of(side, **arguments) for side in ("ours", "dali"))
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(ours[0], np.arange(6)[slice(*((2, 5) if "roi_start" in arguments else (None,)))])


def arrays_of(side: str, **arguments: Any) -> list[Any]:
    module = pipeline if side == "ours" else pytest.importorskip("nvidia.dali")
    pipe = module.Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(module.fn.readers.numpy(**arguments))
    pipe.build()
    (output,) = pipe.run()
    arrays = [np.array(output.at(index)) for index in range(2)]
    if side == "ours":
        pipe.close()
    return arrays
