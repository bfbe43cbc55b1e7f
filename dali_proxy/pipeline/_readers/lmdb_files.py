"""LMDB databases whose entries are read in the order of their keys."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline._optional import optional_package
from dali_proxy.pipeline._readers.arguments import READER_ARGUMENTS
from dali_proxy.pipeline._readers.loader import Loader
from dali_proxy.pipeline._remote.urls import is_url
from dali_proxy.pipeline.errors import ArgumentValueError, BuildError, InputError
from dali_proxy.pipeline.tensors.cpu import Array

#: Arguments of readers of LMDB databases.
LMDB_ARGUMENTS: tuple[Argument, ...] = (
    Argument("path", Kind.STRINGS, "Paths of the databases: folders with a file data.mdb.", REQUIRED),
    *READER_ARGUMENTS,
)

_lock = new_lock(Level.LEAF, "LMDB databases")  # guards `_opened`
#: Open databases by process and path, with the number of their users: LMDB refuses to open a database twice.
_opened: dict[tuple[int, str], tuple[Any, int]] = {}


class LmdbLoader(Loader):
    """Reads entries of several databases. A format implements `parse`."""

    random_access = False

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._lmdb = optional_package("lmdb", "reading LMDB databases", "lmdb")
        self._paths = node.argument("path")
        if not self._paths:
            raise ArgumentValueError("argument 'path' is an empty list")
        for path in self._paths:
            if is_url(path):
                raise ArgumentValueError(f"LMDB reads only local files: copy {path!r} to a local disk")
        self._databases: list[Any] = []
        self._held: list[tuple[int, str]] = []
        self._keys: list[tuple[int, bytes]] = []  # the database and the key of each entry

    @abstractmethod
    def parse(self, value: memoryview) -> tuple[Array, ...]:
        """Return the outputs for an entry.

        Raises:
            ValueError: the entry is damaged.
        """

    def open(self) -> int:
        for number, path in enumerate(self._paths):
            file = path if os.path.isfile(path) else os.path.join(path, "data.mdb")
            if os.path.exists(file) and not os.path.isfile(file):  # LMDB would wait for the writer of a named pipe
                raise BuildError(f"can't read the LMDB database {path!r}: {file!r} isn't a regular file")
            try:
                database = self._acquire(path)
                with database.begin() as transaction:
                    self._keys += [(number, key) for key in transaction.cursor().iternext(values=False)]
            except self._lmdb.Error as error:
                raise BuildError(f"can't read the LMDB database {path!r}: {error}") from error
            self._databases.append(database)
        if not self._keys:
            raise BuildError(f"no entries in {', '.join(map(repr, self._paths))}")
        return len(self._keys)

    def read(self, entry: int) -> tuple[Array, ...]:
        number, key = self._keys[entry]
        try:
            with self._databases[number].begin() as transaction:
                return self.parse(memoryview(transaction.get(key)))
        except (ValueError, TypeError, OverflowError, self._lmdb.Error) as error:
            raise InputError(f"the entry {self.source_info(entry)} can't be read: {error}") from error

    def source_info(self, entry: int) -> str:
        number, key = self._keys[entry]
        return f"{self._paths[number]} at key {key.decode(errors='replace')}"

    def close(self) -> None:
        self._databases.clear()
        while self._held:
            key = self._held.pop()
            with _lock:
                database, users = _opened.pop(key)
                if users > 1:
                    _opened[key] = database, users - 1
                else:
                    database.close()

    def _acquire(self, path: str) -> Any:
        key = os.getpid(), os.path.realpath(path)
        with _lock:
            database, users = _opened.get(key, (None, 0))
            if database is None:
                database = self._lmdb.open(
                    path, readonly=True, lock=False, readahead=False, subdir=not os.path.isfile(path)
                )
            _opened[key] = database, users + 1
            self._held.append(key)
        return database
