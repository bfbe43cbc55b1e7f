"""Declared dtypes, dimensions and layouts of a pipeline's outputs, which each batch is checked against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dali_proxy.pipeline._operator_api.request import BatchResult, TensorList
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, BuildError, PipelineError
from dali_proxy.pipeline.types import NO_TYPE, DALIDataType

#: What outputs may declare: the types of one item, the types in words, and the name in messages.
_KINDS: dict[str, tuple[type, str, str]] = {
    "output_dtype": (DALIDataType, "a value from types.DALIDataType, a list of these or None", "Data type"),
    "output_ndim": (int, "an int, a list of ints or None", "Number of dimensions"),
    "output_layout": (str, "a str, a list of str or None", "Layout"),
}


@dataclass(frozen=True)
class OutputDeclarations:
    """The arguments `output_dtype`, `output_ndim` and `output_layout` of a pipeline.

    Each is one item for all outputs, or a sequence with an item for each output; None declares nothing.

    Raises:
        ArgumentTypeError, ArgumentValueError: an argument has the wrong type or an impossible value.
    """

    output_dtype: Any = None
    output_ndim: Any = None
    output_layout: Any = None

    def __post_init__(self) -> None:
        for name, (kind, expected, _) in _KINDS.items():
            value = getattr(self, name)
            several = isinstance(value, list | tuple)
            where = " in the list" if several else ""
            for item in value if several else (value,):
                if item is None:
                    continue
                if not isinstance(item, kind) or isinstance(item, bool):
                    raise ArgumentTypeError(f"`{name}` must be either: {expected}. Found type: {type(item)}{where}.")
                if item is NO_TYPE:
                    raise ArgumentValueError(f"`{name}` can't be a types.NO_TYPE. Found {item!r}{where}.")
                if isinstance(item, int) and kind is int and item < 0:
                    raise ArgumentValueError(f"`{name}` must be non-negative. Found value {item}{where}.")

    def for_outputs(self, name: str, count: int) -> list[Any]:
        """Return the declared item of each output.

        Raises:
            BuildError: a sequence has a different length.
        """
        value = getattr(self, name)
        if not isinstance(value, list | tuple):
            return [value] * count
        if len(value) != count:
            raise BuildError(
                f"Lengths of provided output descriptions do not match: the pipeline has {count} outputs, but "
                f"{name}={list(value)} describes {len(value)}"
            )
        return list(value)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is declared."""
        return self.output_dtype is None and self.output_ndim is None and self.output_layout is None

    def check_count(self, count: int) -> None:
        """Check the lengths of sequences; raises the errors of `for_outputs`."""
        for name in _KINDS:
            self.for_outputs(name, count)

    def checked(self, result: BatchResult) -> BatchResult:
        """Return a result, or an error in its place if an output isn't as declared."""
        if self.is_empty:
            return result
        for name, (_, _, label) in _KINDS.items():
            if result.outputs and getattr(self, name) is not None:
                message = self._mismatch(name, label, result.outputs)
                if message:
                    return BatchResult(error=PipelineError(message), seconds=result.seconds)
        return result

    def _mismatch(self, name: str, label: str, outputs: Sequence[TensorList]) -> str:
        for number, (expected, output) in enumerate(zip(self.for_outputs(name, len(outputs)), outputs, strict=True)):
            received = {"output_dtype": output.dtype, "output_ndim": int(output.ndim)}.get(name, output.layout())
            if expected is not None and expected != received:
                wanted, got = (getattr(each, "name", str(each)) for each in (expected, received))
                return f"{label} in the output_idx={number} does not match. Expected: {wanted}. Received: {got}."
        return ""
