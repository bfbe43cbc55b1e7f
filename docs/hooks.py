"""Hooks that MkDocs runs while it builds the site: they write the operators, and add tabs, figures and examples."""

from __future__ import annotations

import re
import textwrap
from enum import IntEnum
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._declaration.schema import REQUIRED, Argument, OperatorSchema
from dali_proxy.pipeline._declaration.synonyms import SYNONYMS
from docs.purposes import PURPOSES, example

#: Where the start page shows the example of README.md.
EXAMPLE = "<!-- readme: example -->"
#: The end of a page that the operators replace.
OPERATORS = re.compile(r"<!-- operators -->.*", re.DOTALL)
#: A block of Python that a page shows in a tab. Elsewhere, such blocks are shown one after the other.
TAB = re.compile(r'^```python title="(Graph|Function)"\n(.*?^```)$', re.DOTALL | re.MULTILINE)
#: A graph and the function that does the same: the tab of the function is the first one.
PAIR = re.compile(
    r'^(```python title="Graph"\n(?:(?!^```).)*^```)\n\n(```python title="Function"\n(?:(?!^```).)*^```)$',
    re.DOTALL | re.MULTILINE,
)
RESULTS = "benchmarks/results"
ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
#: What operators do, before and after: `python -m docs.images` writes them.
IMAGES = ROOT / "docs" / "images"
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
#: The name of an example, or a command that runs it: on the site, a link to its code.
NAMED = re.compile(rf"(`[^`\n]*\bexamples/({'|'.join(file.stem for file in SCRIPTS)})\.py[^`\n]*`)(?!\]\()")
DEVICES = {"cpu": "CPU", "gpu": "GPU", "mixed": "GPU (`device='mixed'`; in `dynamic` also `'gpu'`)"}


def on_files(files: Files, config: Any) -> Files:
    """Add the examples, and the figures and pages of benchmark results, which are outside of the documents' folder."""
    files.append(File.generated(config, "examples.md", abs_src_path=str(ROOT / "examples" / "README.md")))
    for file in SCRIPTS:
        code = file.read_text(encoding="utf-8")
        files.append(
            File.generated(config, f"examples/{file.stem}.md", content=f"# {file.name}\n\n````python\n{code}````\n")
        )
    results = ROOT / RESULTS
    for file in (*results.glob("*.png"), *results.glob("2*.md"), *results.glob("2*.json")):
        files.append(File.generated(config, f"{RESULTS}/{file.name}", abs_src_path=str(file)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write the operators into their page, turn blocks into tabs, and link the added results and the examples."""
    markdown = markdown.replace(f"](../{RESULTS}/", f"]({RESULTS}/").replace(f"](../../{RESULTS}/", f"](../{RESULTS}/")
    markdown = markdown.replace("](../../docs/", "](../../")
    markdown = re.sub(r'^(```python) notest=".*"$', r"\1", markdown, flags=re.MULTILINE)  # an option for the tests
    above = "../" * page.file.src_uri.count("/")
    markdown = NAMED.sub(rf"[\1]({above}examples/\2.md)", markdown)
    if EXAMPLE in markdown:
        block = re.search(r"^```python\n.*?^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        assert block
        markdown = markdown.replace(EXAMPLE, block[0])
    markdown = PAIR.sub(r"\2\n\n\1", markdown)
    markdown = TAB.sub(
        lambda block: f'=== "{block[1]}"\n\n' + textwrap.indent(f"```python\n{block[2]}", "    "), markdown
    )
    return OPERATORS.sub(lambda _: describe_all(), markdown)


def describe_all() -> str:
    """Describe all operators by purpose, and list the deprecated names at the end."""
    schemas = {schema.name: schema for schema in all_schemas() if not schema.hidden}
    parts = []
    for purpose, names in PURPOSES.items():
        parts += [f"## {purpose}", *(describe(schemas[name]) for name in names.split())]
    old = sorted(schema.name for schema in schemas.values() if schema.alias_of is not None)
    rows = [f"| `fn.{name}` | [`fn.{new}`](#fn.{new}) |" for name in old if (new := schemas[name].alias_of)]
    parts += ["## Deprecated names", "\n".join(["| name | use |", "| --- | --- |", *rows])]
    return "\n\n".join(parts)


def describe(schema: OperatorSchema) -> str:
    """Describe an operator: its purpose, an example, devices, names in other libraries, inputs and arguments."""
    parts = [f"### fn.{schema.name} {{ #fn.{schema.name} }}"]
    if schema.function is not None:  # a function with its own docstring; its __module__ is that of `fn`
        written = f"{schema.function.__globals__['__name__']}.{schema.function.__name__}"
        options = "\n      ".join(["    options:", "show_root_heading: false", "show_root_toc_entry: false"])
        return "\n\n".join([*parts, f"```python\n{example(schema.name)}\n```", f"::: {written}\n{options}"])
    parts += [schema.doc, f"```python\n{example(schema.name)}\n```"]
    if (IMAGES / f"{schema.name}.jpg").exists():
        parts.append(f"![Before and after `fn.{schema.name}`](../images/{schema.name}.jpg){{ loading=lazy }}")
    parts.append(f"Runs on the {' and the '.join(DEVICES[device] for device in schema.devices)}.")
    if synonyms := SYNONYMS.get(schema.name):
        parts[-1] += f" Other libraries: {', '.join(f'`{each}`' for each in synonyms.split())}."
    inputs = [f"| `{given.name}` | input | | {cell(given.doc)} |" for given in schema.inputs]
    unused = [each for each in schema.arguments if each.doc.startswith("Accepted for compat") or each.replaced_by]
    used = [each for each in schema.arguments if each not in unused]
    arguments = [f"| `{each.name}` | {kind(each)} | {default(each)} | {cell(each.doc)} |" for each in used]
    table = ["| name | type | default | meaning |", "| --- | --- | --- | --- |", *inputs, *arguments]
    parts += ["\n".join(table)] if len(table) > 2 else []
    if unused:
        parts.append(f"For scripts of NVIDIA DALI, it also accepts {', '.join(f'`{each.name}`' for each in unused)}.")
    return "\n\n".join(parts)


def kind(argument: Argument) -> str:
    """Name the type of an argument, and say whether each sample may have its own value."""
    return argument.kind.value + (" or DataNode" if argument.per_sample else "")


def default(argument: Argument) -> str:
    """Return an argument's default as text."""
    value = argument.default
    if isinstance(value, IntEnum):
        return f"`types.{value.name}`"
    return "required" if value is REQUIRED else f"`{value!r}`"


def cell(text: str) -> str:
    """Make text fit into a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
