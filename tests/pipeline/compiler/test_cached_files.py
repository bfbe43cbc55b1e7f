"""Cached samples of files: those that haven't changed aren't read, and changed ones have the new data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cache import file_names
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._operators.decoding.io_file_read import FileRead
from pipeline import fn
from pipeline.errors import OperatorError
from tests.pipeline.compiler.cached_runs import Run, Samples, check_equal, crops

SIZE = 40_000  # bytes; each file is padded


def read(data: Any) -> Any:
    return crops(fn.io.file.read(data))


def resized(data: Any) -> Any:
    images = fn.resize(fn.decoders.image(fn.io.file.read(data)), size=(40, 40))
    return fn.crop(images, crop=(32, 32), crop_pos_x=fn.random.uniform(range=(0, 1)))


def peeked(data: Any) -> Any:
    content = fn.io.file.read(data)
    return fn.decoders.image(content), fn.peek_image_shape(content), fn.random.uniform(range=(0, 1))


@pytest.fixture
def contents(encoded: Samples) -> list[bytes]:
    return [sample.tobytes().ljust(SIZE, b"\0") for sample in encoded]


@pytest.fixture
def files(contents: list[bytes], tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.jpg" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let an hour pass, so that the times of files tell whether they were changed."""
    monkeypatch.setattr(file_names, "_now", lambda: time.time() + 3600)
    monkeypatch.setattr(file_names, "_KNOWN", file_names._KNOWN | {file_names._file_system(str(tmp_path))})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of files of all calls that read files."""
    counts: list[int] = []
    run = FileRead.run

    def counted(self: FileRead, batch: Any, inputs: Any) -> Any:
        counts.append(batch.size)
        return run(self, batch, inputs)

    monkeypatch.setattr(FileRead, "run", counted)
    return counts


def samples_of(paths: list[Path], scheme: str = "") -> Samples:
    return [np.frombuffer(os.fsencode(f"{scheme}{path}"), np.uint8) for path in paths]


@pytest.mark.combinations
@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("describe", [read, resized, peeked])
@pytest.mark.parametrize("cache", ["100MB", "200KB"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_results_are_those_without_a_cache(describe: Any, cache: str, scheme: str, files: list[Path]) -> None:
    samples = samples_of(files, scheme)
    run = Run(describe, cache)
    check_equal(run.epochs(samples), Run(describe, 0).epochs(samples))
    assert run.report["cache_hits"] + run.report["cache_misses"] == 3 * len(files)
    assert run.report["cache_bytes"] <= run.report["cache_limit"]


@pytest.mark.usefixtures("old")
def test_unchanged_files_are_read_once(files: list[Path], reads: list[int]) -> None:
    run = Run(read)
    run.epochs(samples_of(files), 3)
    assert sum(reads) == len(files)
    assert run.report["cache_hits"] == 2 * len(files)


def test_file_systems_are_recognized() -> None:
    assert file_names._file_system("/proc/self") == 0x9FA0
    assert file_names._file_system("/nowhere") == 0


@pytest.mark.usefixtures("old")
def test_times_prove_nothing_on_unknown_file_systems(
    files: list[Path], reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_names, "_KNOWN", frozenset())
    run = Run(read)
    run.epochs(samples_of(files), 2)
    assert (sum(reads), run.report["cache_hits"]) == (2 * len(files), len(files))


def test_young_files_are_found_by_their_content(files: list[Path], reads: list[int]) -> None:
    run = Run(read)
    run.epochs(samples_of(files), 2)
    assert (sum(reads), run.report["cache_hits"]) == (2 * len(files), len(files))


def keep_times(path: Path, content: bytes) -> None:
    """Change the content of a file, but neither its size nor the time of its last modification."""
    times = os.stat(path)
    while os.stat(path).st_ctime_ns == times.st_ctime_ns:  # the clock of some systems ticks slowly
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (os.stat(path).st_size, os.stat(path).st_mtime_ns) == (times.st_size, times.st_mtime_ns)


def replace(path: Path, content: bytes) -> None:
    """Replace a file by one with its size and times."""
    times, other = os.stat(path), path.with_suffix(".new")
    other.write_bytes(content)
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.rename(path)


def shorten(path: Path, content: bytes) -> None:
    path.write_bytes(content.rstrip(b"\0"))


def link(path: Path, content: bytes) -> None:
    """Make a symbolic link in place of a file."""
    other = path.with_suffix(".other")
    other.write_bytes(content)
    path.unlink()
    path.symlink_to(other)


@pytest.mark.usefixtures("old")
@pytest.mark.parametrize("change", [keep_times, replace, shorten, link])
def test_changed_files_have_the_new_data(
    change: Callable[[Path, bytes], None], files: list[Path], contents: list[bytes]
) -> None:
    run, plain, samples = Run(read), Run(read, 0), samples_of(files[:4])
    for number in range(4):
        check_equal(run.batch(samples), plain.batch(samples))
        change(files[1], contents[5 + number])
    check_equal(run.batch(samples), plain.batch(samples))
    assert run.report["cache_misses"] == 8


@pytest.mark.usefixtures("old")
def test_file_that_changes_while_it_is_read_is_read_again(
    files: list[Path], contents: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = iter([contents[9], contents[10]])
    run_read = FileRead.run

    def changing(self: FileRead, batch: Any, inputs: Any) -> Any:
        found = run_read(self, batch, inputs)
        if (content := next(changes, None)) is not None:
            keep_times(files[0], content)
        return found

    run, samples = Run(read), samples_of(files[:2])
    with monkeypatch.context() as patched:
        patched.setattr(FileRead, "run", changing)
        run.batch(samples)
        run.batch(samples)
    plain = Run(read, 0)
    for _ in range(2):
        plain.batch(samples)  # the next random numbers
    check_equal(run.batch(samples), plain.batch(samples))


@pytest.mark.usefixtures("old")
def test_errors_of_files_are_those_without_a_cache(files: list[Path]) -> None:
    run, plain, samples = Run(read), Run(read, 0), samples_of(files[:6])
    check_equal(run.batch(samples), plain.batch(samples))
    files[1].unlink()
    files[2].write_bytes(b"not a JPEG")
    files[4].unlink()
    for _ in range(2):
        texts = []
        for each in (run, plain):
            with pytest.raises(OperatorError) as caught:
                each.batch(samples)
            texts.append(str(caught.value))
        assert texts[0] == texts[1]


@pytest.mark.usefixtures("old")
def test_paths_and_contents_share_values(files: list[Path], contents: list[bytes], reads: list[int]) -> None:
    cache = ValueCache(1 << 27)
    Run(crops, shared=cache).batch([np.frombuffer(content, np.uint8) for content in contents[:4]])
    run, plain = Run(read, shared=cache), Run(read, 0)
    for _ in range(2):
        check_equal(run.batch(samples_of(files[:4])), plain.batch(samples_of(files[:4])))
    assert (cache.report()["cache_misses"], cache.report()["cache_hits"]) == (4, 8)
    cache.close()
    assert reads == [4, 4, 4]  # the others belong to the pipelines without a cache


@pytest.mark.usefixtures("old")
def test_pipelines_with_other_operators_do_not_share_values(files: list[Path]) -> None:
    cache, samples = ValueCache(1 << 27), samples_of(files[:4])
    for _ in range(2):
        for describe in (read, resized):
            check_equal(Run(describe, shared=cache).batch(samples), Run(describe, 0).batch(samples))
    assert (cache.report()["cache_misses"], cache.report()["cache_hits"]) == (8, 8)
    cache.close()
