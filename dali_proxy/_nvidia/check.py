"""Static checks of scripts for NVIDIA DALI: the names and arguments that are missing here, and known differences."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np

from dali_proxy._nvidia.differences import BEHAVIOUR, DIFFERENCES, IMPROVEMENTS, MISSING
from dali_proxy._nvidia.names import ROOT, Stand, find
from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._declaration.names import class_name
from dali_proxy.pipeline._declaration.schema import COMMON_ARGUMENTS, RANDOM_STATE, OperatorSchema
from dali_proxy.pipeline.errors import PipelineError

_UNKNOWN = object()
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SENTENCES = re.compile(r"(?<=\.) ")
#: Sentences about scripts that don't run with DALI.
_REFUSED = re.compile(r"\baccept(?:ed|s)\b|\bDALI(?: 2\.4|'s \w+)? (?:often )?(?:refuses|fails|declares)")
_ERROR = re.compile(r"\b(?:is|are) refused\b|\ban error\b")  # the script's results don't change: it fails
_NAMES = re.compile(r"`(\w+)(?:=([^`]*))?[^`]*`")  # the first word of each text in backquotes, and a value
_CONSTANTS = re.compile(r"\b(?:INTERP_\w+|FLOAT16)")
_POLICIES = re.compile(r"\b(?:DROP|PARTIAL|FILL)\b")
_FACTORY = f"{ROOT}.pipeline_def"
_PIPELINE = f"{ROOT}.Pipeline"
_RANDOM = "random numbers"
_ROWS: dict[Kind, tuple[tuple[str, str, str], ...]] = {"differs": BEHAVIOUR, "note": IMPROVEMENTS}
#: Parts of the names whose use makes a row of `BEHAVIOUR` or `IMPROVEMENTS` apply, by the first word of its
#: subject. Rows whose subject contains names in backquotes apply to these names instead.
_SUBJECTS = {"iterators": "Iterator", "server": "DALIServer", "proxy": "DALIServer", "loader": "DALIServer"}


Kind = Literal["missing", "differs", "note"]


@dataclass(frozen=True)
class Finding:
    """A fact about a line of a script.

    Attributes:
        file: the script.
        line: the line.
        kind: "missing": the script fails there; "differs": it runs, but its results can change; "note": it runs, with
            another documented difference.
        name: the name that the script uses, such as "fn.resize".
        message: what is missing or differs, and what to do.
    """

    file: str
    line: int
    kind: Kind
    name: str
    message: str

    def __str__(self) -> str:
        """Return the finding in one line."""
        return f"{self.file}:{self.line}: {self.kind}: {self.name}: {self.message}"


@dataclass(frozen=True)
class _Bound:
    """The value of a variable: a name of DALI, an instance of it, or a function that returns instances."""

    path: str
    kind: Literal["name", "instance", "factory"] = "name"


def check_script(path: Path, function: str = "") -> tuple[list[Finding], int]:
    """Find everything in a script that is missing here or differs, without running it.

    Args:
        path: the script.
        function: name of the only function or class to check, besides imports; empty for the whole script.

    Returns:
        The findings, by line, and the number of uses of DALI's names that were checked.

    Raises:
        OSError: the file can't be read.
        SyntaxError: it isn't a Python script.
        LookupError: it has no such function.
    """
    tree = ast.parse(path.read_bytes(), str(path))
    if function:
        chosen = [each for each in tree.body if getattr(each, "name", "") == function]
        if not chosen:
            raise LookupError(function)
        tree.body = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)] + chosen
    visitor = _Visitor(str(path), _words(tree))
    visitor.visit(tree)
    return sorted(
        visitor.findings, key=lambda each: (each.line, get_args(Kind).index(each.kind), each.name)
    ), visitor.uses


class _Visitor(ast.NodeVisitor):
    """Follows DALI's names through a script."""

    def __init__(self, file: str, words: set[str]) -> None:
        self.file = file
        self._words = words
        self.findings: dict[Finding, None] = {}  # a set in order
        self.uses = 0
        self._scopes: list[dict[str, _Bound | None]] = [{}]
        self._reported: set[str] = set()  # differences, each at its first line

    # Variables

    def _value(self, node: ast.expr) -> _Bound | None:
        """Return the meaning of an expression; None if it has nothing to do with DALI."""
        if isinstance(node, ast.Name | ast.Attribute):
            key = ast.unparse(node)
            for scope in reversed(self._scopes):
                if key in scope:
                    return scope[key]
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return _Bound(f"{owner.path}.{node.attr}") if owner is not None and owner.kind == "name" else None
        if isinstance(node, ast.Call):
            called = self._value(node.func)
            if called is None or called.kind == "instance":
                return None
            if called.kind == "factory":
                return _Bound(_PIPELINE, "instance")
            found, _ = _resolve(called.path)
            if called.path.endswith(".pipeline_def") and not node.args:
                return _Bound(_FACTORY)  # pipeline_def(batch_size=...), which decorates a function
            return _Bound(called.path, "instance") if isinstance(found, type) else None
        return None

    def _bind(self, target: ast.expr, value: _Bound | None) -> None:
        if isinstance(target, ast.Name | ast.Attribute):
            # Attributes of self are set in one method and used in others.
            scope = self._scopes[-1] if isinstance(target, ast.Name) else self._scopes[0]
            scope[ast.unparse(target)] = value

    # Statements

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if not f"{alias.name}.".startswith(f"{ROOT}."):
                continue
            self._use(alias.name, node.lineno)
            bound = alias.name if alias.asname else ROOT.partition(".")[0]
            self._scopes[-1][alias.asname or bound] = _Bound(bound)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or not f"{module}.".startswith(f"{ROOT.partition('.')[0]}."):
            return
        for alias in node.names:
            path = f"{module}.{alias.name}"
            if alias.name == "*":
                stand = find(module) if module.startswith(ROOT) else None
                self._use(module, node.lineno)
                for name in () if stand is None else stand.all():
                    self._scopes[-1][name] = _Bound(f"{module}.{name}")
            elif f"{path}.".startswith(f"{ROOT}."):
                self._use(path, node.lineno)
                self._scopes[-1][alias.asname or alias.name] = _Bound(path)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        value = self._value(node.value)
        for target in node.targets:
            if not isinstance(target, ast.Name | ast.Attribute):
                self.visit(target)
            self._bind(target, value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        decorated = [self._value(decorator) for decorator in node.decorator_list]
        is_pipeline = any(each is not None and each.path.endswith(".pipeline_def") for each in decorated)
        self._scopes[-1][node.name] = _Bound(_PIPELINE, "factory") if is_pipeline else None
        parameters = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        self._scopes.append(dict.fromkeys(each.arg for each in parameters))
        for statement in (*node.args.defaults, *(each for each in node.args.kw_defaults if each), *node.body):
            self.visit(statement)
        self._scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scopes.append({})
        self.generic_visit(node)
        self._scopes.pop()
        self._scopes[-1][node.name] = None

    # Expressions

    def visit_Name(self, node: ast.Name) -> None:
        self._visit_name(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        owner = self._value(node.value)
        if owner is not None and owner.kind == "instance" and owner.path == _PIPELINE:
            self._check_attribute(node)
        elif not self._visit_name(node):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        called = self._value(node.func)
        if called is None or called.kind == "factory":
            return
        found, missing = _resolve(called.path)
        if missing is None:
            self._check_call(node, called, found)

    def _visit_name(self, node: ast.Name | ast.Attribute) -> bool:
        """Check a name of DALI. Return whether the expression is one."""
        bound = self._value(node)
        if bound is None or bound.kind != "name":
            return False
        self._use(bound.path, node.lineno)
        return True

    # Checks

    def _add(self, line: int, kind: Kind, path: str, message: str) -> None:
        name = path.removeprefix(f"{ROOT}.")
        if kind != "missing":
            if f"{name}{message}" in self._reported:
                return
            self._reported.add(f"{name}{message}")
        self.findings[Finding(self.file, line, kind, name, _LINK.sub(r"\1", message).replace("`", ""))] = None

    def _use(self, path: str, line: int) -> None:
        """Check that a name exists, and report its differences."""
        if not f"{path}.".startswith(f"{ROOT}.") or path.endswith("__"):  # such as nvidia.dali.__file__
            return
        self.uses += 1
        _, missing = _resolve(path)
        schema = _schema(path)
        if missing is not None:
            self._add(line, "missing", missing, _reason(missing) or "dali-proxy doesn't have it")
            return
        if reason := _reason(path):
            self._add(line, "missing", path, reason)
        if schema is not None and schema.random and _RANDOM not in self._reported:  # once for a script
            self._reported.add(_RANDOM)
            self._add(line, "differs", path, next(_described(row) for row in BEHAVIOUR if row[0] == _RANDOM))
        for kind, rows in _ROWS.items():
            for row in rows:
                if _applies(row[0], path, self._words):
                    self._add(line, kind, path, _described(row))

    def _check_attribute(self, node: ast.Attribute) -> None:
        self.uses += 1
        path = f"{ROOT}.Pipeline.{node.attr}"
        if _resolve(path)[1] is not None:
            self._add(node.lineno, "missing", path, "dali-proxy doesn't have it")
        for row in BEHAVIOUR:
            if f"`Pipeline.{node.attr}`" in row[0]:
                self._add(node.lineno, "differs", path, _described(row))

    def _check_call(self, node: ast.Call, called: _Bound, found: Any) -> None:
        schema = _schema(called.path)
        known = _keywords(found, schema, called)
        for keyword in node.keywords:
            if keyword.arg is None:
                continue
            path, line = f"{called.path}({keyword.arg}=...)", keyword.value.lineno
            if known is not None and keyword.arg not in known:
                self._add(line, "missing", path, "no such argument")
            elif schema is not None:
                self._check_argument(schema, keyword, path)
        if schema is not None:
            passed = {each.arg: self._constant(each.value) for each in node.keywords if each.arg is not None}
            for kind, sentence in _operator_differences(schema, passed, self._words):
                self._add(node.lineno, kind, called.path, sentence)

    def _check_argument(self, schema: OperatorSchema, keyword: ast.keyword, path: str) -> None:
        assert keyword.arg is not None
        line = keyword.value.lineno
        value = self._constant(keyword.value)
        declared = schema.argument(keyword.arg)
        if keyword.arg == "device" and value in ("cpu", "gpu", "mixed") and value not in schema.devices:
            if value == "gpu":
                self._add(line, "differs", path, "it runs on the CPU, with copies from the GPU and back")
        elif declared is not None and value is not _UNKNOWN and schema.function is None:
            try:
                declared.check(value)
            except PipelineError as error:
                self._add(line, "missing", path, str(error))

    def _constant(self, node: ast.expr) -> Any:
        bound = self._value(node)
        if bound is not None and bound.kind == "name":
            found, missing = _resolve(bound.path)
            return _UNKNOWN if missing is not None else found
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError):
            return _UNKNOWN


@cache
def _resolve(path: str) -> tuple[Any, str | None]:
    """Return the object for a name of DALI, or the first part of the name that is missing."""
    module, stand = ROOT, find(ROOT)
    parts = path.split(".")[ROOT.count(".") + 1 :]
    found: Any = stand
    for position, part in enumerate(parts):
        inner = f"{module}.{part}"
        if isinstance(found, Stand) and (below := find(inner)) is not None:
            module, found = inner, below
            continue
        try:
            found = found.load(part) if isinstance(found, Stand) else getattr(found, part)
        except AttributeError:
            return None, ".".join([ROOT, *parts[: position + 1]])
        except ImportError:  # it needs a package that isn't installed
            return _UNKNOWN, None
        if not isinstance(found, type | ModuleType):  # attributes of functions and values aren't checked
            return found, None
    return found, None


@cache
def _classes() -> dict[str, OperatorSchema]:
    """Return the schemas by the names of the classes below `ops`."""
    schemas = [schema for schema in all_schemas() if not schema.hidden]
    return {".".join([*schema.name.split(".")[:-1], class_name(schema.name)]): schema for schema in schemas}


def _schema(path: str) -> OperatorSchema | None:
    """Return the schema of an operator in `fn` or `ops`; None for other names."""
    inner = path.removeprefix(f"{ROOT}.ops.")
    if inner != path:
        return _classes().get(inner)
    inner = path.removeprefix(f"{ROOT}.fn.")
    return next((schema for schema in _classes().values() if schema.name == inner != path), None)


def _reason(path: str) -> str | None:
    """Return why a name is listed as missing or without function."""
    module, _, name = path.removeprefix(f"{ROOT}.").rpartition(".")
    for group, reason in MISSING.get(module, {}).items():
        if name in group.split(", "):
            return reason.replace("exist, but raise an error", "it raises an error")
    for group, difference in DIFFERENCES.items():
        if difference.startswith("Missing: ") and name in (group, class_name(group)):
            return difference.removeprefix("Missing: ")
    return None


def _words(tree: ast.AST) -> set[str]:
    """Return the names in a script: of variables, attributes and arguments, and those in its texts."""
    found: set[str] = set()
    for node in ast.walk(tree):
        named = getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "value", None)
        found |= {each for each in (*named, getattr(node, "arg", None)) if isinstance(each, str)}
    return found


