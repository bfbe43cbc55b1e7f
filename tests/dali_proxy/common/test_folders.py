"""Removal of folders of dead servers, and only of these."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import stat
import tempfile
import threading
import time
from pathlib import Path

import pytest

from dali_proxy._common.folders import make_folder, new_folder, remove_dead_folders, remove_folder
from dali_proxy._transport.protocol import CODEC
from dali_proxy.pipeline._ipc.connecting import Listener
from tests.forked_while import child_forked_inside


def test_folders_of_dead_servers_are_removed() -> None:
    folders = [Path(new_folder()) for _ in range(3)]
    of_the_user = Path(f"{tempfile.gettempdir()}/dali-proxy-data")
    of_the_user.mkdir()
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as alive:
        for folder, server in zip(folders, (dead, alive), strict=False):
            with make_folder(str(folder)):
                server.bind(str(folder / "socket"))
        alive.listen()
        dead.close()
        with make_folder(str(folders[2])):
            remove_dead_folders()
            assert [folder.exists() for folder in folders] == [False, True, True]  # the third server is starting
        remove_dead_folders()
    assert [folder.exists() for folder in folders] == [False, True, False]
    remove_dead_folders()
    assert not folders[1].exists()
    of_the_user.rmdir()


@pytest.mark.parametrize("seconds", [-(10**6), 0, 10**6], ids=["forward", "unchanged", "back"])
def test_clock_that_is_set_makes_no_folder_look_dead_or_alive(seconds: int) -> None:
    """A time of the folder that lies in the past or the future is what remains of the clock's change."""
    starting, dead = Path(new_folder()), Path(new_folder())
    with make_folder(str(dead)):
        pass
    with make_folder(str(starting)):
        for folder in (starting, dead):
            os.utime(folder, (time.time() + seconds,) * 2)
        remove_dead_folders()
        assert (starting.exists(), dead.exists()) == (True, False)
    remove_dead_folders()
    assert not starting.exists()


def test_folder_of_a_starting_process_that_was_killed_is_removed() -> None:
    folder = Path(new_folder())
    made, stays = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        with make_folder(str(folder)):
            os.write(made[1], b"1")
            os.read(stays[0], 1)
    os.read(made[0], 1)
    remove_dead_folders()
    assert folder.exists()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    remove_dead_folders()
    assert not folder.exists()
    for end in (*made, *stays):
        os.close(end)


def test_forked_child_does_not_keep_a_folder_locked() -> None:
    folder = Path(new_folder())
    with child_forked_inside(make_folder(str(folder))):
        remove_dead_folders()
        assert not folder.exists()


def test_file_system_without_locks_keeps_folders_of_starting_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "network file systems lock no folders")

    monkeypatch.setattr(fcntl, "flock", refuse)
    folders = [Path(new_folder()) for _ in range(2)]
    with socket.socket(socket.AF_UNIX) as dead:
        for folder in folders:
            with make_folder(str(folder)):
                remove_dead_folders()
        dead.bind(str(folders[1] / "socket"))
    remove_dead_folders()
    assert [folder.exists() for folder in folders] == [True, False]
    remove_folder(folders[0])


def test_folders_of_dead_servers_are_removed_from_long_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = Path(new_folder())
    with make_folder(str(folder)):
        listener = Listener(str(folder / "socket"), b"key", CODEC)
    remove_dead_folders()
    assert folder.exists()
    listener.close(unlink=False)
    remove_dead_folders()
    assert not folder.exists()


def test_folder_is_private_and_can_be_removed_with_any_umask() -> None:
    folder = Path(new_folder())
    usual = os.umask(0o777)
    try:
        with make_folder(str(folder)):
            os.umask(usual)
    finally:
        os.umask(usual)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0)
    remove_folder(folder)
    assert not folder.exists()


def test_starting_server_is_not_mistaken_for_a_dead_one() -> None:
    over = threading.Event()

    def others_start() -> None:
        while not over.is_set():
            remove_dead_folders()

    others = threading.Thread(target=others_start)
    others.start()
    try:
        for _ in range(500):
            folder = Path(new_folder())
            with make_folder(str(folder)):
                listener = Listener(str(folder / "socket"), b"key", CODEC)
                assert (folder / "socket").exists()
            listener.close()
            remove_folder(folder)
    finally:
        over.set()
        others.join()
