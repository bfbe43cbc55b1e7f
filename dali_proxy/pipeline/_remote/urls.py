"""Recognizes URLs among paths."""

from __future__ import annotations

import os
import re

SCHEME_OF_FILES = "file://"

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
