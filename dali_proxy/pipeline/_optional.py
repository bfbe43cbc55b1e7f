"""Optional packages: an error that says how to install them."""

from __future__ import annotations

import importlib
from typing import Any

from dali_proxy.pipeline._requirements import too_old
from dali_proxy.pipeline.errors import BuildError


def optional_package(name: str, purpose: str, extra: str) -> Any:
    """Return a module of a package that not every user has.

    Args:
        name: full name of the module.
        purpose: what the package is needed for, such as "decoding audio".
        extra: extra of this project that installs it.

    Raises:
        BuildError: it can't be imported, or is too old.

    Example:
        >>> optional_package("missing", "decoding audio", "audio")
        Traceback (most recent call last):
        dali_proxy.pipeline.errors.BuildError: decoding audio needs the package 'missing', which can't be ...
    """
    package = name.partition(".")[0]
    try:
        module = importlib.import_module(name)
    except (ImportError, OSError) as error:  # OSError: a wheel without the library that it loads
        raise BuildError(
            f"{purpose} needs the package {package!r}, which can't be imported ({error}): "
            f"pip install 'dali-proxy[{extra}]'"
        ) from error
    if reason := too_old(package):
        raise BuildError(f"{purpose} needs {reason}: pip install --upgrade 'dali-proxy[{extra}]'")
    return module
