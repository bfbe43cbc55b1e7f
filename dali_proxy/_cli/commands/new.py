"""``dali-proxy new``."""

from __future__ import annotations

import argparse
from pathlib import Path

from dali_proxy._cli.command import Command, CommandError

_DESCRIPTION = """\
Write a training script of one file, FOLDER/train.py, to change into your own. It has a dataset, the pipelines, a small
network, validation, checkpoints and resuming. It runs at once: without --data, it generates some."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    from dali_proxy._new import FRAMEWORKS, KINDS

    add = parser.add_argument
    add("kind", metavar="KIND", choices=KINDS, help=f"what to train: {', '.join(KINDS)}")
    add("folder", metavar="FOLDER", type=Path, help="where to write train.py; a missing folder is created")
    add("--framework", choices=FRAMEWORKS, default="torch", help="the training loop (default: %(default)s)")


def _execute(options: argparse.Namespace) -> int:
    from dali_proxy._new import write_script

    script = options.folder / "train.py"
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        write_script(script, options.kind, options.framework)
    except FileExistsError:
        raise CommandError(f"{script} exists already: name another folder", status=2) from None
    print(f"Wrote {script}. Run it with: python {script}")
    return 0


COMMAND = Command("write a training script to start from", _execute, _add_arguments, description=_DESCRIPTION)
