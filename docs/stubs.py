"""Writes the stubs of `pipeline.fn`, `ops`, `dynamic` and `torchvision`, whose contents exist only at run time.

    python -m docs.stubs            write the stubs
    python -m docs.stubs --check    fail if they aren't current

The documentation of an operator's arguments is written once, in the stub of `fn`.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from dali_proxy.pipeline import dynamic as dynamic_mode
from dali_proxy.pipeline import fn, ops, torchvision
from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._declaration.names import class_name
from dali_proxy.pipeline._declaration.schema import COMMON_ARGUMENTS, REQUIRED, Argument, Kind, OperatorSchema
from dali_proxy.pipeline._dynamic.dtypes import TYPES
from dali_proxy.pipeline._dynamic.functions import is_function

ROOT = Path(__file__).resolve().parent.parent
_WIDTH = 120
_HEAD = "# Written by `python -m docs.stubs`.\n"
_TYPES = {
    Kind.BOOL: "_bool",
    Kind.INT: "Int",
    Kind.FLOAT: "Float",
    Kind.STRING: "Str",
    Kind.INTS: "Ints",
    Kind.FLOATS: "Floats",
    Kind.STRINGS: "Strs",
    Kind.DTYPE: "DALIDataType",
    Kind.IMAGE_TYPE: "DALIImageType",
    Kind.INTERP: "DALIInterpType",
    Kind.LAYOUT: "str",
    Kind.OBJECT: "Any",
}
_COMMON = "**common: Unpack[Common]"
_IMPORTS = """\
from builtins import bool as _bool
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, overload

from PIL import Image as pil
from typing_extensions import Unpack

