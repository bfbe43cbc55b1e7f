"""Removal of folders of dead servers, and only of these."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from dali_proxy._common.folders import make_folder, new_folder, remove_dead_folders, remove_folder
from dali_proxy._transport.protocol import CODEC
from pipeline._ipc.connecting import Listener


def test_folders_of_dead_servers_are_removed() -> None:
    folders = [Path(new_folder()) for _ in range(3)]
    for folder in folders:
        folder.mkdir(mode=0o700)
    of_the_user = Path(f"{tempfile.gettempdir()}/dali-proxy-data")
    of_the_user.mkdir()
    os.utime(of_the_user, (0, 0))
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as alive:
        dead.bind(str(folders[0] / "socket"))
        alive.bind(str(folders[1] / "socket"))
        alive.listen()
        dead.close()
        remove_dead_folders()
        assert [folder.exists() for folder in folders] == [False, True, True]  # the server of the third one is starting
        os.utime(folders[2], (0, 0))
        remove_dead_folders()
    assert [folder.exists() for folder in folders] == [False, True, False]
    remove_dead_folders()
    assert not folders[1].exists()
    of_the_user.rmdir()


def test_folders_of_dead_servers_are_removed_from_long_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = Path(new_folder())
    make_folder(str(folder))
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
        make_folder(str(folder))
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
            folder.mkdir(mode=0o700)
            listener = Listener(str(folder / "socket"), b"key", CODEC)
            assert (folder / "socket").exists()
            listener.close()
            folder.rmdir()
    finally:
        over.set()
        others.join()
