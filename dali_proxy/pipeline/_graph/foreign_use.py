"""Errors for data that is used like a tensor of torch, a NumPy array or an image of PIL: they say what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from dali_proxy.pipeline._declaration.registry import has_schema
from dali_proxy.pipeline._declaration.synonyms import operators_for
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline.errors import ArgumentTypeError

#: What other libraries call a method, and the function here.
_REPLACEMENTS = {
    **dict.fromkeys(("float", "half", "int", "long", "astype", "type"), "{module}.cast(x, dtype=types.FLOAT)"),
    **dict.fromkeys(("mean", "sum", "min", "max", "std"), "{module}.reductions.{name}(x)"),
    **dict.fromkeys(("clamp", "clip"), "math.clamp(x, low, high) of pipeline or of dynamic"),
    **dict.fromkeys(("cuda", "to"), "x.gpu() or x.cpu()"),
}
_OPERATOR = 'put the code into a function with @operator_def(framework="torch") (or "numpy"), which gets one sample'


class ForeignUse:
    """Base class of data nodes and of dynamic tensors."""

    _module = "fn"

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> NoReturn:
        """Refuse a function of torch. Python's operators then try those of this class."""
        name = getattr(function, "__name__", str(function))
        kind = next((each.__name__ for each in types if issubclass(each, ForeignUse)), cls.__name__)
        raise ArgumentTypeError(
            f"{name} of torch got a {kind} of dali-proxy, not a torch.Tensor: {cls._advice()}\n"
            f"  at {SourceLocation.from_caller()}"
        )

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name.startswith("_") and name != "__array_interface__":  # that one is for PIL's Image.fromarray
            raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=None)
        operators = [name] if has_schema(name) else operators_for(name)
        replacement = _REPLACEMENTS.get(name) or (f"{{module}}.{operators[0]}(x, ...)" if operators else "")
        instead = f"use {replacement.format(module=self._module, name=name)}, or " if replacement else ""
        raise AttributeError(
            f"a {kind} of dali-proxy has no attribute {name!r}: {instead}{self._advice()}", name=name, obj=None
        )  # with obj=self, a traceback would suggest other attributes

    @classmethod
    def _advice(cls) -> str:
        return _OPERATOR
