"""Recognizes URLs among paths."""

from __future__ import annotations

import os
import re
from typing import Any

SCHEME_OF_FILES = "file://"

#: Longest path or URL, in bytes.
LONGEST_PATH = 8192

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(://|::)")


def is_url(path: str) -> bool:
    """Return whether a path is a URL that fsspec reads, such as ``s3://bucket/key``. Local paths aren't.

    Example:
        >>> [is_url(path) for path in ("s3://bucket/a.jpg", "file:///data/a.jpg", "/data/a.jpg")]
        [True, False, False]
    """
    return "://" in path and not path.startswith(SCHEME_OF_FILES) and _URL.match(path) is not None


def local_path(path: str) -> str:
    """Return a path without the scheme of local files."""
    return path.removeprefix(SCHEME_OF_FILES)


def join(root: str, path: str) -> str:
    """Return a path in a folder. Absolute paths and URLs stay as they are."""
    return path if is_url(path) else os.path.join(root, local_path(path))


def path_in(content: Any) -> str | None:
    """Return the path or URL in a uint8 array; None if the array is the content of a file.

    A path has no zero byte, except at its end, and at most `LONGEST_PATH` bytes. Every media file has one near its
    beginning.

    Example:
        >>> import numpy as np
        >>> path_in(np.frombuffer(b"clips/a.mp4", np.uint8)), path_in(np.zeros(4, np.uint8))
        ('clips/a.mp4', None)
    """
    if content.size > LONGEST_PATH:
        return None
    path = content.tobytes().rstrip(b"\0")
    return None if not path or b"\0" in path else os.fsdecode(path)