from dali_proxy.pipeline._annotations import Array, Arrays, Common, ConstantLike, Data, Dtype, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes, Str, Strs
from dali_proxy.pipeline._dynamic.devices import Device
from dali_proxy.pipeline._dynamic.dtypes import DType
from dali_proxy.pipeline._dynamic.randomness import RNG
from dali_proxy.pipeline._dynamic.readers import Reader
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass
from dali_proxy.pipeline._torchvision.arguments import InterpolationMode
from dali_proxy.pipeline._torchvision.automatic import AutoAugmentPolicy
from dali_proxy.pipeline._torchvision.declaration import Transform
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType
"""


@dataclass
class _Module:
    """The contents of a stub: its public names, and the text of their declarations."""

    names: set[str] = field(default_factory=set)
    parts: list[str] = field(default_factory=list)


def stubs() -> dict[Path, str]:
    """Return the text of every stub, by its path in the repository."""
    shown = [schema for schema in all_schemas() if not schema.hidden]
    functions = [schema for schema in shown if is_function(schema)]
    readers = [schema for schema in shown if schema.is_reader and not schema.alias_of]
    dynamic = _modules(functions, _dynamic_function, lambda path: path.rpartition(".")[2])
    _merge(dynamic, _modules(readers, _reader, class_name))
    written = {
        **_files("fn", _modules(shown, _function, lambda path: path.rpartition(".")[2]), fn),
        **_files("ops", _modules(shown, _class, class_name), ops),
        **_files("dynamic", dynamic, dynamic_mode),
        **_torchvision_files(),
    }
    return written | _short_names(written)


def _short_names(written: Iterable[Path]) -> dict[Path, str]:
    """Return the stubs of `pipeline`, whose modules are those of `dali_proxy.pipeline`."""
    sources = (path.relative_to(ROOT) for path in (ROOT / "dali_proxy" / "pipeline").rglob("*.py"))
    stubs = {}
    for path in {each.with_suffix("") for each in (*sources, *written)}:
        folders = path.parts[1:]
        if not any(part.startswith("_") and part != "__init__" for part in folders):
            real = ".".join(path.parts).removesuffix(".__init__")
            stubs[Path(*folders).with_suffix(".pyi")] = f"{_HEAD}\nfrom {real} import *\n"
    return stubs


def _torchvision_files() -> dict[Path, str]:
    """Return the stubs of the transforms and of their functional form."""
    files = {}
    for runtime in (torchvision, torchvision.functional):
        imported, parts = [], []
        for name in runtime.__all__:
            made = getattr(runtime, name)
            if inspect.ismodule(made):
                imported.append(f"from {runtime.__name__} import {name} as {name}")
            elif made.__name__ != name:  # a second name
                parts.append(f"{name} = {made.__name__}\n")
            elif made.__module__ != runtime.__name__:
                imported.append(f"from {made.__module__} import {name} as {name}")
            else:
                parts.append((_transform if isinstance(made, type) else _functional)(made))
        names = _wrapped("__all__ = [", map(repr, runtime.__all__), "]")
        text = "\n".join([*imported, "", '_T = TypeVar("_T")', "", *names, "", *parts])
        head = f'{_HEAD}\n"""{inspect.getdoc(runtime)}"""\n\n'
        file = Path(str(runtime.__file__) + "i").relative_to(ROOT)
        files[file] = f"{head}{_imports(text)}\n{text}\n"
    return files


def _transform(made: Any) -> str:
    """Declare a transform."""
    parameters = _parameters(inspect.signature(made))
    init = _declared("def __init__(", ["self", *parameters], "None", "")
    return f"class {made.__name__}(Transform):\n" + textwrap.indent(
        f"{_docstring(inspect.getdoc(made))}\n{init}", "    "
    )


def _functional(made: Any) -> str:
    """Declare the functional form of a transform: its result has the type of its input."""
    signature = inspect.signature(made)
    result = re.sub(r"(?<![\w.])Image\b", "_T", signature.return_annotation)
    return _declared(
        f"def {made.__name__}(", _parameters(signature), result, (inspect.getdoc(made) or "").partition("\n\n")[0]
    )


def _parameters(signature: inspect.Signature) -> list[str]:
    """Return the declarations of the parameters of a transform."""
    declared = []
    for each in signature.parameters.values():
        kind = "Any" if each.annotation is each.empty else str(each.annotation)
        text = f"{each.name}: {'_T' if kind == 'Image' else kind.replace('bool', '_bool')}"
        if each.default is not each.empty:
            text += f" = {each.default if isinstance(each.default, Enum) else repr(each.default)}"
        declared.append(text)
    return declared


def _modules(
    schemas: Iterable[OperatorSchema],
    declare: Callable[[OperatorSchema, str], str],
    rename: Callable[[str], str],
) -> dict[str, _Module]:
    """Return the contents of the modules by their paths below the namespace; "" is the namespace."""
    modules: dict[str, _Module] = {}
    for schema in schemas:
        folder = schema.name.rpartition(".")[0]
        module = modules.setdefault(folder, _Module())
        module.names.add(rename(schema.name))
        module.parts.append(declare(schema, rename(schema.name)))
    return modules


def _merge(modules: dict[str, _Module], others: dict[str, _Module]) -> None:
    for path, other in others.items():
        module = modules.setdefault(path, _Module())
        module.names |= other.names
        module.parts += other.parts


def _files(namespace: str, modules: dict[str, _Module], package: Any) -> dict[Path, str]:
    """Return the stubs of a namespace, with imports of the modules below each one."""
    for path in list(modules):  # "io.file" is in "io", which has no operators itself
        while path:
            path = path.rpartition(".")[0]
            modules.setdefault(path, _Module())
    files = {}
    for path, module in modules.items():
        below = sorted(each for each in modules if each and each.rpartition(".")[0] == path)
        full = ".".join(["dali_proxy.pipeline", namespace, *([path] if path else [])])
        parts = [f"from {full} import {each.rpartition('.')[2]} as {each.rpartition('.')[2]}" for each in below]
        module.names |= {each.rpartition(".")[2] for each in below}
        runtime = sys.modules[full]
        written = Path(package.__file__).read_text(encoding="utf-8") if not path else ""
        parts += _own_names(module, runtime, written)
        names = sorted(set(getattr(runtime, "__all__", module.names)) | module.names)
        text = "\n".join([*parts, "", *_wrapped("__all__ = [", map(repr, names), "]"), "", *module.parts])
        folder = ROOT / "dali_proxy" / "pipeline" / namespace / Path(*path.split("."))
        file = folder / "__init__.pyi" if below or not path else folder.with_suffix(".pyi")
        docstring = f'"""{inspect.getdoc(runtime)}"""\n\n'
        files[file.relative_to(ROOT)] = f"{_HEAD}\n{docstring}{_imports(text)}\n{text}\n"
    return files


def _own_names(module: _Module, runtime: Any, written: str) -> Iterator[str]:
    """Yield the declarations of names that aren't operators: what the source imports, dtypes, random generators."""
    imported = set()
    for statement in ast.parse(written).body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("dali_proxy.pipeline."):
            for each in statement.names:
                name = each.asname or each.name
                if name in runtime.__all__ or name == "_conditional":
                    imported.add(name)
                    yield f"from {statement.module} import {each.name} as {name}"
    for name, value in sorted(vars(runtime).items()):
        if name.startswith("__") or name in module.names | imported or name not in getattr(runtime, "__all__", [name]):
            continue
        if written and name in TYPES:
            yield f"{name}: DType"
        elif getattr(value, "__module__", "").startswith("dali_proxy.pipeline."):  # also a second name of an operator
            yield f"from {value.__module__} import {value.__name__} as {name}"
        else:
            continue
        module.names.add(name)


