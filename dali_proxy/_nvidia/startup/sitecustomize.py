"""Python imports this module at startup if the parent process called `install_as_nvidia_dali`."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _install() -> None:
    """Install the import hook, unless this is another Python without this package."""
    try:
        from dali_proxy._nvidia import install_as_nvidia_dali
    except ImportError:
        return
    install_as_nvidia_dali()


def _run_hidden() -> None:
    """Run the `sitecustomize` module that this one hides."""
    others = [path for path in sys.path if Path(path or os.curdir).resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec(__name__, others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_install()
_run_hidden()
