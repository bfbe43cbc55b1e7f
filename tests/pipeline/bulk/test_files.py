"""Reading of many files at once: data, errors, and reuse of memory."""

from __future__ import annotations

import ctypes
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dali_proxy.pipeline._bulk.files import BatchOfFiles, FileBuffers
from dali_proxy.pipeline._bulk.native import compiled
from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._bulk.read_file import read_file
from dali_proxy.pipeline._concurrency.cost import Cost
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._remote.data_file import DataFile
from pipeline.tensors.cpu import TensorListCPU


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sizes = [0, 1, 63, 64, 65, 5000, 100_000]
    for number, size in enumerate(sizes):
        content = np.random.default_rng(number).integers(0, 256, size, np.uint8)
        (tmp_path / f"{number} ü.bin").write_bytes(content.tobytes())
    return tmp_path


def read(paths: PathTable, buffers: FileBuffers | None = None, step: int = 3) -> BatchOfFiles:
    """Read files on as many threads as there are ranges."""
    made = BatchOfFiles(paths, buffers or FileBuffers())
    ranges = [(begin, min(begin + step, len(paths))) for begin in range(0, len(paths), step)]
    threads = [threading.Thread(target=made.read, args=each) for each in ranges]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made


def contents(batch: TensorListCPU) -> list[bytes]:
    return [sample.tobytes() for sample in batch.samples]


def test_files_are_read_completely(way: str, folder: Path) -> None:
    names = sorted(os.listdir(folder)) * 4
    expected = [(folder / name).read_bytes() for name in names]
    absolute = [str(folder / name) for name in names]
    for paths in (
        PathTable.from_paths(names, str(folder)),
        PathTable.from_paths(absolute, "/nowhere"),
        PathTable.from_paths(absolute),
    ):
        made = read(paths)
        assert not made.failures
        batch = made.batch()
        assert contents(batch) == expected
        assert batch.shape() == [(len(content),) for content in expected]
        table = batch.table()
        for pointer, content in zip(table.pointers.tolist(), expected, strict=True):
            assert ctypes.string_at(pointer, len(content)) == content


@pytest.mark.parametrize("count", [1, 8, 100])
def test_many_threads_read_one_batch(way: str, folder: Path, count: int) -> None:
    names = (sorted(os.listdir(folder)) * count)[:count]
    expected = [(folder / name).read_bytes() for name in names]
    with ThreadPool(4, "test") as pool:
        for _ in range(5):
            made = BatchOfFiles(PathTable.from_paths(names, str(folder)), FileBuffers())
            assert not made.start(pool).wait()
            assert contents(made.batch()) == expected
            made = BatchOfFiles(PathTable.from_paths(names, str(folder)), FileBuffers())
            made.read_all(pool)
            assert contents(made.batch()) == expected


def test_paths_are_samples_of_a_batch_too(way: str, folder: Path) -> None:
    names = sorted(os.listdir(folder))
    given = [np.frombuffer(os.fsencode(f"file://{folder / name}") + b"\0\0", np.uint8) for name in names]
    strided = [np.repeat(path, 2)[::2] for path in given]
    for paths in (given, strided):
        batch = TensorListCPU(paths)
        made = read(PathTable.from_samples(batch, b"file://"))
        assert contents(made.batch()) == [(folder / name).read_bytes() for name in names]


def test_unreadable_files_are_named(way: str, folder: Path) -> None:
    (folder / "sub").mkdir()
    names = ["0 ü.bin", "missing", "5 ü.bin", "sub", "a\0b", "", "long" * 2000]
    made = read(PathTable.from_paths(names, str(folder)), step=2)
    found = {failure.sample: str(failure.error) for failure in made.failures}
    assert sorted(found) == [1, 3, 4, 5, 6]
    for sample, reason in [(1, "No such file"), (3, "Is a directory"), (4, "null byte"), (6, "too long")]:
        with pytest.raises(Exception, match=reason) as alone:
            read_file(str(folder / names[sample]))
        assert str(alone.value) == found[sample]
    assert found[5] == "the path of the file is empty"


def test_memory_is_reused_after_the_last_reader(folder: Path) -> None:
    paths = PathTable.from_paths(["6 ü.bin"] * 8, str(folder))
    buffers = FileBuffers()
    batches = [read(paths, buffers).batch() for _ in range(3)]
    addresses = {int(batch.table().pointers.min()) for batch in batches}
    assert len(addresses) == 3  # held data isn't overwritten
    sample = batches[0].samples[7]
    del batches
    again = [read(paths, buffers).batch() for _ in range(2)]
    held = sample.ctypes.data
    assert all(held not in batch.table().pointers for batch in again)
    assert sample.tobytes() == (folder / "6 ü.bin").read_bytes()


