"""Arguments of transforms in normal form, by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.types import DALIInterpType

Parser = Callable[[str, Any], Any]


class InterpolationMode(Enum):
    """Interpolation modes, with the names and values of torchvision."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PIL_CODES = dict(
    enumerate(InterpolationMode[name] for name in ["NEAREST", "LANCZOS", "BILINEAR", "BICUBIC", "BOX", "HAMMING"])
)
_INTERPOLATION = {
    InterpolationMode.NEAREST: DALIInterpType.INTERP_NN,
    InterpolationMode.NEAREST_EXACT: DALIInterpType.INTERP_NN,
    InterpolationMode.BILINEAR: DALIInterpType.INTERP_LINEAR,
    InterpolationMode.BICUBIC: DALIInterpType.INTERP_CUBIC,
    InterpolationMode.LANCZOS: DALIInterpType.INTERP_LANCZOS3,
}


def is_sequence(value: Any) -> bool:
    """Return whether a value is a list or tuple."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def is_integer(value: Any) -> bool:
    """Return whether a value is an int and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def optional(parser: Parser) -> Parser:
    """Return a parser that accepts None, too."""
    return lambda name, value: None if value is None else parser(name, value)


def positive(name: str, value: Any, zero: bool = False) -> None:
    """Check that a number, or each number of a sequence, is positive; with `zero`, that it isn't negative."""
    values = value if is_sequence(value) else [value]
    if any(each < 0 or (each == 0 and not zero) for each in values):
        kind = "non-negative" if zero else "positive"
        start, end = (f"Values {name}", f"{kind} numbers") if is_sequence(value) else (f"Value {name}", kind)
        raise ArgumentValueError(f"{start} must be {end}, got {value}")


def ordered(name: str, values: Any) -> tuple[float, float]:
    """Return two numbers, the smaller one first."""
    if values[0] > values[1]:
        raise ArgumentValueError(f"Values {name} should be (min, max), got {values}")
    return float(values[0]), float(values[1])


def size(name: str, value: Any) -> tuple[int, int]:
    """Return a size as (height, width)."""
    values = list(value) if is_sequence(value) else [value]
    if not all(map(is_integer, values)):
        raise ArgumentTypeError(f"Size must be int, list, or tuple, got {type(value)}")
    if len(values) not in (1, 2):
        raise ArgumentValueError(f"Size sequence must have length 1 or 2, got {len(values)}")
    positive(name, value)
    return values[0], values[-1]


def resize_size(name: str, value: Any) -> int | tuple[int, int] | None:
    """Return the size of a resize: an int for the shorter side, (height, width), or None for `max_size`."""
    if value is None:
        return None
    values = list(value) if is_sequence(value) else [value]
    if not all(map(is_integer, values)):
        raise ArgumentValueError(
            "Invalid combination: size must be int, None, or sequence of two ints. max_size only applies when size is "
            f"int or None. Got {value!r}"
        )
    if len(values) not in (1, 2):
        raise ArgumentValueError(f"size sequence must have length 1 or 2, got {len(values)}")
    if min(values) <= 0:
        raise ArgumentValueError(f"size {'values ' * is_sequence(value)}must be positive, got {value}")
    return values[0] if len(values) == 1 else (values[0], values[1])


def probability(name: str, value: Any) -> float:
    """Return a probability."""
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ArgumentValueError(f"{name} should be a floating point value in the interval [0.0, 1.0]. Got: {value!r}")
    return float(value)


def interpolation(name: str, value: Any) -> DALIInterpType:
    """Return a mode of interpolation as operators declare it."""
    if isinstance(value, DALIInterpType):
        return value
    if is_integer(value):
        if value not in _PIL_CODES:
            raise ArgumentValueError(
                f"Interpolation int {value} is not a valid PIL code; expected one of {list(_PIL_CODES)}"
            )
        value = _PIL_CODES[value]
    names = {mode.value: mode for mode in InterpolationMode}
    mode = names.get(getattr(value, "value", ""))  # torchvision's own enumeration, too
    if mode is None:
        raise ArgumentValueError(
            "Argument interpolation should be an `InterpolationMode` or a corresponding Pillow integer constant, but "
            f"got {value}."
        )
    if mode not in _INTERPOLATION:
        raise NotImplementedError(
            f"Interpolation mode: {mode!r} is not supported: use NEAREST instead of NEAREST_EXACT, because it "
            "takes the nearest pixel centre, and BILINEAR with antialias instead of BOX and HAMMING"
        )
    return _INTERPOLATION[mode]


def padding(name: str, value: Any) -> tuple[int, int, int, int]:
    """Return padding as (left, top, right, bottom)."""
    values = list(value) if is_sequence(value) else [value]
    if not all(map(is_integer, values)):
        raise ArgumentTypeError(f"Padding must be an int or a sequence of length 2 or 4, got {type(value)}")
    if len(values) not in (1, 2, 4):
        raise ArgumentMismatchError(
            f"Padding must be an int or a sequence of length 2 or 4, got {type(value)}. "
            f"Padding sequence must have length 1, 2 or 4, got {len(values)}"
        )
    positive(name, value, zero=True)
    left, top, right, bottom = (values * 4)[:4] if len(values) != 2 else values * 2
    return left, top, right, bottom


_PADDING_MODES = {"constant": "pad", "edge": "edge", "reflect": "reflect_101", "symmetric": "reflect_1001"}


