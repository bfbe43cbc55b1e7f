"""Writes the map of the code in CONTRIBUTING.md: the tree of packages, each with the first sentences of its docstring.

python -m docs.map
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dali_proxy", "pipeline")
_MAP = re.compile(r"(?<=<!-- map: python -m docs\.map -->\n).*?(?=<!-- end of map -->)", re.DOTALL)
_COLUMN = 30


def code_map() -> str:
    """Return the map, as Markdown."""
    lines = [line for package in PACKAGES for line in _lines(ROOT / package, 0)]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def with_map(text: str) -> str:
    """Return the text of CONTRIBUTING.md with the present map in it."""
    return _MAP.sub(lambda match: code_map(), text)


def _lines(folder: Path, depth: int) -> Iterator[str]:
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    name = "  " * depth + folder.name + "/"
    yield f"{name:<{_COLUMN}} {docstring.splitlines()[0]}"
    for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from _lines(inner, depth + 1)


if __name__ == "__main__":
    path = ROOT / "CONTRIBUTING.md"
    path.write_text(with_map(path.read_text(encoding="utf-8")), encoding="utf-8")
