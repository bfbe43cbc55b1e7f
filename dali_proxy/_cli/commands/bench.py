"""``dali-proxy bench``."""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
from pathlib import Path

from dali_proxy._cli.command import Command, CommandError

__all__ = ["COMMAND"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repository",
        nargs=argparse.REMAINDER,
        required=True,
        metavar="OPTION",
        help="run the benchmarks of the repository, from a checkout, with their own options (--repository --help)",
    )


def _execute(options: argparse.Namespace) -> int:
    """Run the benchmarks, which only the repository has, not the installed package."""
    sys.path.insert(0, str(Path.cwd()))
    if importlib.util.find_spec("benchmarks") is None:
        raise CommandError("--repository needs a checkout of the repository, which has the benchmarks")
    sys.argv = ["dali-proxy bench", *options.repository]
    runpy.run_module("benchmarks", run_name="__main__", alter_sys=False)
    return 0


COMMAND = Command("compare this loader's speed with others (in a checkout of the repository)", _execute, _add_arguments)
