"""Checks that installed packages aren't too old: another package may have replaced them by older versions."""

from __future__ import annotations

import re
import sys
from functools import cache

_DISTRIBUTION = "dali-proxy"
NEEDED = (
    "torch", "numpy", "pillow", "psutil", "msgpack", "msgspec", "cloudpickle", "opencv-python-headless", "simplejpeg",
    "tqdm", "deflate", "xxhash",
)  # fmt: skip
"""Distributions that this project always needs."""
_REQUIREMENT = re.compile(r"^Requires-Dist: ([\w.-]+)(?:\[.*?\])?([^;\n]*)", re.MULTILINE)


@cache
def check_requirements() -> None:
    """Check Python, which pip doesn't check in a checkout on the path, and the packages that this project always needs.

    Raises:
        ImportError: Python or packages are too old; the message is one line.
    """
    if sys.version_info[:2] < (3, 10):  # noqa: UP036
        found = ".".join(map(str, sys.version_info[:3]))
        raise ImportError(f"dali-proxy needs Python 3.10 or newer, not {found}", name=_DISTRIBUTION)
    old = [found for name in NEEDED if (found := too_old(name))]
    if old:
        raise ImportError(f"dali-proxy needs {', '.join(old)}: pip install --upgrade dali-proxy", name=_DISTRIBUTION)


@cache
def too_old(name: str) -> str:
    """Return the versions of a package that work and the installed one, if that isn't one; else an empty string."""
    name = name.replace("_", "-")
    bound, *broken = _bounds().get(name, [""])
    found = re.search("^Version: (.+)$", _metadata(name), re.MULTILINE)
    if not bound or found is None or (_numbers(found[1]) >= _numbers(bound) and found[1] not in broken):
        return ""
    others = f" except {' and '.join(broken)}" if broken else ""
    return f"{name} {bound} or newer{others}, not {found[1]}"


@cache
def _bounds() -> dict[str, list[str]]:
    """Return the lowest version of each package, then those that don't work. A checkout may have no metadata."""
    found = _REQUIREMENT.findall(_metadata(_DISTRIBUTION))
    lowest = {name: re.findall(r">=([\d.]+)", versions) for name, versions in found}
    return {name: [*lowest[name], *re.findall(r"!=([\d.]+)", versions)] for name, versions in found if lowest[name]}


def _metadata(name: str) -> str:
    """Return the metadata of a distribution, unparsed because that takes milliseconds; an empty string without it."""
    from importlib import metadata  # its import is slow, and a server's process asks only when something is missing

    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return ""
    return found.read_text("METADATA") or found.read_text("PKG-INFO") or ""  # the latter in a checkout


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", re.split("[a-z+]", version, maxsplit=1)[0])))
