"""Messages are frozen dataclasses; their type hints are the schema of what goes over the wire.

Nothing that arrives is trusted: a message has the fields that its class declares, of the declared types and
within the declared bounds, or it is refused. There is no pickle, and no way to name a class that wasn't
registered.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgpack

from pipeline._ipc.errors import ProtocolError

__all__ = ["I64", "U8", "U16", "U32", "U64", "Bounds", "Codec", "MaxLength"]


@dataclass(frozen=True)
class Bounds:
    """Annotates an ``int``: the smallest and largest value allowed."""

    low: int
    high: int


@dataclass(frozen=True)
class MaxLength:
    """Annotates a ``str`` (UTF-8 bytes), ``bytes`` or ``tuple[T, ...]`` (items): the longest allowed."""

    length: int


U8 = Annotated[int, Bounds(0, (1 << 8) - 1)]
U16 = Annotated[int, Bounds(0, (1 << 16) - 1)]
U32 = Annotated[int, Bounds(0, (1 << 32) - 1)]
U64 = Annotated[int, Bounds(0, (1 << 64) - 1)]
I64 = Annotated[int, Bounds(-(1 << 63), (1 << 63) - 1)]

_DEFAULT_TEXT = MaxLength(1 << 12)
_DEFAULT_BYTES = MaxLength(1 << 24)
_DEFAULT_ITEMS = MaxLength(1 << 16)

# Paths that aren't UTF-8 are text with surrogates in Python, and so are messages that name them.
_ERRORS = "surrogatepass"

_Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class _Field:
    """How values of one declared type go to the wire and come back; both refuse what doesn't fit.

    Attributes:
        to_wire, from_wire: convert one value, or refuse it.
        all_fit: tells for many values at once that both would return them as they are; False where one has to look.
    """

    to_wire: _Convert
    from_wire: _Convert
    all_fit: Callable[[tuple[Any, ...]], bool] = lambda values: False


class Codec:
    """Turns the messages of one protocol into bytes and back.

    Args:
        registry: the number of each message type on the wire, and the frozen dataclass that it is. Fields
            are ``int`` (64-bit signed, or annotated with `Bounds`), ``float``, ``bool``, ``str``, ``bytes``,
            ``tuple[T, ...]`` (annotated with `MaxLength`), ``tuple[A, B]``, ``T | None``, and frozen
            dataclasses of those.

    Raises:
        TypeError: a class isn't a frozen dataclass, or a field's type isn't one of those.

    Example:
        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: int
        ...     label: Annotated[str, MaxLength(10)]
        >>> codec = Codec({1: Point})
        >>> number, body = codec.encode(Point(3, "a"))
        >>> codec.decode(number, body)
        Point(x=3, label='a')
    """

    def __init__(self, registry: Mapping[int, type]) -> None:
        self._fields: dict[int, _Field] = {}
        self._numbers: dict[type, int] = {}
        for number, message_type in registry.items():
            if not 0 < number < 1 << 16 or message_type in self._numbers:
                raise TypeError(
                    f"{message_type.__name__}: number {number} is out of range, or the type is registered twice"
                )
            self._fields[number] = _dataclass_field(message_type)
            self._numbers[message_type] = number

    def encode(self, message: object) -> tuple[int, bytes]:
        """Return the number of the message's type, and its bytes.

        Raises:
            ProtocolError: a field's value doesn't fit its declaration, so the peer would refuse it.
        """
        number = self._numbers.get(type(message))
        if number is None:
            raise ProtocolError(f"{type(message).__name__} isn't a message of this protocol")
        body = msgpack.packb(self._fields[number].to_wire(message), unicode_errors=_ERRORS)
        return number, bytes(body)

    def decode(self, number: int, body: bytes | bytearray | memoryview) -> Any:
        """Return the message.

        Raises:
            ProtocolError: the number or the bytes aren't those of a message of this protocol.
        """
        field = self._fields.get(number)
        if field is None:
            raise ProtocolError(f"unknown message type {number}")
        try:
            wire = msgpack.unpackb(
                body,
                use_list=False,
                raw=False,
                strict_map_key=True,
                ext_hook=_refuse_extension,
                unicode_errors=_ERRORS,
            )
        except (
            ValueError,
            TypeError,
            OverflowError,
            RecursionError,
            msgpack.exceptions.UnpackException,
        ) as error:
            raise ProtocolError(f"a message of type {number} is malformed: {error or type(error).__name__}") from error
        return field.from_wire(wire)


def _refuse_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"extension type {code}")


def _dataclass_field(message_type: type) -> _Field:
    parameters = getattr(message_type, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise TypeError(f"{message_type.__name__} is not a frozen dataclass")
    hints = get_type_hints(message_type, include_extras=True)
    names = tuple(field.name for field in dataclasses.fields(message_type))
    fields = tuple(_field(hints[name], f"{message_type.__name__}.{name}") for name in names)
    outward = tuple(zip(names, (field.to_wire for field in fields), strict=True))
    inward = tuple(field.from_wire for field in fields)

    def to_wire(value: Any) -> tuple[Any, ...]:
        if type(value) is not message_type:
            raise ProtocolError(f"expected a {message_type.__name__}, got a {type(value).__name__}")
        return tuple([convert(getattr(value, name)) for name, convert in outward])

    def from_wire(wire: Any) -> Any:
        if type(wire) is not tuple or len(wire) != len(inward):
            raise ProtocolError(f"{message_type.__name__} has {len(inward)} fields, but the message has others")
        return message_type(*[convert(item) for convert, item in zip(inward, wire, strict=True)])

    return _Field(to_wire, from_wire)


def _field(hint: Any, where: str) -> _Field:
    annotations: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        annotations = tuple(rest)
    origin = get_origin(hint)
    if hint is int:
        return _int_field(_annotation(annotations, Bounds, get_args(I64)[1]), where)
    if hint in (float, bool):
        return _plain_field(hint, where)
    if hint is str:
        return _text_field(_annotation(annotations, MaxLength, _DEFAULT_TEXT), where)
    if hint is bytes:
        return _sized_field(bytes, _annotation(annotations, MaxLength, _DEFAULT_BYTES), where)
    if origin is tuple:
        return _tuple_field(get_args(hint), _annotation(annotations, MaxLength, _DEFAULT_ITEMS), where)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not type(None)]
        if len(kinds) == 1 and len(get_args(hint)) == 2:
            return _optional_field(_field(kinds[0], where))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass_field(hint)
    raise TypeError(f"{where}: fields of type {hint} can't be sent")


def _annotation(annotations: tuple[Any, ...], kind: type[Any], default: Any) -> Any:
    return next((each for each in annotations if isinstance(each, kind)), default)


def _int_field(bounds: Bounds, where: str) -> _Field:
    low, high = bounds.low, bounds.high

    def check(value: Any) -> Any:
        if type(value) is not int or not low <= value <= high:
            raise ProtocolError(f"{where} must be an integer from {low} to {high}, not {value!r:.40}")
        return value

    return _Field(check, check)


def _plain_field(kind: type, where: str) -> _Field:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise ProtocolError(f"{where} must be a {kind.__name__}, not a {type(value).__name__}")
        return value

    return _Field(check, check)


def _sized_field(kind: type[Sized], limit: MaxLength, where: str) -> _Field:
    length = limit.length

    def check(value: Any) -> Any:
        if type(value) is not kind or len(value) > length:
            given = f"{type(value).__name__} of {len(value)}" if type(value) is kind else type(value).__name__
            raise ProtocolError(f"{where} must be {kind.__name__} of at most {length}, not {given}")
        return value

    return _Field(check, check)


def _text_field(limit: MaxLength, where: str) -> _Field:
    length = limit.length

    def check(value: Any) -> Any:
        # Characters take up to 4 bytes: count them only where it matters.
        if type(value) is not str or (len(value) * 4 > length and len(value.encode(errors=_ERRORS)) > length):
            raise ProtocolError(f"{where} must be text of at most {length} bytes, not {type(value).__name__}")
        return value

    def all_fit(values: tuple[Any, ...]) -> bool:
        return set(map(type, values)) == {str} and max(map(len, values)) * 4 <= length

    return _Field(check, check, all_fit)


def _tuple_field(args: tuple[Any, ...], limit: MaxLength, where: str) -> _Field:
    if len(args) == 2 and args[1] is Ellipsis:
        item = _field(args[0], f"{where}[]")
        sized = _sized_field(tuple, limit, where).to_wire

        def each_with(convert: _Convert) -> _Convert:
            return lambda value: value if item.all_fit(sized(value)) else tuple([convert(each) for each in value])

        return _Field(each_with(item.to_wire), each_with(item.from_wire))
    items = tuple(_field(arg, f"{where}[{index}]") for index, arg in enumerate(args))

    def converter(converts: tuple[_Convert, ...]) -> _Convert:
        def convert(value: Any) -> Any:
            if type(value) is not tuple or len(value) != len(converts):
                raise ProtocolError(f"{where} must be {len(converts)} values")
            return tuple([each(part) for each, part in zip(converts, value, strict=True)])

        return convert

    return _Field(converter(tuple(item.to_wire for item in items)), converter(tuple(item.from_wire for item in items)))


def _optional_field(field: _Field) -> _Field:
    return _Field(
        lambda value: None if value is None else field.to_wire(value),
        lambda wire: None if wire is None else field.from_wire(wire),
    )
