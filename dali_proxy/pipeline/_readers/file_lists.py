"""Lists files: by folder, by glob pattern, or from a text file with one path per line."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._imaging.formats import FORMATS
from dali_proxy.pipeline._remote.data_file import open_text
from dali_proxy.pipeline._remote.reading import url_names
from dali_proxy.pipeline._remote.request_limit import MOST_REQUESTS
from dali_proxy.pipeline._remote.urls import is_url, local_path
from dali_proxy.pipeline.errors import BuildError

#: Patterns of the files that DALI recognises as images and as sounds.
IMAGES = tuple(f"*{extension}" for each in FORMATS if each.listed for extension in each.extensions)
SOUNDS = ("*.flac", "*.ogg", "*.wav")

_ANY = re.compile("")


def matcher(patterns: Sequence[str], case_sensitive: bool) -> re.Pattern[str]:
    """Compile glob patterns into one expression that matches a name if any of them does.

    Example:
        >>> bool(matcher(["*.jpg", "[ab]?.png"], case_sensitive=False).match("X.JPG"))
        True
    """
    return re.compile("|".join(map(fnmatch.translate, patterns)), 0 if case_sensitive else re.IGNORECASE)


def list_folders(root: str, fits: re.Pattern[str] = _ANY) -> list[str]:
    """Return the sorted names of the matching folders in a folder, including links to folders.

    Raises:
        BuildError: the folder can't be read, or the target of a matching link is missing.
    """
    return _names(root, fits, folders=True)


def list_files(folder: str, fits: re.Pattern[str]) -> list[str]:
    """Return the sorted names of the matching files in a folder, including links to files.

    Raises:
        BuildError: the folder can't be read, or the target of a matching link is missing.
    """
    return _names(folder, fits, folders=False)


def list_files_of(root: str, folders: Sequence[str], fits: re.Pattern[str]) -> list[list[str]]:
    """Return the result of `list_files` for folders in a folder. Remote folders are listed many at once.

    Raises:
        BuildError: a folder can't be read, or the target of a matching link is missing.
    """
    found: list[list[str]] = [[]] * len(folders)

    def list_one(number: int) -> None:
        found[number] = list_files(os.path.join(root, folders[number]), fits)

    if is_url(root) and folders:
        with ThreadPool(min(len(folders), MOST_REQUESTS), f"{THREAD_PREFIX}remote") as pool:
            errors = pool.run(list_one, len(folders))
    else:
        errors = ThreadPool.run_here(list_one, len(folders))
    if errors:
        raise errors[0][1]
    return found


def _names(folder: str, fits: re.Pattern[str], folders: bool) -> list[str]:
    if is_url(folder):
        return [name for name in url_names(folder, folders) if fits.match(name)]
    names = []
    try:
        with os.scandir(local_path(folder)) as found:
            for item in found:
                if not fits.match(item.name):
                    continue
                if item.is_dir() if folders else item.is_file():
                    names.append(item.name)
                elif item.is_symlink() and item.name[0] != "." and not os.path.exists(item.path):  # .#: of editors
                    raise BuildError(f"the target of the link {item.path!r} is missing: {os.readlink(item.path)!r}")
        return sorted(names)
    except OSError as error:
        raise BuildError(f"can't list the folder {folder!r}: {error.strerror or error}") from error


def read_file_list(path: str) -> list[str]:
    """Return all lines of a `file_list`, which end with LF or CR LF. File names don't have to be valid UTF-8.

    Raises:
        BuildError: the file can't be read.
    """
    try:
        with open_text(path, errors="surrogateescape", newline="\n") as file:
            return [line.removesuffix("\n").removesuffix("\r") for line in file]
    except OSError as error:
        raise BuildError(f"can't read file_list {path!r}: {error.strerror or error}") from error