def _imports(text: str) -> str:
    """Return the imports of the names that a stub uses."""
    tree = ast.parse(text)
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    words -= {each.asname or "" for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names}
    lines = []
    for statement in ast.parse(_IMPORTS).body:
        assert isinstance(statement, ast.ImportFrom)
        used = [each for each in statement.names if (each.asname or each.name) in words]
        if used:
            lines.append(ast.unparse(ast.ImportFrom(statement.module, used, 0)))
    return "\n".join(lines) + "\n"


def _function(schema: OperatorSchema, name: str) -> str:
    """Declare a function of `fn`."""
    if schema.alias_of is not None:
        return _alias(schema, name, "fn", schema.alias_of.rpartition(".")[2])
    made: Any = fn
    for each in schema.name.split("."):
        made = getattr(made, each)
    if parameters := _handwritten(schema):
        doc, several = inspect.getdoc(made) or "", "list[DataNode]"
        single = [each.replace("num_outputs: int | None", "num_outputs: None") for each in parameters]
        forms = [
            (single, "DataNode", doc),
            ([parameters[0], "*", "num_outputs: int", "**arguments: Any"], several, ""),
            ([parameters[0].partition(" =")[0], "num_outputs: int", "**arguments: Any"], several, ""),
        ]
        return "".join("@overload\n" + _declared(f"def {name}(", *form) for form in forms)
    inputs = _inputs(schema, "Nodes | ConstantLike", "Input")
    arguments = [*_arguments(schema, "DataNode"), _COMMON]
    result = _result(schema, "Nodes" if schema.inputs else "DataNode", "list[{}]")
    return _overloaded(name, inputs, arguments, result, "list[{}]", _documentation(schema, made))


def _class(schema: OperatorSchema, name: str) -> str:
    """Declare a class of `ops`: it has the arguments of the function."""
    if schema.alias_of is not None:
        return _alias(schema, name, "ops", class_name(schema.alias_of))
    arguments = _handwritten(schema)
    if not arguments:
        taken = {each for each, _ in schema.class_parameters}
        rest = [each for each in _arguments(schema, "DataNode") if each.partition(":")[0] not in taken]
        common = ["name: str | None = None", *(_argument(each, "DataNode") for each in COMMON_ARGUMENTS)]
        rest += common if "device" in taken else [_COMMON]
        arguments = [*(f"{each}: Any = {value!r}" for each, value in schema.class_parameters), "*", *rest]
    result = "Any" if _handwritten(schema) else _result(schema, "Nodes" if schema.inputs else "DataNode", "list[{}]")[0]
    inputs = _inputs(schema, "Nodes | ConstantLike", "Input")
    call = _declared("def __call__(", ["self", *inputs, "**arguments: Any"], result, "")
    init = _declared("def __init__(", ["self", *arguments], "None", "")
    doc = _docstring(_short(schema))
    return f"class {name}(OperatorClass):\n" + textwrap.indent(f"{doc}\n{init}{call}", "    ")


