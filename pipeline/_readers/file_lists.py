"""Reads and lists files."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline.errors import BuildError, PipelineError

__all__ = ["PICTURES", "SOUNDS", "list_files", "list_folders", "matcher", "read_file", "read_file_list"]

#: Patterns of the files that DALI takes for pictures, and for sounds.
PICTURES = (
    *("*.jpg", "*.jpeg", "*.png", "*.bmp", "*.tif", "*.tiff"),
    *("*.pnm", "*.ppm", "*.pgm", "*.pbm", "*.jp2", "*.webp"),
)
SOUNDS = ("*.flac", "*.ogg", "*.wav")


def read_file(path: str) -> npt.NDArray[np.uint8]:
    """Return the contents of a file, read into memory of its size.

    Raises:
        PipelineError: it can't be read; the message names it.
    """
    if not path:
        raise PipelineError("the path of the file is empty")
    try:
        with open(path, "rb", buffering=0) as file:
            content = np.empty(os.fstat(file.fileno()).st_size, np.uint8)
            count = 0
            while count < content.size:
                read = file.readinto(content[count:].data)
                if not read:
                    raise PipelineError(f"the file {path!r} became shorter while it was read")
                count += read
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a path with a zero byte
        raise PipelineError(f"can't read the file {path!r}: {getattr(error, 'strerror', None) or error}") from error
    return content


def matcher(patterns: Sequence[str], case_sensitive: bool) -> re.Pattern[str]:
    """Return what matches the names that fit one of several glob patterns.

    Example:
        >>> bool(matcher(["*.jpg", "[ab]?.png"], case_sensitive=False).match("X.JPG"))
        True
    """
    return re.compile("|".join(map(fnmatch.translate, patterns)), 0 if case_sensitive else re.IGNORECASE)


def list_folders(root: str) -> list[str]:
    """Return the names of the folders in a folder, links to folders included, sorted.

    Raises:
        BuildError: it can't be read.
    """
    return _names(root, folders=True)


def list_files(folder: str, fits: re.Pattern[str]) -> list[str]:
    """Return the names of the files in a folder that fit, links to files included, sorted.

    Raises:
        BuildError: it can't be read.
    """
    return [name for name in _names(folder, folders=False) if fits.match(name)]


def _names(folder: str, folders: bool) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return sorted(item.name for item in found if (item.is_dir() if folders else item.is_file()))
    except OSError as error:
        raise BuildError(f"can't list the folder {folder!r}: {error.strerror or error}") from error


def read_file_list(path: str) -> list[str]:
    """Return the lines of a `file_list`, empty ones too; names of files may be no UTF-8.

    Raises:
        BuildError: it can't be read.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError as error:
        raise BuildError(f"can't read file_list {path!r}: {error.strerror or error}") from error