def _operator_differences(
    schema: OperatorSchema, passed: dict[str, Any], words: set[str]
) -> Iterator[tuple[Kind, str]]:
    """Yield the differences of a call of an operator, with these arguments, in a script that runs with DALI."""
    known = {argument.name for argument in schema.arguments}
    for sentence in (each for text in _all_differences(schema) for each in _SENTENCES.split(text)):
        named = [(name, value) for name, value in _NAMES.findall(sentence) if name in known]
        constants = _CONSTANTS.findall(sentence)
        if _REFUSED.search(sentence) or not words.issuperset(constants):
            continue
        of_call = [(value, passed[name]) for name, value in named if name in passed]
        if not named or any(_matters(sentence, value, argument) for value, argument in of_call):
            changes = (named or constants or sentence.startswith("Results differ")) and not _ERROR.search(sentence)
            yield "differs" if changes else "note", sentence


def _matters(sentence: str, value: str, argument: Any) -> bool:
    """Return whether a sentence about an argument, or about a value of it, is about what a call passes."""
    if argument is _UNKNOWN:
        return True
    if "clamped" in sentence:  # every integer dtype holds these numbers
        return not all(isinstance(each, int | float) and 0 <= each <= 127 for each in np.ravel(argument).tolist())
    return "per sample" not in sentence and value in ("", repr(argument))


