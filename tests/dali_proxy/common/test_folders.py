"""Folders of servers: what dead ones left behind goes, what others need stays."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from pathlib import Path

from dali_proxy._common.folders import new_folder, remove_dead_folders
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
        assert [folder.exists() for folder in folders] == [False, True, True]  # the third is about to start
        os.utime(folders[2], (0, 0))
        remove_dead_folders()
    assert [folder.exists() for folder in folders] == [False, True, False]
    remove_dead_folders()
    assert not folders[1].exists()
    of_the_user.rmdir()


def test_a_server_that_is_starting_is_taken_for_no_dead_one() -> None:
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
