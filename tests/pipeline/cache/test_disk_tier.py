"""The files of a cache: they survive the process, and never give wrong values."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cache import value_cache
from dali_proxy.pipeline._cache.disk_tier import DiskTier
from dali_proxy.pipeline._cache.keys import describe_software
from dali_proxy.pipeline._cache.options import CacheOptions
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

VALUES: list[Any] = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, np.int64), np.empty((0, 4), np.uint8)]
LAYOUTS = ("HW", "", "XY")


@contextmanager
def opened(folder: Path, limit: int = 1 << 20) -> Iterator[DiskTier]:
    tier = DiskTier(str(folder), limit)
    try:
        yield tier
    finally:
        tier.close()


def check(tier: DiskTier, key: bytes) -> None:
    loaded = tier.load(key)
    assert loaded is not None
    assert loaded[1] == LAYOUTS
    for found, expected in zip(loaded[0], VALUES, strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and len(path.name) == 64]


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    with opened(folder) as tier:
        tier.store(b"key", VALUES, LAYOUTS)
    return folder


def test_values_survive_the_process(filled: Path) -> None:
    with opened(filled) as tier:
        check(tier, b"key")
        assert tier.load(b"other") is None


def test_folder_and_files_are_private(filled: Path) -> None:
    for path in [filled, *filled.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize("position", [0, 12, 40, -1])
def test_damaged_value_is_missing_and_can_be_stored_again(filled: Path, position: int) -> None:
    (path,) = files(filled)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with opened(filled) as tier:
        assert tier.load(b"key") is None
        tier.store(b"key", VALUES, LAYOUTS)
    with opened(filled) as tier:
        check(tier, b"key")


def test_value_that_was_cut_off_is_missing(filled: Path) -> None:
    (path,) = files(filled)
    os.truncate(path, path.stat().st_size - 3)
    with opened(filled) as tier:
        assert tier.load(b"key") is None


def test_value_of_another_format_is_missing(filled: Path) -> None:
    with opened(filled) as tier:
        tier._files.put(b"strange".hex(), b"\x07\0\0\0\0\0\0\0nothing that can be read")
        assert tier.load(b"strange") is None


def test_full_folder_keeps_what_it_has(tmp_path: Path) -> None:
    value = [np.zeros(1000, np.uint8)]
    with opened(tmp_path / "cache", 3500) as tier:
        for number in range(6):
            tier.store(str(number).encode(), value, ("",))
    assert tier.refused == 3
    assert sum(path.stat().st_size for path in files(tmp_path)) <= 3500
    with opened(tmp_path / "cache", 3500) as tier:
        assert [tier.load(str(number).encode()) is not None for number in range(6)] == [True] * 3 + [False] * 3


def test_values_that_were_not_used_for_long_make_room(tmp_path: Path) -> None:
    folder, value = tmp_path / "cache", [np.zeros(1000, np.uint8)]
    with opened(folder, 1500) as tier:
        tier.store(b"old", value, ("",))
    for path in files(folder):
        os.utime(path, (0, 0))
    with opened(folder, 1500) as tier:
        tier.store(b"new", value, ("",))
    with opened(folder, 1500) as tier:
        assert tier.load(b"old") is None
        assert tier.load(b"new") is not None


def test_values_that_the_disk_is_too_slow_for_are_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy.pipeline._cache.disk_tier._WAITING", 10)
    with opened(tmp_path / "cache") as tier:
        tier.store(b"key", VALUES, LAYOUTS)
        assert tier.refused == 1
    tier.store(b"late", VALUES, LAYOUTS)  # after it was closed
    assert files(tmp_path) == []


def test_processes_with_one_folder_have_one_seed(filled: Path) -> None:
    with opened(filled) as one, opened(filled) as two:
        assert one.seed == two.seed
        (filled / "seed").write_bytes(b"cut")
        with opened(filled) as three:
            assert three.seed != one.seed


def test_folder_that_others_may_write_to_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ArgumentValueError, match=f"can't be used: other users may write to {folder}"):
        DiskTier(str(folder), 1 << 20)


def test_folder_with_a_file_of_the_user_in_place_of_ours_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "seed").write_text("a file of the user")
    with pytest.raises(ArgumentValueError, match="its file 'seed' isn't that of a cache"):
        DiskTier(str(tmp_path), 1 << 20)
    assert (tmp_path / "seed").read_text() == "a file of the user"


def test_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentValueError, match="can't be used"):
        DiskTier(str(tmp_path / "file"), 1 << 20)


def cache_in(folder: Path) -> ValueCache:
    cache = ValueCache.from_argument({"memory": 100_000, "folder": folder})
    assert cache is not None
    return cache


def test_cache_reads_from_the_folder_once(tmp_path: Path) -> None:
    keys = [b"a", b"b"]
    first = cache_in(tmp_path / "cache")
    first.store(keys, [TensorListCPU(np.arange(8).reshape(2, 4), "X")])
    first.close()
    second = cache_in(tmp_path / "cache")
    for _ in range(2):
        entries = second.find([*keys, b"c"])
        assert [entry is not None for entry in entries] == [True, True, False]
        assert entries[0] is not None
        assert (entries[0].layouts, entries[0].parts[0].shape) == (("X",), (4,))
    report = second.report()
    second.close()
    assert (report["cache_hits"], report["cache_loaded"], report["cache_values"]) == (4, 2, 2)


def test_values_of_other_software_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_software() == describe_software()
    before = describe_software()
    monkeypatch.setattr("dali_proxy.pipeline._cache.keys.version", lambda name: "another")
    assert describe_software() != before
    assert value_cache.ValueCache(1000).software == b""


def test_values_of_another_processor_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bytes] = []
    for lines in ("flags\t\t: sse2 avx2", "flags\t\t: sse2", "Features\t: asimd", "flags\t\t: sse2 avx2"):
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\ncpu MHz\t: {len(found)}\n{lines}\n")
        monkeypatch.setattr("dali_proxy.pipeline._cache.keys._PROCESSOR", tmp_path / "cpuinfo")
        found.append(describe_software())
    assert len(set(found)) == 3
    assert found[0] == found[-1]


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (None, 0),
        (0, 0),
        ("2K", 2048),
        ({"memory": "2K"}, 2048),
        ({"memory": 9, "folder": "/x", "disk": "1K"}, {"memory": 9, "folder": "/x", "disk": 1024}),
    ],
)
def test_options_have_a_shortest_form_that_means_the_same(argument: Any, expected: Any) -> None:
    options = CacheOptions.from_argument(argument, "cache")
    assert options.plain() == expected
    assert CacheOptions.from_argument(options.plain(), "cache") == options


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        ("lots", ArgumentValueError, "cache must be a number of bytes, such as \"4G\", not 'lots'"),
        (-1, ArgumentValueError, "cache must be a number of bytes"),
        ({"memory": "x"}, ArgumentValueError, "cache: memory must be a number of bytes"),
        ({"folder": "/x"}, ArgumentValueError, "cache: a folder needs memory, too"),
        ({"memory": 1, "folder": 5}, ArgumentTypeError, "cache: folder must be a path, not int"),
        ({"memory": 1, "fodler": "/x"}, ArgumentTypeError, "not 'fodler'"),
    ],
)
def test_options_that_make_no_sense_are_errors(argument: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CacheOptions.from_argument(argument, "cache")