def _all_differences(schema: OperatorSchema) -> Iterator[str]:
    names = {schema.name, schema.alias_of or schema.name}
    for group, difference in DIFFERENCES.items():
        if any(fnmatchcase(name, each) for each in group.split(", ") for name in names):
            yield difference


def _described(row: tuple[str, str, str]) -> str:
    """Return a row of `BEHAVIOUR` or `IMPROVEMENTS` as a sentence."""
    subject, theirs, ours = row
    return f"{subject}: in DALI: {theirs}; here: {ours}"


def _applies(subject: str, path: str, words: set[str]) -> bool:
    """Return whether a row of `BEHAVIOUR` matters to the use of a name in a script that has these words."""
    last = path.rpartition(".")[2]
    if _SUBJECTS.get(subject.split(",")[0], "\0") in last:
        policies = set(_POLICIES.findall(subject))
        used = words.intersection(("DROP", "PARTIAL")) or {"FILL"}  # the default
        return words.issuperset(name for name, _ in _NAMES.findall(subject)[:1]) and (
            not policies or bool(policies & (used | words))
        )
    return last in re.findall("`(.*?)`", subject)


def _keywords(found: Any, schema: OperatorSchema | None, called: _Bound) -> set[str] | None:
    """Return the keyword arguments of a call; None if all are accepted."""
    if schema is not None:
        names = {"device", "name"} | {argument.name for argument in (*COMMON_ARGUMENTS, *schema.arguments)}
        return names | _parameters(schema.function) | ({RANDOM_STATE.name} if schema.random else set())
    if called.kind == "instance" or not callable(found) or isinstance(found, ModuleType):
        return None
    if called.path.endswith(".pipeline_def"):
        return {"fn", "debug", "enable_conditionals"} | _parameters(
            importlib.import_module("dali_proxy.pipeline").Pipeline
        )
    parameters = _parameters(found)
    return None if not parameters or any(name.startswith("*") for name in parameters) else parameters


def _parameters(found: Any) -> set[str]:
    """Return the names of a callable's parameters, with stars for ``**arguments``; empty if they are unknown."""
    if not callable(found):
        return set()
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {each.name if each.kind is not each.VAR_KEYWORD else f"*{each.name}" for each in parameters}