def padding_mode(name: str, value: Any) -> str:
    """Return a mode of padding as operators declare it."""
    if value in _PADDING_MODES.values():
        return str(value)
    if value not in _PADDING_MODES:
        raise ArgumentValueError(f"Invalid padding mode, expected {list(_PADDING_MODES)}, got {value}")
    return _PADDING_MODES[value]


def fill(name: str, value: Any) -> list[float]:
    """Return fill values: one, or one per channel."""
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise ArgumentTypeError(f"{name}: images have one type here, so pass one value instead of {value!r}")
        value = next(iter(value.values()))
    try:
        return [float(each) for each in (value if is_sequence(value) else [value or 0])]
    except (TypeError, ValueError) as error:
        raise ArgumentValueError(f"{name} must be a number or a sequence of numbers, got {value!r}") from error


def value_range(name: str, value: Any) -> tuple[float, float]:
    """Return a range of positive numbers."""
    if not is_sequence(value) or len(value) != 2:
        raise ArgumentTypeError(f"{name} should be a sequence of two numbers")
    if min(value) <= 0:
        raise ArgumentValueError(f"{name} values must be positive, got {value}")
    if value[0] > value[1]:
        raise ArgumentValueError(f"{name} should be a (min, max) range, got {value}")
    return float(value[0]), float(value[1])


def kernel_size(name: str, value: Any) -> list[int]:
    """Return the size of a kernel as [height, width]; given is (width, height)."""
    values = list(value) if is_sequence(value) else [value]
    if len(values) not in (1, 2) or not all(map(is_integer, values)):
        raise ArgumentValueError(f"Kernel size should be an int or a sequence of ints, got {value}")
    positive(name, value)
    if any(each % 2 == 0 for each in values):
        raise ArgumentValueError(f"Kernel size values should be odd positive numbers, got {value}")
    return [values[-1], values[0]]


def sigma(name: str, value: Any) -> tuple[float, float]:
    """Return a standard deviation, or a range for it, as (min, max)."""
    if not is_sequence(value) and not isinstance(value, int | float):
        raise ArgumentValueError(f"sigma must be a float or a (min, max) sequence, got {type(value)}")
    values = list(value) if is_sequence(value) else [value, value]
    if len(values) != 2:
        raise ArgumentValueError(f"sigma sequence must have exactly 2 elements (min, max), got {len(values)}")
    positive(name, value)
    return ordered(name, values)


def factors(name: str, value: Any) -> tuple[float, float]:
    """Return a range of factors: given is its half width around 1, or the range itself."""
    _check_numbers(name, value)
    positive(name, value, zero=True)
    return ordered(name, value) if is_sequence(value) else (max(0.0, 1.0 - value), 1.0 + value)


def shifts(name: str, value: Any) -> tuple[float, float]:
    """Return a range of hues in turns: given is the largest shift, or the range itself."""
    _check_numbers(name, value)
    if not is_sequence(value):
        if not 0 <= value <= 0.5:
            raise ArgumentValueError(
                f"If {name} is a single number, it must be non-negative and < 0.5, or equal to it, got {value}"
            )
        return -float(value), float(value)
    limits = ordered(name, value)
    if not -0.5 <= limits[0] <= limits[1] <= 0.5:
        raise ArgumentValueError(f"{name} values should be between [-0.5, 0.5], but got {value}")
    return limits


def _check_numbers(name: str, value: Any) -> None:
    if value is None:
        raise ArgumentValueError(f"{name} must not be None")
    values = value if is_sequence(value) else [0, value]
    if len(values) != 2 or not all(isinstance(each, int | float) for each in values):
        raise ArgumentValueError(f"{name} must be a number or a (min, max) sequence, got {value!r}")


def symmetric_range(name: str, value: Any) -> tuple[float, float]:
    """Return a range of angles: given is its upper end, or (min, max)."""
    if isinstance(value, int | float):
        if value < 0:
            raise ArgumentValueError(f"If {name} is a single number, it must be positive, got {value}")
        return -float(value), float(value)
    if not is_sequence(value) or len(value) != 2:
        raise ArgumentTypeError(f"{name} should be a number or a sequence of length 2, got {value!r}")
    return float(value[0]), float(value[1])


def statistics(name: str, value: Any) -> list[float]:
    """Return means or standard deviations of channels."""
    if not is_sequence(value):
        raise ArgumentTypeError(f"{name.capitalize()} must be a Sequence, got {type(value)}")
    if not value or (name == "std" and any(each == 0 for each in value)):
        raise ArgumentValueError(f"{name.capitalize()} must not be {'0' if value else 'empty'}")
    return [float(each) for each in value]


def refuse_inplace(name: str, value: Any) -> bool:
    """Check that an operation shall not overwrite its input."""
    if value:
        raise NotImplementedError("inplace is not supported: operators never overwrite their inputs")
    return False


def gray_channels(name: str, value: Any) -> int:
    """Return the number of channels of a gray image."""
    if value not in (1, 3):
        raise ArgumentValueError(f"{name} must be 1 or 3, got {value}.")
    return int(value)


#: The parser of each argument; other arguments are passed unchanged.
PARSERS: dict[str, Parser] = {
    "size": size,
    "output_size": size,
    "p": probability,
    "interpolation": interpolation,
    "padding": padding,
    "padding_mode": padding_mode,
    "fill": fill,
    "kernel_size": kernel_size,
    "brightness": factors,
    "contrast": factors,
    "saturation": factors,
    "hue": shifts,
    "degrees": symmetric_range,
    "inplace": refuse_inplace,
    "num_output_channels": gray_channels,
    "distortion_scale": probability,
}
