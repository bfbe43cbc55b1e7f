"""Checks that the tables of launches declare as addresses what their kernels read as pointers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda.compiler import read_source
from dali_proxy.pipeline._cuda.launch import Launch, address_offsets

__all__ = ["check_addresses"]


def check_addresses(launch: Launch) -> None:
    """Compare the declared addresses of a launch with the members of the structs in its .cu file."""
    pointers = _pointers(launch.file)
    for table in launch.tables:
        declared = set(address_offsets(table.dtype))
        for name, offset in _words(table.dtype):
            where = f"{launch.file}: field {name!r} of {table.dtype}"
            assert (offset in declared) == (name in pointers), f"{where}: the kernel's pointers are {sorted(pointers)}"


def _words(kind: np.dtype[Any], name: str = "", begin: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the names and offsets of the integers of 64 bits in a row."""
    if kind.fields is not None:
        for member, (inner, offset, *_) in kind.fields.items():
            yield from _words(inner, member, begin + offset)
    elif kind.subdtype is not None and kind.subdtype[0].fields is not None:
        yield from _words(kind.subdtype[0], name, begin)
    elif kind == np.int64:
        yield name, begin


@cache
def _pointers(file: str) -> set[str]:
    """Return the names of pointers among the members of structs."""
    names: set[str] = set()
    for body in re.findall(r"struct [^;{}]*\{(.*?)\n\};", read_source(file), re.DOTALL):
        for line in re.findall(r"^    (?:const )?\w+ \*.*?;|^    (?:const )?\w+\* .*?;", body, re.MULTILINE):
            names.update(re.findall(r"(\w+)(?=[,;])", line))
    return names