def _handwritten(schema: OperatorSchema) -> list[str]:
    """Return the parameters of a function of `fn` with a signature that doesn't follow from its schema."""
    if schema.function is None or hasattr(schema.function, "__signature__"):
        return []
    declared = inspect.signature(schema.function, eval_str=True).parameters.values()
    parameters = [str(each).replace("bool", "_bool") for each in declared]
    positional = sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in declared)
    return [*parameters[:positional], "*", *parameters[positional:]]


def _dynamic_function(schema: OperatorSchema, name: str) -> str:
    """Declare a function of dynamic mode."""
    if schema.alias_of is not None:
        return _alias(schema, name, "dynamic", schema.alias_of.rpartition(".")[2])
    inputs = _inputs(schema, "Arrays | Data", "Array | Data")
    arguments = [each.replace(": DALIDataType", ": Dtype") for each in _arguments(schema, "Array")]
    arguments += ["device: Device | str | None = None", "batch_size: int | None = None"]
    arguments += ["rng: RNG | None = None"] if schema.random else []
    has_input = bool(schema.inputs) and not schema.inputs[0].optional
    result = _result(schema, "Arrays" if has_input else "Any", "tuple[{}, ...]")
    return _overloaded(name, inputs, arguments, result, "tuple[{}, ...]", _short(schema))


def _reader(schema: OperatorSchema, name: str) -> str:
    """Declare a reader of dynamic mode."""
    arguments = [*_arguments(schema, "Array"), *(_argument(each, "Array") for each in COMMON_ARGUMENTS)]
    first = ["self", "max_batch_size: int | None = None", "name: str | None = None", "device: Any = None"]
    init = _declared("def __init__(", [*first, "*", "enable_checkpointing: _bool = False", *arguments], "None", "")
    return f"class {name}(Reader):\n" + textwrap.indent(f"{_docstring(_short(schema))}\n{init}", "    ")


def _alias(schema: OperatorSchema, name: str, namespace: str, target: str) -> str:
    assert schema.alias_of is not None
    folder = schema.alias_of.rpartition(".")[0]
    return f"from {'.'.join(filter(None, ['dali_proxy.pipeline', namespace, folder]))} import {target} as {name}"


def _inputs(schema: OperatorSchema, first: str, others: str) -> list[str]:
    inputs = [
        f"{given.name}: {others if position else first}{' | None = None' if given.optional else ''}"
        for position, given in enumerate(schema.inputs)
    ]
    if schema.variadic:
        repeated = inputs.pop().removesuffix(" | None = None")
        return [*inputs, *(["/"] if inputs else []), f"*{repeated}"]
    return [*inputs, "/"] if inputs else []


def _arguments(schema: OperatorSchema, node: str) -> list[str]:
    """Return the declarations of an operator's own arguments; `node` is the type of values of a batch."""
    declared = sorted(schema.arguments, key=lambda argument: argument.name)
    return [_argument(each, node) for each in declared if each.name.isidentifier()]


def _argument(argument: Argument, node: str) -> str:
    kind = _TYPES[argument.kind]
    if argument.choices:
        kind = f"Literal[{', '.join(map(repr, argument.choices))}]"
    if argument.per_sample and kind != "Any":
        kind += f" | {node}"
    default = argument.default
    if default is REQUIRED:
        return f"{argument.name}: {kind}"
    if default is None and kind != "Any":
        kind += " | None"
    text = f"{type(default).__name__}.{default.name}" if isinstance(default, Enum) else repr(default)
    return f"{argument.name}: {kind} = {text if len(text) < 60 else '...'}"


