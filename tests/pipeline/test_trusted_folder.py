"""Caches that another user could have written aren't used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dali_proxy.pipeline._cuda.kernel_cache import guard_disk_cache
from dali_proxy.pipeline._remote import cache
from dali_proxy.pipeline._trusted_folder import distrust

OTHER_USER = 65534


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o775])
def test_own_folder_is_trusted(mode: int, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    assert distrust(tmp_path / "cache") == ""


def test_missing_folder_is_created_for_this_user(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        assert distrust(tmp_path / "cache") == ""
    finally:
        os.umask(umask)
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("mode", "inner"), [(0o777, ""), (0o1777, ""), (0o777, "inner")])
def test_folder_that_others_may_change_is_not_trusted(mode: int, inner: str, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    assert distrust(tmp_path / "cache" / inner) == f"other users may write to {tmp_path / 'cache'}"


def test_folder_in_a_sticky_one_is_trusted(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert distrust(tmp_path / "cache") == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give folders away")
def test_folder_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    os.chown(tmp_path / "cache", OTHER_USER, OTHER_USER)
    (tmp_path / "link").symlink_to("cache")
    assert distrust(tmp_path / "link") == f"{tmp_path / 'cache'} belongs to another user (user ID {OTHER_USER})"


def test_content_that_another_user_stored_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.DiskCache(tmp_path, 1000).put("s3://bucket/labels", b"false")
    tmp_path.chmod(0o777)
    monkeypatch.setenv("DALI_PROXY_CACHE", str(tmp_path))
    with pytest.warns(RuntimeWarning, match=r"the cache .* isn't used: other users may write to"):
        assert cache.disk_cache() is None


def test_kernels_are_compiled_in_memory_if_others_may_write_to_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "0")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    guard_disk_cache.cache_clear()
    guard_disk_cache()
    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "0"
    tmp_path.chmod(0o777)
    guard_disk_cache.cache_clear()
    with pytest.warns(RuntimeWarning, match="the kernel cache isn't used"):
        guard_disk_cache()
    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "1"
