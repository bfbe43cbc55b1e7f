"""Functions of `nvidia.dali.sysconfig`: flags for compilers, which this project can't provide."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from dali_proxy.pipeline.errors import BuildError

__all__ = ["get_compile_flags", "get_include_dir", "get_include_flags", "get_lib_dir", "get_link_flags"]


def get_lib_dir() -> str:
    """Return the folder of this project's libraries."""
    return str(Path(__file__).resolve().parents[1])


def get_include_dir() -> NoReturn:
    """Raise an error: there are no C++ headers.

    Raises:
        BuildError: always.
    """
    raise BuildError(
        "dali-proxy has no C++ interface, so there are no headers to compile operators with: use fn.python_function, "
        "or add an operator (docs/new-operator.md)"
    )


get_compile_flags = get_include_flags = get_link_flags = get_include_dir
