"""Draw calls of operators: batches of random shapes, dtypes and layouts, and arguments, constant or per sample."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

Array = npt.NDArray[Any]

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
ALL = (*INTEGERS, "bool", "float16", "float32", "float64")


@dataclass(frozen=True)
class Type:
    """A member of `types`, by name: each library has separate objects."""

    name: str


@dataclass
class Call:
    """One call of an operator.

    Attributes:
        inputs: batches and their layouts; an entry that isn't a list of samples is passed unchanged.
        constants: keyword arguments.
        per_sample: keyword arguments with one array per sample.
        by_frame: names of per-sample arguments that have a row for each frame.
        on_cpu: inputs that stay on the CPU if the operator runs on the GPU.
        size: batch size, if no batch determines it.
        ties: share of values that may differ, because two pixels are equally near.
        ends: allowed difference as a fraction of the largest value: a Gaussian doesn't end at 0, so it matters
            whether a pixel exactly at its end counts.
    """

    inputs: list[tuple[Any, str | None]] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    per_sample: dict[str, list[Array]] = field(default_factory=dict)
    by_frame: set[str] = field(default_factory=set)
    on_cpu: tuple[int, ...] = ()
    size: int = 2
    ties: float = 0.0
    ends: float = 0.0

    @property
    def batch_size(self) -> int:
        batches = [*(data for data, _ in self.inputs if isinstance(data, list)), *self.per_sample.values()]
        return len(batches[0]) if batches else self.size

    @property
    def names(self) -> set[str]:
        return {*self.constants, *self.per_sample}


class Draw:
    """The means to draw the call of a case.

    Args:
        data: hypothesis' source of choices.
        framed: arguments of the operator that may differ from frame to frame.
        gpu: whether the call runs on a GPU, which supports less of several operators.
    """

    def __init__(self, data: st.DataObject, framed: Collection[str] = (), *, gpu: bool = False) -> None:
        self.gpu = gpu
        self._draw = data.draw
        self._framed = framed
        self._frames: list[int] | None = None
        self.count = self.integer(1, 3)
        self.call = Call(size=self.count)
        self._noise = np.random.default_rng(self.integer(0, 1000))

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def real(self, low: float, high: float) -> float:
        """Return a number with few digits: exact in float32, and short in reports."""
        return self.integer(round(low * 8), round(high * 8)) / 8

    def flag(self) -> bool:
        return self._draw(st.booleans())

    def one(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def some(self, choices: Sequence[Any], least: int = 1) -> list[Any]:
        """Return distinct choices, in any order."""
        order = self._draw(st.permutations(list(choices)))
        return order[: self.integer(least, len(choices))]

    def nothing(self) -> bool:
        """Return whether samples may be empty, at random."""
        return self.integer(0, 7) == 0

    def frames(self) -> list[int] | None:
        """Return each sample's number of frames in the first input, or None if it isn't an input of sequences."""
        data, layout = self.call.inputs[0] if self.call.inputs else (None, None)
        if isinstance(data, list) and (layout or "")[:1] == "F":
            return [len(sample) for sample in data]
        return self._frames

    def free_frames(self) -> list[int]:
        """Return numbers of frames for arguments if no input determines them."""
        if self._frames is None:
            self._frames = [self.integer(1, 3) for _ in range(self.count)]
        return self._frames

    def noise(self, shape: Sequence[int], dtype: npt.DTypeLike, low: float = 0, high: float = 255) -> Array:
        """Return an array of random values within the given range and the dtype's."""
        kind = np.dtype(dtype)
        if kind.kind == "f":
            return np.asarray(self._noise.uniform(low, high, shape)).astype(kind)
        if kind.kind == "b":
            return np.asarray(self._noise.integers(0, 2, shape)).astype(kind)
        limits = np.iinfo(kind)
        return np.asarray(
            self._noise.integers(max(low, limits.min), min(high, limits.max), shape, endpoint=True)
        ).astype(kind)

    def shape(self, ndim: int, least: int = 1, most: int = 6) -> tuple[int, ...]:
        return tuple(self.integer(least, most) for _ in range(ndim))

    def arrays(
        self,
        ndim: int | None = None,
        dtypes: Sequence[str] = ALL,
        *,
        layout: str | None = None,
        same: Sequence[int] = (),
        empty: bool = True,
        least: int = 1,
        most: int = 6,
        low: float = -100,
        high: float = 200,
    ) -> list[Array]:
        """Add an input: a ragged batch of arrays.

        Args:
            ndim: number of dimensions of the samples, without frames.
            dtypes: dtypes to draw from.
            layout: layout of the samples.
            same: axes whose extents all samples share; -1 for all of them.
            empty: whether extents may be 0, where `least` is 1.
            least: smallest extent.
            most: largest extent.
            low: smallest value.
            high: largest value.
        """
        ndim = self.integer(0, 4) if ndim is None else ndim
        dtype = self.one(*dtypes)
        least = 0 if empty and least == 1 and self.nothing() else least
        first = self.shape(ndim, least, most)
        shapes = [first]
        for _ in range(self.count - 1):
            other = self.shape(ndim, least, most)
            shapes.append(tuple(first[axis] if axis in same or -1 in same else other[axis] for axis in range(ndim)))
        samples = [self.noise(shape, dtype, low, high) for shape in shapes]
        self.call.inputs.append((samples, layout))
        return samples

    def images(
        self,
        layouts: Sequence[str] = ("HWC",),
        dtypes: Sequence[str] = ("uint8",),
        *,
        channels: Sequence[int] = (1, 3),
        named: bool | None = None,
        least: int = 1,
        most: int = 12,
        low: float = 0,
        high: float = 255,
    ) -> tuple[str, list[Array]]:
        """Add an input of images, volumes or sequences; return their layout and the samples.

        Args:
            layouts: layouts to draw from.
            dtypes: dtypes to draw from.
            channels: numbers of channels to draw from.
            named: whether to pass the layout; by default it may be omitted if it is the first one of its length.
            least: smallest height, width and depth.
            most: largest height, width and depth.
            low: smallest value.
            high: largest value.
        """
        layout, dtype, depth = self.one(*layouts), self.one(*dtypes), self.one(*channels)
        samples = []
        for _ in range(self.count):
            extents = {"C": depth, "F": self.integer(1, 3)}
            shape = [extents.get(letter) or self.integer(least, most) for letter in layout]
            samples.append(self.noise(shape, dtype, low, high))
        first = next(other for other in layouts if len(other) == len(layout))
        given = layout if named or (named is None and (first != layout or self.flag())) else None
        self.call.inputs.append((samples, given))
        return layout, samples

    def give(self, **constants: Any) -> None:
        """Add constant arguments."""
        self.call.constants.update(constants)

    def maybe(self, name: str, make: Any) -> None:
        """Add a constant argument from `make()`, or omit it."""
        if self.flag():
            self.call.constants[name] = make()

    def argument(self, name: str, make: Any, dtype: npt.DTypeLike = np.float32, *, always: bool = False) -> None:
        """Add an argument from `make()`: omitted, a constant, per sample or per frame."""
        frames = self.frames() if name in self._framed else None
        ways = ["constant", "sample", *([] if always else ["none"]), *(["frame"] if frames else [])]
        way = self.one(*ways)
        if way == "constant":
            self.call.constants[name] = make()
        elif way == "sample":
            self.call.per_sample[name] = [np.array(make(), dtype) for _ in range(self.count)]
        elif way == "frame" and frames:
            self.call.per_sample[name] = [np.array([make() for _ in range(count)], dtype) for count in frames]
            self.call.by_frame.add(name)

    def per_sample(self, name: str, values: Sequence[Any], dtype: npt.DTypeLike = np.float32) -> None:
        """Add an argument per sample."""
        self.call.per_sample[name] = [np.array(value, dtype) for value in values]