@pytest.mark.skipif(compiled is None, reason="no C compiler")
def test_batch_larger_than_all_before_is_read_too_and_the_next_has_room(folder: Path) -> None:
    buffers = FileBuffers()
    read(PathTable.from_paths(["5 ü.bin"] * 20, str(folder)), buffers).batch()
    paths = PathTable.from_paths(["6 ü.bin"] * 20, str(folder))
    for round_number in range(2):
        made = read(paths, buffers)
        assert not made.failures
        batch = made.batch()
        assert set(contents(batch)) == {(folder / "6 ü.bin").read_bytes()}
        pointers = batch.table().pointers
        in_one_piece = pointers.max() - pointers.min() == 19 * 100_032
        assert in_one_piece == (round_number == 1)


@pytest.mark.parametrize("size", [2**63 - 1, 2**62, 2**41])
def test_file_with_a_huge_claimed_size_fails_alone(way: str, folder: Path, size: int) -> None:
    """A sparse file has any size: sums of such sizes must not wrap around, and end before the buffer."""
    huge = os.memfd_create("huge")
    os.ftruncate(huge, size)
    paths = PathTable.from_paths(["5 ü.bin", *[f"/proc/self/fd/{huge}"] * 4, "6 ü.bin"], str(folder))
    buffers = FileBuffers()
    guarded = buffers.take(paths)
    guarded[:] = 7
    buffers.take = lambda count: guarded[:150_000]  # type: ignore[method-assign]
    made = BatchOfFiles(paths, buffers)
    with limited_memory():
        made.read(0, 6)
    os.close(huge)
    assert sorted(failure.sample for failure in made.failures) == [1, 2, 3, 4]
    assert (guarded[150_000:] == 7).all()
    assert contents(made.batch())[0] == (folder / "5 ü.bin").read_bytes()
    assert contents(made.batch())[5] == (folder / "6 ü.bin").read_bytes()


@contextmanager
def limited_memory() -> Iterator[None]:
    """Set a limit, because a system that overcommits would grant a terabyte."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.skipif(compiled is None, reason="no C compiler")
def test_threads_of_the_compiled_loop_are_charged_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    charged: list[Cost] = []
    monkeypatch.setattr("dali_proxy.pipeline._bulk.files.charge", charged.append)
    made = BatchOfFiles(PathTable.from_paths(["6 ü.bin"] * 200, str(folder)), FileBuffers())
    made.read(0, 200, threads=4)
    made.read(0, 200, threads=1)
    beside, alone = charged
    assert min(beside) > 0
    assert alone == Cost(), "the calling thread has its own clock"


@pytest.mark.skipif(compiled is None, reason="no C compiler")
def test_compiled_loops_refuse_wrong_arguments() -> None:
    assert compiled is not None
    column, buffer, cursor = np.zeros(3, np.int64), np.zeros(10, np.uint8), np.zeros(1, np.int64)
    files = (1, b"", b"", buffer, cursor, column, column, column.copy(), column.copy())
    for begin, end in ((0, 4), (2, 1), (-1, 2)):
        with pytest.raises(ValueError, match="range"):
            compiled.read_files(begin, end, *files)
    with pytest.raises(ValueError, match="differ in length"):
        compiled.gather(1, buffer, column, column, column[:2])
    with pytest.raises(ValueError, match="64-bit"):
        compiled.gather(1, buffer, column, column, column.astype(np.int32))
    with pytest.raises(ValueError, match="one cursor"):
        compiled.read_files(0, 3, 1, b"", b"", buffer, column.copy(), *files[5:])
    for threads in (0, -1, 65):
        with pytest.raises(ValueError, match="1 to 64 threads"):
            compiled.read_files(0, 3, threads, *files[1:])
        with pytest.raises(ValueError, match="1 to 64 threads"):
            compiled.gather(threads, buffer, column, column, column)
    for size, place in ((11, 0), (10, 1), (1, -1), (-1, 1), (2**62, 2**62)):
        with pytest.raises(ValueError, match="doesn't fit"):
            compiled.gather(1, buffer, column[:1], np.array([size]), np.array([place]))


def test_file_whose_size_the_system_does_not_know_is_read_to_its_end(way: str, folder: Path) -> None:
    expected = Path("/proc/version").read_bytes()
    assert expected
    made = read(PathTable.from_paths(["/proc/version", str(folder / "0 ü.bin")]))
    assert not made.failures
    assert [each.tobytes() for each in made.batch().samples] == [expected, b""]
    assert read_file("/proc/version").tobytes() == expected


def test_open_file_whose_size_the_system_does_not_know_is_an_error() -> None:
    with pytest.raises(OSError, match="the file system doesn't know its size"):
        DataFile("/proc/version")
