"""Hooks that MkDocs runs while it builds the site: they write the list of operators, and add tabs and figures."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from pipeline._catalog import all_schemas
from pipeline._declaration.schema import REQUIRED, Argument, OperatorSchema

#: The end of a page that the operators replace.
OPERATORS = re.compile(r"<!-- operators -->.*", re.DOTALL)
#: A block of Python that a page shows in a tab. Elsewhere, such blocks are shown one after the other.
TAB = re.compile(r'^```python title="(Graph|Function)"\n(.*?^```)$', re.DOTALL | re.MULTILINE)
RESULTS = "benchmarks/results"
#: What operators do, before and after: `python -m docs.images` writes them.
IMAGES = Path(__file__).resolve().parent / "images"


def on_files(files: Files, config: Any) -> Files:
    """Add the figures and pages of benchmark results, which are outside of the documents' folder."""
    results = Path(__file__).resolve().parents[1] / RESULTS
    for file in (*results.glob("*.png"), *results.glob("2*.md")):
        files.append(File.generated(config, f"{RESULTS}/{file.name}", abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Write the operators into their page, turn blocks into tabs, and make links point to the added results."""
    markdown = markdown.replace(f"](../{RESULTS}/", f"]({RESULTS}/").replace(f"](../../{RESULTS}/", f"](../{RESULTS}/")
    markdown = markdown.replace("](../../docs/", "](../../")
    markdown = re.sub(r'^(```python) notest=".*"$', r"\1", markdown, flags=re.MULTILINE)  # an option for the tests
    markdown = TAB.sub(
        lambda block: f'=== "{block[1]}"\n\n' + textwrap.indent(f"```python\n{block[2]}", "    "), markdown
    )
    if not OPERATORS.search(markdown):
        return markdown
    shown = sorted((schema for schema in all_schemas() if not schema.hidden), key=lambda schema: schema.name)
    return OPERATORS.sub(lambda _: "\n\n".join(map(describe, shown)), markdown)


def describe(schema: OperatorSchema) -> str:
    """Describe an operator: its purpose, devices, inputs and arguments."""
    if schema.alias_of is not None:
        return f"### fn.{schema.name}\n\nDeprecated name of `fn.{schema.alias_of}`."
    if schema.function is not None:  # a function with its own docstring; its __module__ is that of `fn`
        written = f"{schema.function.__globals__['__name__']}.{schema.function.__name__}"
        options = "\n      ".join(["    options:", "show_root_heading: false", "show_root_toc_entry: false"])
        return f"### fn.{schema.name}\n\n::: {written}\n{options}"
    inputs = [f"| `{given.name}` | input | | {cell(given.doc)} |" for given in schema.inputs]
    arguments = [f"| `{each.name}` | {kind(each)} | {default(each)} | {cell(each.doc)} |" for each in schema.arguments]
    table = ["| name | type | default | meaning |", "| --- | --- | --- | --- |", *inputs, *arguments]
    parts = [f"### fn.{schema.name}", schema.doc, f"Devices: {', '.join(schema.devices)}."]
    if (IMAGES / f"{schema.name}.jpg").exists():
        parts.insert(1, f"![Before and after `fn.{schema.name}`](../images/{schema.name}.jpg)")
    return "\n\n".join([*parts, "\n".join(table)] if len(table) > 2 else parts)


def kind(argument: Argument) -> str:
    """Name the type of an argument, and say whether each sample may have its own value."""
    return argument.kind.value + (" or DataNode" if argument.per_sample else "")


def default(argument: Argument) -> str:
    """Return an argument's default as text."""
    return "required" if argument.default is REQUIRED else f"`{argument.default!r}`"


def cell(text: str) -> str:
    """Make text fit into a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
