"""Execution of unchanged scripts that were written for NVIDIA DALI."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from typing import Literal

from dali_proxy._nvidia.install import install_as_nvidia_dali


def run_script(
    script: str,
    arguments: Sequence[str] = (),
    *,
    module: bool = False,
    device: Literal["cpu", "gpu"] | None = None,
) -> None:
    """Run a script like `python script arguments...`, with dali-proxy's modules in place of `nvidia.dali`.

    The script gets `sys.argv`, `sys.path` and `__main__` as if Python had started it.

    Args:
        script: path of a file or folder, or with `module` the name of a module, as for `python -m`.
        arguments: the script's command-line arguments.
        module: whether `script` is the name of a module.
        device: device of the pipelines, as for `install_as_nvidia_dali`.

    Raises:
        ImportError: there is no such module, or NVIDIA's package was already imported.
        SystemExit: the script called `sys.exit`.

    Example:
        >>> run_script("train.py", ["--epochs", "3"])  # doctest: +SKIP
    """
    install_as_nvidia_dali(device)
    sys.argv = [script, *arguments]
    if not getattr(sys.flags, "safe_path", False):  # with `python -P`, the first entry isn't the script's folder
        sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(script))
    if module:
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(os.path.abspath(script), run_name="__main__")
