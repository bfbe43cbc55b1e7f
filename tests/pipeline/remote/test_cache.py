"""The cache on the local disk: its limit, restarts, and concurrent processes."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import resource
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._remote import cache as cache_module
from dali_proxy.pipeline._remote.cache import DiskCache, disk_cache
from pipeline.errors import ArgumentValueError
from tests.forked_while import child_forked_inside

HEAD = 20  # bytes of each file besides its content


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*/*"))


def test_least_recently_used_content_is_evicted(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 10 * (100 + HEAD))
    for number in range(10):
        cache.put(str(number), bytes(100))
        os.utime(cache._path(str(number)), (number, number))  # used long ago
    assert cache.get("0") == bytes(100)
    cache.put("new", bytes(100))
    assert size_of(tmp_path) <= cache.limit
    assert cache.get("0") is not None
    assert cache.get("new") is not None
    assert cache.get("1") is None


def test_content_survives_a_restart_and_damage_is_noticed(tmp_path: Path) -> None:
    DiskCache(tmp_path, 1 << 20).put("key", b"content")
    again = DiskCache(tmp_path, 1 << 20)
    assert again.get("key") == b"content"
    assert {file.stat().st_mode & 0o777 for file in tmp_path.rglob("*") if file.is_file()} == {0o600}
    for damage in (b"", b"conten", b"contenu", b"con\0\0\0\0", bytes(7), b"content!"):
        path = Path(again._path("key"))
        path.write_bytes(path.read_bytes()[:HEAD] + damage)
        assert again.get("key") is None
        again.put("key", b"content")
        assert again.get("key") == b"content"
    another = Path(again._path("another"))
    another.parent.mkdir(exist_ok=True)
    another.write_bytes(path.read_bytes())
    assert again.get("another") is None


def test_content_stays_while_too_many_files_are_open(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1 << 20)
    cache.put("key", b"content")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        found = cache.get("key")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert found is None
    assert cache.get("key") == b"content"


def test_files_of_the_user_in_the_folder_are_neither_counted_nor_evicted(tmp_path: Path) -> None:
    foreign = [tmp_path / name for name in ("notes.txt", "photos/1.jpg", "ab/1.jpg", f"photos/{64 * 'a'}", "ab/1.tmp")]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(5000))
        os.utime(path, (0, 0))
    cache = DiskCache(tmp_path, 250)
    for number in range(4):
        assert cache.put(str(number), bytes(80)), number
    assert [path.stat().st_size for path in foreign] == [5000] * len(foreign)
    assert int((tmp_path / "total").read_text()) <= 250


@pytest.mark.parametrize("seconds", [0, 10**6], ids=["now", "clock set back"])
def test_abandoned_files_and_a_lost_counter_are_cleaned_up(seconds: int, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1000)
    cache.put("key", bytes(100))
    left = Path(f"{cache._path('left')}.1-1.tmp")
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(bytes(700))
    os.utime(left, (time.time() + seconds,) * 2)
    (tmp_path / "total").write_text("?")
    cache.put("other", bytes(300))
    assert not left.exists()
    assert cache.get("key") == bytes(100)
    assert cache.get("other") == bytes(300)


def test_process_that_ends_in_a_reservation_does_not_raise_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(tmp_path, 1000)
    truncate = os.truncate

    def truncate_and_end(file: int, size: int) -> None:
        truncate(file, size)
        raise SystemExit

    cache.put("first", bytes(300))
    for number in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(os, "truncate", truncate_and_end)
            with pytest.raises(SystemExit):
                cache.put(f"lost {number}", bytes(300))
        cache.put(str(number), bytes(300))
        assert size_of(tmp_path) <= cache.limit


def _stop_while_writing(folder: Path, size: int) -> None:
    """Write a file, but stop this process when its space is reserved."""

    def stop_and_pack(*values: Any) -> bytes:
        os.kill(os.getpid(), signal.SIGSTOP)
        return head.pack(*values)

    head = cache_module._HEAD
    cache_module._HEAD = SimpleNamespace(size=head.size, pack=stop_and_pack)
    DiskCache(folder, 1000).put("another", bytes(size))


@pytest.mark.parametrize("seconds", [0, -(10**6)], ids=["now", "clock set forward"])
def test_file_that_another_process_writes_is_not_evicted(seconds: int, tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1000)
    cache.put("old", bytes(300))
    writer = multiprocessing.get_context("fork").Process(target=_stop_while_writing, args=(tmp_path, 500 - HEAD))
    writer.start()
    assert writer.pid is not None
    os.waitpid(writer.pid, os.WUNTRACED)
    (being_written,) = tmp_path.glob("*/*.tmp")
    os.utime(being_written, (time.time() + seconds,) * 2)
    (tmp_path / "total").unlink()
    for key, size, found in (("large", 600, [300, 0, 0]), ("small", 300, [0, 0, 300])):
        cache.put(key, bytes(size))
        assert being_written.exists()
        assert size_of(tmp_path) <= cache.limit
        assert [len(cache.get(each) or b"") for each in ("old", "large", "small")] == found
    os.kill(writer.pid, signal.SIGCONT)
    writer.join()
    assert [len(cache.get(each) or b"") for each in ("another", "small")] == [500 - HEAD, 300]


def test_forked_child_does_not_keep_the_cache_locked(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1000)
    with child_forked_inside(cache._locked()), open(tmp_path / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if it is locked


def test_content_larger_than_the_cache_is_not_stored(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 100)
    cache.put("key", bytes(100))
    assert cache.get("key") is None


def test_unusable_folder_does_not_fail_reads(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = DiskCache(tmp_path / "file", 1000)
    with pytest.warns(RuntimeWarning, match="the cache .* isn't used"):
        cache.put("key", b"content")
    assert cache.get("key") is None


def test_full_disk_leaves_no_descriptor(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1 << 20)
    cache.put("small", b"content")
    before = len(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, limits[1]))
    try:
        with pytest.warns(RuntimeWarning, match="isn't used: .*too large"):
            cache.put("large", bytes(1 << 13))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(os.listdir("/proc/self/fd")) == before
    assert (cache.get("small"), cache.get("large")) == (b"content", None)
    assert not [*tmp_path.glob("*/*.tmp")]


def _use(folder: Path, limit: int, number: int, most: multiprocessing.Queue[int]) -> None:
    cache, largest = DiskCache(folder, limit), 0
    rng = np.random.default_rng(number)
    for step, key in enumerate(rng.integers(0, 60, 80).tolist()):
        content = str(key).encode() * (20 + key)
        found = cache.get(str(key))
        assert found is None or found == content
        cache.put(str(key), content)
        if step % 8 == 0:
            with cache._locked():  # no file is renamed, removed or reserved meanwhile
                largest = max(largest, size_of(folder))
    most.put(largest)


def test_processes_share_a_cache_within_its_limit(tmp_path: Path) -> None:
    limit = 2000
    context = multiprocessing.get_context("fork")
    most: multiprocessing.Queue[int] = context.Queue()
    processes = [context.Process(target=_use, args=(tmp_path, limit, number, most)) for number in range(3)]
    for process in processes:
        process.start()
    largest = [most.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert 0 < max(largest) <= limit
    assert 0 < size_of(tmp_path) <= limit
    assert not [*tmp_path.glob("*/*.tmp")]


def test_environment_selects_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk_cache() is None
    monkeypatch.setenv("DALI_PROXY_CACHE", str(tmp_path))
    monkeypatch.setenv("DALI_PROXY_CACHE_BYTES", "2G")
    chosen = disk_cache()
    assert chosen is not None
    assert (chosen.folder, chosen.limit) == (tmp_path, 2 << 30)
    monkeypatch.setenv("DALI_PROXY_CACHE_BYTES", "much")
    with pytest.raises(ArgumentValueError, match="DALI_PROXY_CACHE_BYTES must be a number"):
        disk_cache()
