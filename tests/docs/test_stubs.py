"""The stubs of `fn`, `ops`, `dynamic` and `torchvision` describe the functions and classes that exist."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import pipeline.fn
import pipeline.ops
from docs.stubs import ROOT, stubs
from pipeline import dynamic, torchvision
from pipeline.torchvision import functional


def test_stubs_are_current() -> None:
    """The stubs are what `python -m docs.stubs` writes, and there are no others."""
    texts = stubs()
    wrong = [str(path) for path, text in texts.items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert not wrong, f"run `python -m docs.all`: {wrong}"
    written = {path.relative_to(ROOT) for path in ROOT.glob("**/pipeline/**/*.pyi")}
    assert {path.name for path in written - set(texts)} == {"_annotations.pyi"}


@pytest.mark.parametrize("package", [pipeline.fn, pipeline.ops, dynamic, torchvision, functional])
def test_stub_declares_all_names(package: object) -> None:
    """A stub has the names of its package, and each function has the parameters of the real one."""
    assert inspect.ismodule(package)
    tree = ast.parse(Path(f"{package.__file__}i").read_text(encoding="utf-8"))
    declared = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            declared.update(dict.fromkeys(each.asname or each.name for each in statement.names))
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            declared[statement.name] = statement
        elif isinstance(statement, ast.AnnAssign | ast.Assign):
            declared[ast.unparse(statement).split(":")[0].split(" = ")[0]] = None
    assert set(package.__all__) <= set(declared)
    types = ast.parse((ROOT / "dali_proxy" / "pipeline" / "_annotations.pyi").read_text(encoding="utf-8"))
    (fields,) = (each.body for each in types.body if isinstance(each, ast.ClassDef) and each.name == "Common")
    common = [ast.unparse(each).partition(":")[0] for each in fields if isinstance(each, ast.AnnAssign)]
    checked = 0
    for name, statement in declared.items():
        if isinstance(statement, ast.FunctionDef) and name != "external_source":  # its last overload is short
            given = statement.args
            names = [each.arg for each in (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs) if each]
            names += common if given.kwarg else []
            assert names == list(inspect.signature(getattr(package, name)).parameters)
            checked += 1
    assert checked > 30 or package in (pipeline.ops, torchvision)
