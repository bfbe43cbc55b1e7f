"""Runs a script that was written for NVIDIA DALI, unchanged."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from dali_proxy._nvidia.install import install_as_nvidia_dali

__all__ = ["run_script"]


def run_script(script: str, arguments: Sequence[str] = (), *, module: bool = False) -> None:
    """Run a script as `python script arguments...` would, with our modules in the place of `nvidia.dali`.

    This process becomes the script's: its `sys.argv`, `sys.path` and `__main__` are what Python would have made.

    Args:
        script: the path of a file or folder, or with `module` a module's name, as for `python -m`.
        arguments: what the script gets.
        module: whether `script` names a module.

    Raises:
        ImportError: there is no such module, or NVIDIA's package is imported already.
        SystemExit: the script ended itself.

    Example:
        >>> run_script("train.py", ["--epochs", "3"])  # doctest: +SKIP
    """
    install_as_nvidia_dali()
    sys.argv = [script, *arguments]
    if not getattr(sys.flags, "safe_path", False):  # with `python -P`, the first entry is another one
        sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.abspath(script))
    if module:
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(script, run_name="__main__")
