"""``dali-proxy demo``."""

from __future__ import annotations

import argparse
from pathlib import Path

from dali_proxy._cli.command import Command, CommandError
from dali_proxy._cli.numbers import number


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--device", default="auto", help="auto (default), cpu, or cuda:0")
    add("--data", type=Path, help="use the images in this folder, or write them there if it has none")
    add("--keep", action="store_true", help="don't remove the images at the end")
    add("--picture", type=Path, help="where to save an image of a batch (default: dali-proxy-demo.png)")
    add("--epochs", type=number(1), help="number of passes over the images (default: 12)")
    add("--workers", type=number(0), help="dataset worker processes (default: 2)")


def _execute(options: argparse.Namespace) -> int:
    from dali_proxy._demo import Settings, run_demo

    options_by_name = {
        "device": options.device,
        "data": options.data,
        "keep": options.keep,
        "picture": options.picture,
        "epochs": options.epochs,
        "num_workers": options.workers,
    }
    try:
        run_demo(Settings(**{name: value for name, value in options_by_name.items() if value is not None}))
    except (FileNotFoundError, ValueError) as error:
        raise CommandError(str(error)) from error
    return 0


COMMAND = Command("train a small network on real images, in under two minutes", _execute, _add_arguments)
