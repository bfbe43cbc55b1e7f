"""`functional` and `transform`: declare functions and classes of transforms, with torchvision's arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

from dali_proxy.pipeline._dynamic.devices import as_device
from dali_proxy.pipeline._dynamic.values import tracing
from dali_proxy.pipeline._graph.location import SourceLocation, at_location
from dali_proxy.pipeline._torchvision.arguments import PARSERS, Parser
from dali_proxy.pipeline._torchvision.images import Image, apply

F = TypeVar("F", bound=Callable[..., Any])
L = TypeVar("L", bound="Located")
_DEVICE = inspect.Parameter("device", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="cpu")


class Located:
    """An object that knows the user's line that created it: in a trace, its operators are at this line."""

    _location: SourceLocation

    def __new__(cls: type[L], *args: Any, **kwargs: Any) -> L:
        self = super().__new__(cls)
        self._location = SourceLocation.from_caller()
        return self

    def _at_its_line(self) -> AbstractContextManager[None]:
        return at_location(self._location) if tracing.active() else nullcontext()


class Transform(Located):
    """A transform: an object that is called with an image, or as a part of `Compose`.

    Args:
        *args: arguments of the transform.
        **kwargs: arguments of the transform; `device="gpu"` also copies the images to the GPU first. By default, images
            stay on their device.
    """

    _signature: inspect.Signature
    _parsers: Mapping[str, Parser]
    _function: Callable[..., Any]
    _check: Callable[..., None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        self.device = _checked_device(bound.arguments.pop("device"))
        for name, value in bound.arguments.items():
            setattr(self, name, value)
        self._arguments = _parsed(bound.arguments, self._parsers)
        self._check(**self._arguments)

    def __call__(self, inpt: Any) -> Any:
        """Return the transformed images, in the type of the input: see `apply`."""
        with self._at_its_line():
            return apply(self._transformed, inpt)

    def _transformed(self, image: Image) -> Any:
        return type(self)._function(_on_device(image, self.device), **self._arguments)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._arguments)
        return f"{type(self).__name__}({given})"


def transform(
    name: str = "", check: Callable[..., None] = lambda **_: None, **parsers: Parser
) -> Callable[[Callable[..., Any]], type[Transform]]:
    """Return a decorator that makes a function of an image and arguments the class of a transform.

    Args:
        name: name of the class; by default that of the function in CamelCase.
        check: function that checks the combination of the arguments.
        **parsers: parsers of arguments that differ from `PARSERS`.
    """

    def decorate(function: Callable[..., Any]) -> type[Transform]:
        function = inspect.unwrap(function)
        given = inspect.signature(function)
        parameters = [*list(given.parameters.values())[1:], _DEVICE]

        def initialize(self: Transform, *args: Any, **kwargs: Any) -> None:
            Transform.__init__(self, *args, **kwargs)

        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        initialize.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
        public = name or function.__name__.title().replace("_", "")
        documented = re.sub(r"\n +(image|inpt): images\.(?=\n)", "", function.__doc__ or "")
        attributes = {
            "__doc__": re.sub(r"\n\n +Args:\n *$", "\n", documented),
            "__module__": "dali_proxy.pipeline.torchvision",
            "__init__": initialize,
            "_signature": inspect.Signature(parameters),
            "_parsers": {**PARSERS, **parsers},
            "_check": staticmethod(check),
            "_function": staticmethod(function),
        }
        return type(public, (Transform,), attributes)

    return decorate


def functional(**parsers: Parser) -> Callable[[F], F]:
    """Return a decorator for a function of an image: it then accepts PIL images, torch tensors and dynamic tensors.

    Called with an `Image`, the function is called directly, and the arguments aren't checked.
    """
    table = {**PARSERS, **parsers}

    def decorate(function: F) -> F:
        given = inspect.signature(function)
        parameters = [*given.parameters.values(), _DEVICE]
        signature = inspect.Signature(parameters)

        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], Image):
                return function(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            device = _checked_device(bound.arguments.pop("device"))
            (_, value), *rest = bound.arguments.items()
            arguments = _parsed(dict(rest), table)
            return apply(lambda image: function(_on_device(image, device), **arguments), value)

        wrapper.__signature__ = given.replace(parameters=parameters)  # type: ignore[attr-defined]
        wrapper.__module__ = "dali_proxy.pipeline.torchvision.functional"
        return cast(F, wrapper)

    return decorate


def _parsed(arguments: Mapping[str, Any], parsers: Mapping[str, Parser]) -> dict[str, Any]:
    return {name: parsers[name](name, value) if name in parsers else value for name, value in arguments.items()}


def _checked_device(device: Any) -> str:
    found = as_device(device)
    return "cpu" if found is None else found.device_type


def _on_device(image: Image, device: str) -> Image:
    return image.replaced(image.data.gpu()) if device == "gpu" else image
