"""``dali-proxy graph``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from dali_proxy._cli.command import Command, CommandError
from dali_proxy._cli.progress import progress
from dali_proxy._cli.targets import add_inputs, add_target, input_values, load_pipeline

if TYPE_CHECKING:
    from dali_proxy.pipeline import Pipeline

_FORMATS = ("text", "svg", "mermaid", "dot", "json")
_SUFFIXES = {".svg": "svg", ".mmd": "mermaid", ".dot": "dot", ".gv": "dot", ".json": "json"}
_BATCHES = 10

_DESCRIPTION = """\
Show the graph of a pipeline, and how the compiler runs it.

With a folder of images, or with --times for a pipeline that reads files itself, ten batches run, and each operator
gets its processor time."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    add = parser.add_argument
    add("folder", metavar="FOLDER", type=Path, nargs="?", help="folder of images, to measure times")
    add_inputs(parser)
    add("--times", action="store_true", help="measure times of a pipeline that reads files itself")
    add("--format", choices=_FORMATS, help="default: by the suffix of --output, else text")
    add("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    add("--output", type=Path, help="file to write (default: standard output)")


def _execute(options: argparse.Namespace) -> int:
    values = input_values(options)
    pipe = load_pipeline(options, options.folder)
    if options.output is not None and not options.output.parent.is_dir():
        raise CommandError(f"the folder of {options.output} doesn't exist", status=2)
    times = _times(pipe, options.folder, values) if options.folder is not None or options.times else None
    suffix = "" if options.output is None else options.output.suffix
    content = _content(pipe, times, options.format or _SUFFIXES.get(suffix, "text"))
    if options.output is None:
        print(content, end="")
    else:
        options.output.write_text(content, encoding="utf-8")
        print(f"Saved {options.output}.")
    return 0


def _times(pipe: Pipeline, folder: Path | None, values: dict[str, object]) -> dict[int, float]:
    from dali_proxy.pipeline._definition.file_inputs import find_images
    from dali_proxy.pipeline._definition.measuring import measure_operators

    if pipe.input_names and folder is None:
        raise CommandError("the pipeline has inputs, so --times needs a FOLDER of images", status=2)
    files = find_images(folder) if pipe.input_names and folder is not None else []
    return measure_operators(pipe, files, values, progress(range(_BATCHES), "batches"))


def _content(pipe: Pipeline, times: dict[int, float] | None, form: str) -> str:
    from dali_proxy.pipeline._graph.drawing import draw

    graph = pipe._internals.graph
    if form == "json":
        nodes = [
            {
                "number": node.index,
                "operator": node.operator,
                "name": node.name,
                "device": node.device,
                "file": node.location.file,
                "line": node.location.line,
                "inputs": [list(edge) for edge in node.inputs],
                "argument_inputs": {name: list(edge) for name, edge in node.argument_inputs.items()},
                "milliseconds_per_sample": None if times is None else times.get(node.index),
            }
            for node in graph.nodes
        ]
        outputs = [list(edge) for edge in graph.outputs]
        return json.dumps({"nodes": nodes, "outputs": outputs, "program": pipe.explain()}, indent=2) + "\n"
    drawing = draw(graph, use_colors=True, times=times)
    if form == "text":
        return f"{drawing.text}\nprogram:\n{pipe.explain()}\n"
    return drawing.svg() if form == "svg" else getattr(drawing, form)


COMMAND = Command("show the graph of a pipeline, with times and how it runs", _execute, _add_arguments, _DESCRIPTION)
