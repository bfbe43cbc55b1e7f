"""Checks of the repository's rules for its structure."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dali_proxy", "pipeline")

#: Functions that import the module whose name is their first argument.
IMPORTERS = {"__import__", "import_module"}

#: Imports of higher modules in functions for users: `types.Constant` adds an operator to a graph.
FACES = {("dali_proxy.pipeline.types", "dali_proxy.pipeline._catalog")}

REFUSE_TORCH = """
import sys

class TorchWasImported(BaseException):
    pass

def refuse(event, arguments):
    if event == "import" and arguments[0].partition(".")[0] == "torch":
        raise TorchWasImported

sys.addaudithook(refuse)
import {module}
"""


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module of both packages, by the module's full name."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    path = modules()[module]
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(module: str, statements: Iterator[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield the imported names, as modules of this repository where possible, with their line numbers."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield alias.name, statement.lineno
        elif isinstance(statement, ast.ImportFrom):
            source = absolute(module, statement)
            for alias in statement.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in modules() else source, statement.lineno


def imports_by_name(module: str) -> Iterator[tuple[str, int]]:
    """Yield the modules of this repository that calls such as ``import_module("pipeline.fn")`` name, with the lines."""
    package = module if is_package(module) else module.rpartition(".")[0]
    known: dict[str, object] = {"__name__": module, "__package__": package}
    for call in ast.walk(tree(module)):
        if isinstance(call, ast.Call) and call.args and last_name(call.func) in IMPORTERS:
            with suppress(ValueError, NameError):  # the name isn't constant
                name = eval(ast.unparse(call.args[0]), {"__builtins__": {}}, known)
                if str(name).partition(".")[0] in PACKAGES:
                    yield str(name), call.lineno


def last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@cache
def all_imports(module: str) -> list[tuple[str, int]]:
    """Return the modules that a module imports anywhere, also for type checkers and by their names."""
    found = (*imports(module, ast.walk(tree(module))), *imports_by_name(module))
    return [(name, line) for name, line in found if (module, name) not in FACES]


def run_at_import(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported, without those for type checkers."""
    for statement in statements:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            checked = isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
            for block in ("orelse", "finalbody") if checked else ("body", "orelse", "finalbody"):
                yield from run_at_import(getattr(statement, block, []))


def is_package(module: str) -> bool:
    return modules()[module].name == "__init__.py"


def absolute(module: str, statement: ast.ImportFrom) -> str:
    """Return the full name of the module in a `from ... import` statement."""
    if not statement.level:
        return statement.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - statement.level + is_package(module)]
    return ".".join([*base, statement.module] if statement.module else base)


def public_names(module: str) -> tuple[list[str], int] | None:
    """Return the list in `__all__` and its line, or None if the module has no literal `__all__`."""
    for statement in tree(module).body:
        named = isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
        if named and isinstance(statement.value, ast.List):
            return list(ast.literal_eval(statement.value)), statement.lineno
    return None


def order_of_ruff(name: str) -> tuple[int, list[str | int]]:
    """Return the sort key of rule RUF022: constants, classes, other names; in each group, 2 before 10."""
    group = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return group, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def where(module: str, line: int) -> str:
    return f"{modules()[module].relative_to(ROOT)}:{line}"


def test_only_users_import_the_short_name() -> None:
    """So that a user's module of this name disturbs nobody."""
    wrong = [
        where(module, line)
        for module in modules()
        for name, line in all_imports(module)
        if name.partition(".")[0] == "pipeline"
    ]
    assert not wrong, f"import dali_proxy.pipeline: {wrong}"


def test_imports_have_no_circles() -> None:
    """Not even those of functions and of type checkers: such modules can only be understood together."""
    graph = {module: {name for name, _ in all_imports(module) if name in modules()} - {module} for module in modules()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"circular imports: {' <- '.join(error.args[1])}", pytrace=False)


def test_imports_by_name_are_seen() -> None:
    assert "dali_proxy.pipeline._catalog" in dict(imports_by_name("dali_proxy.pipeline"))


@pytest.mark.parametrize("module", ["pipeline", "dali_proxy", "dali_proxy.pipeline", "dali_proxy._host"])
def test_torch_is_not_imported_by(module: str) -> None:
    """The host process must start fast and never needs torch."""
    program = REFUSE_TORCH.format(module=module)
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )
    assert run.returncode == 0, f"`import {module}` failed or imported torch, and this is how:\n{run.stderr}"


def test_subcommands_import_no_installed_package() -> None:
    """``dali-proxy doctor`` reports missing packages, so subcommands import them when they run."""
    reached = {module: module for module in modules() if module.startswith("dali_proxy._cli")}
    wrong, left = [], sorted(reached)
    for module in left:  # grows
        for name, line in imports(module, run_at_import(tree(module).body)):
            parts = name.split(".")
            if parts[0] not in (*PACKAGES, *sys.stdlib_module_names):
                wrong.append(f"{reached[module]}, in line {line}, imports {name}")
            for package in (".".join(parts[:count]) for count in range(1, len(parts) + 1)):
                if package in modules() and package not in reached:
                    reached[package] = f"{reached[module]} -> {package}"
                    left.append(package)
    assert not wrong, "import these in functions:\n" + "\n".join(wrong)


