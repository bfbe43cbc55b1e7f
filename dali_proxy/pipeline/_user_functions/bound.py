"""`BoundFunction`: a function of the user with some arguments fixed; the others are inputs of the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dali_proxy.pipeline._user_functions.libraries import LibraryTransform


@dataclass(frozen=True)
class InputNumber:
    """Stands for an input of the operator among the arguments of a function."""

    number: int


@dataclass(frozen=True, eq=False)
class BoundFunction:
    """A function, and its arguments.

    Attributes:
        function: the function, or a transform of a library.
        positional: positional arguments: constants, or an `InputNumber` for each input.
        keywords: keyword arguments, likewise.
        layouts: layouts of the inputs.
    """

    function: Callable[..., Any] | LibraryTransform
    positional: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    layouts: tuple[str, ...] = ()

    #: Whether outputs have the layouts of the inputs.
    keeps_layout = True

    def __post_init__(self) -> None:
        function = self.function.transform if isinstance(self.function, LibraryTransform) else self.function
        # For messages, which name the user's function.
        object.__setattr__(self, "__wrapped__", function)
        object.__setattr__(self, "__qualname__", getattr(function, "__qualname__", None) or type(function).__qualname__)

    def with_layouts(self, layouts: Sequence[str]) -> BoundFunction:
        """Return the function for inputs with these layouts."""
        if not isinstance(self.function, LibraryTransform):
            return self
        return BoundFunction(self.function, self.positional, self.keywords, tuple(layouts))

    def __call__(self, *inputs: Any) -> Any:
        function = self.function
        if isinstance(function, LibraryTransform):
            names = [None] * len(self.positional) + list(self.keywords)
            return function.apply(inputs, names, self.layouts or ("",) * len(inputs))

        def value_of(argument: Any) -> Any:
            return inputs[argument.number] if isinstance(argument, InputNumber) else argument

        keywords = {name: value_of(argument) for name, argument in self.keywords.items()}
        return function(*map(value_of, self.positional), **keywords)
