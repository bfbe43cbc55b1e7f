"""Write a training script of one file from two modules of this package."""

from __future__ import annotations

import ast
from pathlib import Path
from sys import stdlib_module_names

_HERE = Path(__file__).resolve().parent


def _modules(folder: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (_HERE / folder).glob("[!_]*.py")))


KINDS = _modules("kinds")
FRAMEWORKS = _modules("loops")


def write_script(path: Path, kind: str, framework: str) -> None:
    """Write a training script.

    Raises:
        FileExistsError: the file exists.
    """
    docstring, imports, body = _parts(_HERE / "kinds" / f"{kind}.py")
    _, more_imports, loop = _parts(_HERE / "loops" / f"{framework}.py")
    script = f'"""{docstring}"""\n\n{_sorted({*imports, *more_imports})}\n\n{body}\n\n\n{loop}\n'
    with path.open("x", encoding="utf-8") as file:
        file.write(script)


def _parts(path: Path) -> tuple[str, list[str], str]:
    """Return the docstring of a module, its imports of other packages, and what follows them."""
    text = path.read_text(encoding="utf-8")
    module = ast.parse(text)
    docstring = ast.get_docstring(module, clean=False) or ""
    imports = [each for each in module.body if isinstance(each, ast.Import | ast.ImportFrom)]
    lines = text.splitlines()[imports[-1].end_lineno :]
    of_others = [
        ast.unparse(each)
        for each in imports
        if not (isinstance(each, ast.ImportFrom) and (each.module or "").startswith("dali_proxy._new"))
    ]
    return docstring, of_others, "\n".join(lines).strip()


def _sorted(imports: set[str]) -> str:
    """Return imports in the groups of isort: the future, the standard library, others, this project."""

    def group(line: str) -> int:
        package = line.split()[1].partition(".")[0]
        return {"__future__": 0, "dali_proxy": 3}.get(package, 1 if package in stdlib_module_names else 2)

    groups = [
        sorted((line for line in imports if group(line) == number), key=lambda line: (line.startswith("from"), line))
        for number in range(4)
    ]
    return "\n\n".join("\n".join(lines) for lines in groups if lines)