def test_public_names_are_sorted() -> None:
    wrong = []
    for module in modules():
        if found := public_names(module):
            names, line = found
            expected = sorted(set(names), key=order_of_ruff)
            if names != expected:
                wrong.append(f"{where(module, line)} should be {expected}")
    assert not wrong, "__all__ is sorted and names nothing twice (make format sorts):\n" + "\n".join(wrong)


def test_names_with_an_underscore_stay_in_their_module() -> None:
    wrong = []
    for module in modules():
        for statement in ast.walk(tree(module)):
            if isinstance(statement, ast.ImportFrom) and (source := absolute(module, statement)) in modules():
                inner = [each.name for each in statement.names if each.name[0] == "_" and each.name[1] != "_"]
                wrong += [where(module, statement.lineno) for name in inner if f"{source}.{name}" not in modules()]
    assert not wrong, f"imports of names that are for their own module: {wrong}"


@pytest.mark.parametrize("package", ["dali_proxy", "dali_proxy.pipeline"])
def test_package_lists_its_public_names(package: str) -> None:
    assert package in modules(), f"{package}/__init__.py is missing"
    assert public_names(package), f"{package}/__init__.py has no __all__"


def test_folders_are_packages() -> None:
    folders = {path.parent for path in modules().values()}
    wrong = [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()]
    assert not wrong, f"folders without __init__.py are not part of the distribution: {wrong}"


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


#: Packages and single modules of this repository, from the bottom up. Each line may import only from the lines above
#: it, so import cycles between packages are impossible. `pipeline` stands for `dali_proxy.pipeline`.
FLOORS = (
    "pipeline._arrays pipeline._secrets pipeline._cached_property pipeline._closing pipeline._strict",
    "pipeline.errors pipeline._native pipeline._listing pipeline._requirements pipeline._trusted_folder",
    "pipeline._control_group pipeline._ranks pipeline._rng pipeline._size_limit",
    "pipeline.types pipeline.tfrecord pipeline._sheet pipeline._imaging pipeline._concurrency",
    "pipeline._cuda",
    "pipeline._declaration pipeline._kernels pipeline._optional",
    "pipeline._graph pipeline.tensors pipeline._codecs pipeline._audio",
    "pipeline._remote pipeline._kernels.audio",
    "pipeline._ipc pipeline._bulk pipeline._video",
    "pipeline._operator_api pipeline._cache",
    "pipeline._user_functions",
    "pipeline._external_source",
    "pipeline._external_source.parallel",
    "pipeline._operators.audio pipeline._operators.boxes pipeline._operators.random pipeline._operators.user_code",
    "pipeline._operators.geometry",
    "pipeline._operators.arrays pipeline._operators.color pipeline._operators.decoding pipeline._operators.effects",
    "pipeline._operators pipeline._readers pipeline._compiler",
    "pipeline._compiler.steps",
    "pipeline._compiler.rules",
    "pipeline._catalog pipeline._executor",
    "pipeline._definition pipeline.fn pipeline.ops pipeline.math",
    "pipeline._dynamic",
    "pipeline.auto_aug.core",
    "pipeline.auto_aug pipeline.dynamic.pytorch",
    "pipeline.dynamic pipeline._operator_def",
    "pipeline._torchvision",
    "pipeline.torchvision",
    "pipeline",
    "dali_proxy.errors",
    "dali_proxy._common",
    "dali_proxy.torchvision",
    "dali_proxy._transport dali_proxy._nvidia dali_proxy._torch_functions dali_proxy._doctor",
    "dali_proxy._host dali_proxy._worker",
    "dali_proxy._consumer",
    "dali_proxy._cluster",
    "dali_proxy._pool",
    "dali_proxy._iterators dali_proxy._server",
    "dali_proxy._monitor",
    "dali_proxy._loader",
    "dali_proxy.distributed",
    "dali_proxy",
    "dali_proxy._new.kinds dali_proxy._nvidia.startup",
    "dali_proxy._new.loops dali_proxy._demo",
    "dali_proxy._new",
    "dali_proxy._benchmark",
    "dali_proxy._cli",
    "dali_proxy._cli.commands",
    "dali_proxy.__main__",
)


def part_of(module: str) -> str:
    """Return the package or single module of `FLOORS` that a module belongs to."""
    own = module.removeprefix("dali_proxy.") if module.startswith("dali_proxy.pipeline") else module
    return own if is_package(module) or own.count(".") == 1 else own.rpartition(".")[0]


def test_packages_import_only_from_lower_floors() -> None:
    floor = {name: number for number, line in enumerate(FLOORS) for name in line.split()}
    parts = {
        part_of(module) for module in modules() if len(tree(module).body) > 1 and module != "pipeline"
    }  # a few modules contain only a docstring
    assert sorted(parts - floor.keys()) == [], "name these packages in FLOORS"
    wrong = set()
    for module in modules().keys() - {"pipeline"}:
        part = part_of(module)
        for name, line in all_imports(module):
            other = part_of(name) if name in modules() else part
            if other != part and floor[other] >= floor[part]:
                wrong.add(f"{where(module, line)} imports {name}")
    assert not wrong, "imports go down:\n" + "\n".join(sorted(wrong))
