"""The folder for the names of servers: only the user's own, closed to others."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from dali_proxy._common.named_sockets import locked_folder, named_socket
from dali_proxy.errors import ProxyError
from tests.forked_while import child_forked_inside


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "dali-proxy"


def test_folder_is_created_for_the_user_alone(runtime: Path) -> None:
    old = os.umask(0)
    try:
        assert named_socket("a") == str(runtime / "a")
    finally:
        os.umask(old)
    assert runtime.stat().st_mode & 0o777 == 0o700


def test_folder_is_in_the_temporary_folder_without_a_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert named_socket("a") == str(tmp_path / f"dali-proxy-uid{os.getuid()}" / "a")


def test_folder_of_another_user_is_refused(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.mkdir(mode=0o700)
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    with pytest.raises(ProxyError, match="belongs to another user"):
        named_socket("a")


def test_folder_that_others_may_open_is_refused(runtime: Path) -> None:
    runtime.mkdir()
    runtime.chmod(0o770)
    with pytest.raises(ProxyError, match="other users may open the folder"):
        named_socket("a")


def test_link_to_a_folder_is_refused(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    runtime.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProxyError, match="isn't a folder"):
        named_socket("a")


def test_forked_child_does_not_keep_the_folder_locked(tmp_path: Path) -> None:
    with child_forked_inside(locked_folder(str(tmp_path / "a"))):
        folder = os.open(tmp_path, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if it is locked
        os.close(folder)
