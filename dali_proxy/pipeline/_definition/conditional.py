"""Rewrites graph functions, so that `if`, `and`, `or` and `not` work on data nodes."""

from __future__ import annotations

import ast
import copy
import inspect
import sysconfig
import textwrap
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from dali_proxy.pipeline._graph import conditions
from dali_proxy.pipeline.errors import GraphError

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Name of `_Runtime` in rewritten code, and prefix of the names that it defines.
_PREFIX = "dali_proxy_conditions_"
_MARK = "_dali_proxy_keeps_its_code"
_LAMBDA = "<lambda>"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_PACKAGES = (__name__.partition(".")[0], "dali_proxy")

_converted: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_CODES: weakref.WeakSet[types.CodeType] = weakref.WeakSet()


def do_not_convert(function: _Function) -> _Function:
    """Leave a function unchanged when a graph function with ``enable_conditionals=True`` calls it.

    Functions that it defines stay unchanged, too: use this for sources that must be pickled, for example.
    """
    setattr(function, _MARK, True)
    return function


def convert(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an equivalent function in which conditions may be data nodes.

    Functions that it calls are converted in turn, except functions of installed packages.

    Raises:
        GraphError: the source of the function can't be found.
    """
    if getattr(function, _MARK, False) or getattr(function, "__code__", None) in _CODES:
        return function
    try:
        definition = _lambda_definition(function) if function.__name__ == _LAMBDA else _definition(function)
    except (AttributeError, OSError, TypeError) as error:
        raise GraphError(
            f"enable_conditionals=True needs the source of {getattr(function, '__qualname__', function)}, which can't "
            f"be found: put the function into a file"
        ) from error
    if definition is None:
        return function
    _Rewriter().visit(definition)
    converted: Callable[..., Any] = _compiled(definition, function)
    return converted


def _definition(function: Callable[..., Any]) -> ast.FunctionDef | None:
    """Return the syntax of a function without its decorators; None if a class or a decorator stands in its place."""
    lines, first = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return None
    ast.increment_lineno(tree, first - 1)
    definition.decorator_list = []
    return definition


def _lambda_definition(function: Any) -> ast.FunctionDef | None:
    """Return the syntax of a lambda, as a function with another name; None if others on its line look alike."""
    code = function.__code__
    lines, _ = inspect.findsource(function)
    found = [node for node in ast.walk(ast.parse("".join(lines))) if isinstance(node, ast.Lambda) and _is(node, code)]
    if len({ast.dump(node) for node in found}) != 1:
        return None
    definition = _function(f"{_PREFIX}lambda", [], [ast.copy_location(ast.Return(found[0].body), found[0].body)])
    definition.args = found[0].args
    return ast.copy_location(definition, found[0])


def _is(node: ast.Lambda, code: types.CodeType) -> bool:
    """Return whether a lambda is where the code comes from: the same line and, since Python 3.11, the same columns."""
    if node.lineno != code.co_firstlineno:
        return False
    body = node.body
    begin, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    return all(
        begin <= (line, column) and (end_line, end_column) <= end
        for line, end_line, column, end_column in getattr(code, "co_positions", tuple)()
        if line is not None and column is not None and (line, column) != (end_line, end_column)
    )


def called(function: Any) -> Any:
    """Return the function to call instead of a function: itself, or a converted copy of a user's function.

    Converts each function once. Returns functions of installed packages and functions without source unchanged.
    """
    if isinstance(function, types.MethodType):
        inner = called(function.__func__)
        return function if inner is function.__func__ else types.MethodType(inner, function.__self__)
    if not isinstance(function, types.FunctionType) or function.__code__ in _CODES:
        return function
    if function.__module__.partition(".")[0] in _PACKAGES or function.__code__.co_filename.startswith(_INSTALLED):
        return function
    if function not in _converted:
        try:
            _converted[function] = convert(function)
        except (GraphError, SyntaxError):
            return function
    return _converted[function]


def is_converted(function: Any) -> bool:
    """Return whether a function is a converted copy of a user's function, or was defined in one."""
    return getattr(function, "__code__", None) in _CODES


class _Runtime:
    """The functions that rewritten code calls."""

    all_of = staticmethod(conditions.all_of)
    any_of = staticmethod(conditions.any_of)
    call = staticmethod(called)
    choose = staticmethod(conditions.choose)
    compare = staticmethod(conditions.compare)
    current = staticmethod(conditions.current)
    is_unusable = staticmethod(conditions.is_unusable)
    negate = staticmethod(conditions.negate)
    run_if = staticmethod(conditions.run_if)


def _compiled(definition: ast.FunctionDef, function: Any) -> Any:
    """Compile a definition, with the globals, the closure and the defaults of a function."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[_PREFIX] = types.CellType(_Runtime)
    names = [ast.arg(name) for name in cells]
    maker = _function("maker", names, [definition, ast.Return(_load(definition.name))])
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(maker, definition)], []))
    code = compile(module, function.__code__.co_filename, "exec")
    inner = _code_named(_code_named(code, "maker"), definition.name)
    closure = tuple(cells[name] for name in inner.co_freevars)
    compiled = types.FunctionType(inner, function.__globals__, function.__name__, function.__defaults__, closure)
    compiled.__kwdefaults__ = function.__kwdefaults__
    compiled.__qualname__, compiled.__module__ = function.__qualname__, function.__module__
    compiled.__doc__ = function.__doc__
    _register(inner)
    return compiled


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    return next(each for each in code.co_consts if isinstance(each, types.CodeType) and each.co_name == name)


def _register(code: types.CodeType) -> None:
    _CODES.add(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _register(constant)


class _Rewriter(ast.NodeTransformer):
    """Replaces conditions by calls, from the inside out."""

    def __init__(self) -> None:
        self._count = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.body = self._block(node.body)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node
        node.func = _call("call", [node.func], node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if _escapes(node):
            return node
        self.generic_visit(node)
        name = "all_of" if isinstance(node.op, ast.And) else "any_of"
        return _call(name, [_lambda(value) for value in node.values], node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 or _escapes(node):
            return self.generic_visit(node)
        self.generic_visit(node)
        pairs: list[ast.expr] = [
            ast.Tuple([ast.Constant(type(op).__name__), _lambda(operand)], ast.Load())
            for op, operand in zip(node.ops, node.comparators, strict=True)
        ]
        return _call("compare", [node.left, *pairs], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return _call("negate", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if _escapes(node):
            return node
        self.generic_visit(node)
        return _call("choose", [node.test, _lambda(node.body), _lambda(node.orelse)], node)

    def generic_visit(self, node: ast.AST) -> Any:
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list) and statements and isinstance(statements[0], ast.stmt):
                setattr(node, name, self._block(statements))
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list) and not (value and isinstance(value[0], ast.stmt)):
                setattr(node, name, [self.visit(item) if isinstance(item, ast.AST) else item for item in value])
        return node

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        block: list[ast.stmt] = []
        for number, statement in enumerate(statements):
            if isinstance(statement, ast.If) and not _leaves(statement):
                rest = statements[number + 1 :]
                if _returns(statement):
                    return block + self._returning(statement, rest)
                block += self._assigning(statement)
            else:
                block.append(self.visit(statement))
        return block

    def _assigning(self, node: ast.If) -> list[ast.stmt]:
        """Rewrite an `if` that assigns to variables: its branches become functions that take and return them."""
        names = sorted(_assigned([*node.body, *node.orelse]))
        parts = {
            f"{_PREFIX}part_{self._count + 1}_{number}": text
            for number, text in enumerate(sorted(_assigned_parts([*node.body, *node.orelse], names)))
        }
        variables: list[ast.expr] = [_load(name) for name in names]
        variables += [_current(text, _expression(text), node) for text in parts.values()]
        end: list[ast.stmt] = [ast.Return(ast.Tuple(variables, ast.Load()))]
        begin = [statement for name, text in parts.items() for statement in _restored(text, name)]
        branches, calls = self._branches(node, [*names, *parts], begin, end, parts)
        value = _call("run_if", calls, node)
        targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in (*names, *parts)]
        target: ast.stmt = ast.Assign([ast.Tuple(targets, ast.Store())], value) if targets else ast.Expr(value)
        after = copy.deepcopy(begin)
        return [*branches, *(ast.copy_location(each, node) for each in (target, *after))]

    def _returning(self, node: ast.If, rest: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite an `if` that returns: the statements after it become the end of the branches that don't return."""
        node.body = node.body if _ends(node.body) else [*node.body, *rest]
        node.orelse = node.orelse if _ends(node.orelse) else [*node.orelse, *copy.deepcopy(rest)]
        names = sorted(_assigned([*node.body, *node.orelse]))
        branches, calls = self._branches(node, names, [], [], {})
        calls[3] = ast.Tuple([], ast.Load())  # the branches return the result of the function
        return [*branches, ast.copy_location(ast.Return(_call("run_if", calls, node)), node)]

    def _branches(
        self,
        node: ast.If,
        names: list[str],
        begin: list[ast.stmt],
        end: list[ast.stmt],
        parts: dict[str, str],
    ) -> tuple[list[ast.stmt], list[ast.expr]]:
        self._count += 1
        test = self.visit(node.test)
        functions: list[ast.stmt] = []
        calls: list[ast.expr] = [test]
        for kind, statements in (("then", node.body), ("otherwise", node.orelse)):
            name = f"{_PREFIX}{kind}_{self._count}"
            parameters = [ast.arg(each) for each in names]
            body = [*copy.deepcopy(begin), *(self._block(statements) or [ast.Pass()]), *copy.deepcopy(end)]
            functions.append(ast.copy_location(_function(name, parameters, body), node))
            calls.append(_load(name))
        shown = [parts.get(each, each) for each in names]
        values: list[ast.expr] = [_current(each, _expression(each), node) for each in shown]
        calls += [
            ast.Tuple([ast.Constant(each) for each in shown], ast.Load()),
            ast.Tuple(values, ast.Load()),
        ]
        return functions, calls


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _current(text: str, expression: ast.expr, where: ast.AST) -> ast.expr:
    return _call("current", [ast.Constant(text), _lambda(expression)], where)


def _restored(text: str, name: str) -> list[ast.stmt]:
    """Return statements that give an attribute or an item the value of a variable, or delete it if there is none."""
    return ast.parse(
        f"if {_PREFIX}.is_unusable({name}):\n"
        f"    try:\n"
        f"        del {text}\n"
        f"    except (AttributeError, LookupError, TypeError):\n"
        f"        pass\n"
        f"else:\n"
        f"    {text} = {name}\n"
    ).body


def _lambda(body: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Lambda(ast.arguments([], [], None, [], [], None, []), body), body)


def _function(name: str, parameters: list[ast.arg], body: list[Any]) -> ast.FunctionDef:
    function: Any = ast.FunctionDef(name, ast.arguments([], parameters, None, [], [], None, []), body, [])
    function.returns = function.type_comment = None
    function.type_params = []
    return function  # type: ignore[no-any-return]


def _call(name: str, values: list[Any], where: ast.AST) -> ast.expr:
    call = ast.Call(ast.Attribute(_load(_PREFIX), name, ast.Load()), values, [])
    return ast.copy_location(call, where)


def _walk(nodes: Iterable[ast.AST], into_loops: bool = True) -> Iterable[ast.AST]:
    """Yield nodes recursively, except nodes in nested scopes."""
    for node in nodes:
        yield node
        if isinstance(node, _SCOPES) or (not into_loops and isinstance(node, ast.For | ast.While)):
            continue
        yield from _walk(ast.iter_child_nodes(node), into_loops)


def _assigned(statements: list[ast.stmt]) -> set[str]:
    names: set[str] = set()
    inner = {id(name) for node in _walk(statements) if isinstance(node, _COMPREHENSIONS) for name in ast.walk(node)}
    for node in _walk(statements):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inner:
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names


def _assigned_parts(statements: list[ast.stmt], names: Iterable[str]) -> set[str]:
    """Return the attributes and items that statements assign to, such as ``model.size`` and ``sizes["a"]``.

    Only those of variables that the statements don't assign to, with constants and such variables as indices.
    """
    local = set(names)
    found: set[str] = set()
    for node in _walk(statements):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            simple = all(
                isinstance(
                    each, ast.Attribute | ast.Subscript | ast.Constant | ast.expr_context | ast.UnaryOp | ast.USub
                )
                or (isinstance(each, ast.Name) and each.id not in local)
                for each in ast.walk(node)
            )
            if simple:
                found.add(ast.unparse(node))
    return found


def _returns(node: ast.If) -> bool:
    return any(isinstance(each, ast.Return) for each in _walk([*node.body, *node.orelse]))


def _ends(statements: list[ast.stmt]) -> bool:
    """Return whether the statements after these are unreachable."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return isinstance(last, ast.Return | ast.Raise)


def _escapes(node: ast.AST) -> bool:
    return any(isinstance(each, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for each in _walk([node]))


def _leaves(node: ast.If) -> bool:
    """Return whether the branches of an `if` can't become functions, so that it stays unchanged."""
    inside = [*node.body, *node.orelse]
    if any(isinstance(each, ast.Break | ast.Continue) for each in _walk(inside, into_loops=False)):
        return True
    kinds = (ast.Global, ast.Nonlocal, ast.Await, ast.Yield, ast.YieldFrom, ast.Delete)
    return any(isinstance(each, kinds) for each in _walk(inside))