def _result(schema: OperatorSchema, single: str, several: str) -> tuple[str, str | None]:
    """Return the type of the result, and the name of a Boolean argument that adds outputs to a single one."""
    many = several.format(single)
    if isinstance(schema.outputs, int):
        if schema.optional_outputs and schema.outputs == 1:
            return "Any", None
        return {0: "None", 1: single}.get(schema.outputs, many), None
    try:
        if schema.output_count({}) != 1:
            return ("Any" if any(_count(schema, each) == 1 for each in _flags(schema)) else many), None
    except KeyError:  # the number of outputs follows from a required argument
        return "Any", None
    adding = [each for each in _flags(schema) if _count(schema, each) != 1]
    return (single, adding[0]) if adding else ("Any", None)


def _flags(schema: OperatorSchema) -> list[str]:
    return [each.name for each in schema.arguments if each.kind is Kind.BOOL and each.default is False]


def _count(schema: OperatorSchema, flag: str) -> int:
    return schema.output_count({flag: True})


def _overloaded(
    name: str, inputs: list[str], arguments: list[str], result: tuple[str, str | None], several: str, doc: str
) -> str:
    """Declare a function. If a flag adds outputs, the function has an overload with that flag."""
    single, flag = result
    if flag is None:
        return _declared(f"def {name}(", [*inputs, "*", *arguments], single, doc)
    parameters = [*inputs, "*", f"{flag}: Literal[True]", "**arguments: Any"]
    others = [each.replace(f"{flag}: _bool", f"{flag}: Literal[False]") for each in arguments]
    first = _declared(f"def {name}(", parameters, several.format(single), "")
    return f"@overload\n{first}@overload\n" + _declared(f"def {name}(", [*inputs, "*", *others], single, doc)


def _declared(head: str, parameters: list[str], result: str, doc: str) -> str:
    """Return a declaration, with several parameters on each line."""
    star = parameters.index("*") if "*" in parameters else None
    if star is not None and any(each.startswith("*") for each in (*parameters[:star], parameters[star + 1])):
        del parameters[star]
    body = ":" if doc else ": ..."
    lines = _wrapped(head, parameters, f") -> {result}{body}")
    return "\n".join([*lines, *([textwrap.indent(_docstring(doc), "    ")] if doc else [])]) + "\n"


def _wrapped(head: str, items: Iterable[str], foot: str) -> list[str]:
    """Return a list of items in brackets, over as many lines as it needs."""
    items = list(items)
    text = ", ".join(items)
    if len(head + text + foot) <= _WIDTH - 4:
        return [head + text + foot]
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) > _WIDTH - 12:
            lines.append("")
        lines[-1] += f" {item}," if lines[-1] else f"    {item},"
    return [head, *lines, foot]


def _documentation(schema: OperatorSchema, function: Any) -> str:
    """Return the docstring of a function, without the arguments that mean the same in all operators."""
    same = [f"    {each.name} (" for each in COMMON_ARGUMENTS if not (schema.random and each.name == "seed")]
    lines = (inspect.getdoc(function) or "").splitlines()
    return "\n".join(line for line in lines if not line.startswith((*same, "    name (str): ")))


def _short(schema: OperatorSchema) -> str:
    summary = re.split(r"(?<=\.)\s", inspect.cleandoc(schema.doc))[0]
    return f"{summary} `fn.{schema.name}` describes the arguments."


def _docstring(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{quoted}"""' if "\n" not in quoted else f'"""{quoted}\n"""'


def main() -> None:
    """Write the stubs, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a stub isn't current")
    check = parser.parse_args().check
    for path, text in stubs().items():
        file = ROOT / path
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        if check:
            raise SystemExit(f"{path} isn't current: run python -m docs.all")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
