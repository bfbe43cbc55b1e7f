"""``dali-proxy preview``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dali_proxy._cli.command import Command, CommandError
from dali_proxy._cli.numbers import number
from dali_proxy._cli.progress import progress
from dali_proxy._cli.targets import add_inputs, add_target, input_values, load_pipeline


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    add = parser.add_argument
    add("folder", metavar="FOLDER", type=Path, nargs="?", help="folder of images; none for a pipeline that reads files")
    add_inputs(parser)
    add("--output", type=Path, default=Path("preview.png"), help="image file to write (default: %(default)s)")
    add("--images", type=number(1), default=8, help="number of files (default: %(default)s)")
    add("--draws", type=number(1), help="results for each file (default: 4, or 1 without random numbers)")
    add(
        "--size",
        type=number(1),
        default=256,
        help="longest side of an image in the sheet, in pixels (default: %(default)s)",
    )


def _execute(options: argparse.Namespace) -> int:
    from PIL import Image

    from dali_proxy.pipeline._definition.file_inputs import find_images

    folder: Path | None = options.folder
    pipe = load_pipeline(options, folder)
    if not options.output.suffix or not options.output.parent.is_dir():
        raise CommandError(f"can't write {options.output}: it needs a suffix and an existing folder", status=2)
    if Image.registered_extensions().get(options.output.suffix.lower()) not in Image.SAVE:
        raise CommandError(f"can't write {options.output}: use a suffix of an image format, such as .png", status=2)
    values = input_values(options)
    files: Any = None
    if pipe.input_names:
        if folder is None:
            raise CommandError("the pipeline has inputs, so it needs a FOLDER of images", status=2)
        files = progress(find_images(folder, options.images), "images")
    pipe.preview(files, images=options.images, draws=options.draws, size=options.size, path=options.output, **values)
    print(f"Saved {options.output}.")
    return 0


COMMAND = Command("save an image of what a pipeline makes of a folder", _execute, _add_arguments)
