"""``dali-proxy run``."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from dali_proxy._cli.command import Command

_DESCRIPTION = """\
Run a script that was written for NVIDIA DALI, unchanged: its `import nvidia.dali` gets dali-proxy's modules, even in
processes that it starts.

With --device cpu, a script for a GPU runs on a machine without one. Operators with device="gpu" or "mixed" run on the
CPU, .gpu() copies nothing, device_id is ignored, and outputs are CPU tensors. Each pipeline warns once and lists what
changed. The script's own calls of torch, such as model.cuda(), stay as they are."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--device",
        choices=("cpu", "gpu"),
        help="cpu: run pipelines for a GPU on the CPU; gpu: on the devices that they declare (default: the environment "
        "variable DALI_PROXY_DEVICE, else gpu)",
    )
    add("-m", dest="module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    add("script", metavar="SCRIPT", help="the script; its `import nvidia.dali` gets our modules")
    rest = add("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="arguments of SCRIPT")
    rest.required = False  # otherwise the error about a missing SCRIPT names it, too


def _execute(options: argparse.Namespace) -> int:
    from dali_proxy._nvidia.run import run_script

    if not options.module and not Path(options.script).exists():
        print(f"dali-proxy run: the script {options.script!r} doesn't exist", file=sys.stderr)
        return 2
    if options.module and not _is_module(options.script):
        print(f"dali-proxy run: there is no module {options.script!r}", file=sys.stderr)
        return 2
    run_script(options.script, options.arguments, module=options.module, device=options.device)
    return 0


def _is_module(name: str) -> bool:
    """Return whether there is a module or package that `python -m name` could run, here or installed."""
    package = name.partition(".")[0]
    return bool(find_spec(package) or PathFinder.find_spec(package, [os.getcwd()]))


COMMAND = Command(
    "run a script that was written for NVIDIA DALI",
    _execute,
    _add_arguments,
    description=_DESCRIPTION,
    usage="%(prog)s [-h] [--device {cpu,gpu}] [-m] SCRIPT [ARGUMENT ...]",
    handles_interrupts=True,
)
