"""Readers of files: from a folder, a list, or a text file."""

from __future__ import annotations

import os

from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline._readers.file_lists import list_files, list_files_of, list_folders, matcher, read_file_list
from dali_proxy.pipeline._readers.loader import FilesLoader
from dali_proxy.pipeline._remote.urls import is_url, join
from dali_proxy.pipeline.errors import ArgumentValueError, BuildError


def listing_arguments(file_filter: str) -> tuple[Argument, ...]:
    """Return the arguments that select the files, given the default pattern of their names."""
    return (
        Argument(
            "file_root",
            Kind.STRING,
            "Folder of the files; or the folder that `files` and `file_list` are relative to.",
        ),
        Argument("files", Kind.STRINGS, "Paths of the files."),
        Argument(
            "file_list",
            Kind.STRING,
            "Text file with a path on each line. Paths are relative to `file_root`, by default to the folder of this "
            "text file.",
        ),
        Argument("file_filter", Kind.STRING, "Glob pattern of file names in `file_root`.", file_filter),
    )


class ListedFilesLoader(FilesLoader):
    """Lists the files that the arguments of `listing_arguments` select."""

    #: Whether `parse` gets whole files; otherwise `read` reads each entry.
    whole = False

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        argument = node.argument
        if argument("files") is not None and argument("file_list") is not None:
            raise ArgumentValueError("File paths can be provided through ``files`` or ``file_list`` but not both")
        if argument("files") is None and argument("file_list") is None and argument("file_root") is None:
            raise ArgumentValueError("``file_root`` argument is required when not using ``files`` or ``file_list``")
        self._root = ""
        self._paths: list[str] = []  # relative to the root where they aren't absolute

    def open(self) -> int:
        argument = self.node.argument
        self._root = argument("file_root") or ""
        if argument("files") is not None:
            self._paths = [*argument("files")]
        elif argument("file_list") is not None:
            lines = read_file_list(argument("file_list"))
            self._root = self._root or os.path.dirname(argument("file_list"))
            self._paths = self.parse_lines(lines)
        else:
            self._paths = self.list_tree(self._root)
        if not self._paths:
            raise BuildError(f"no files to read in {argument('file_list') or self._root or 'files'!r}")
        if self.whole:
            self.paths = PathTable.from_paths(self._paths, self._root)
        else:
            self.remote = is_url(self._root) or is_url(self._paths[0])
        return len(self._paths)

    def parse_lines(self, lines: list[str]) -> list[str]:
        """Return the paths in the lines of a `file_list`."""
        return [line for line in lines if line.strip()]

    def list_tree(self, root: str) -> list[str]:
        """Return the paths of the files in a folder and in the folders directly below it."""
        fits = matcher([self.node.argument("file_filter")], True)
        here = "" if is_url(root) else f".{os.sep}"
        names = [f"{here}{name}" for name in list_files(root, fits)]
        folders = list_folders(root)
        for folder, inner in zip(folders, list_files_of(root, folders, fits), strict=True):
            names += [f"{folder}{os.sep}{name}" for name in inner]
        return names

    def path(self, entry: int) -> str:
        """Return the path of a file."""
        return join(self._root, self._paths[entry])

    def source_info(self, entry: int) -> str:
        return self._paths[entry]
