"""Arguments of an operator for one batch: constants and per-sample values, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

if TYPE_CHECKING:
    from dali_proxy.pipeline._graph.graph import GraphNode

_Result = TypeVar("_Result")


def map_once(function: Callable[[Array], _Result], rows: Sequence[Array]) -> list[_Result]:
    """Return the results of a function for each row. It is called once for a constant, whose rows are one object."""
    results = {id(row): function(row) for row in {id(row): row for row in rows}.values()}
    return [results[id(row)] for row in rows]


class Arguments:
    """Arguments of one node for one batch: constants of the node, or a batch of values, one per sample."""

    def __init__(self, node: GraphNode, values: Mapping[str, TensorListCPU], batch_size: int) -> None:
        self._node = node
        self._values = values
        self._batch_size = batch_size

    def given(self, name: str) -> bool:
        """Return whether the user passed the argument, as a constant or per sample."""
        return name in self._values or name in self._node.arguments

    def constant(self, name: str) -> Any:
        """Return the value of an argument that can't differ from sample to sample, or its default."""
        return self._node.argument(name)

    def per_sample(self, name: str) -> bool:
        """Return whether the argument differs from sample to sample."""
        return name in self._values

    def optional(self, read: Callable[..., _Result], name: str, *options: Any) -> _Result | None:
        """Return what `scalars` or another method reads; None if the argument is not given and has no default."""
        missing = name not in self._values and self._node.argument(name) is None
        return None if missing else read(name, *options)

    def scalars(self, name: str, dtype: npt.DTypeLike = np.float64) -> Array:
        """Return one number per sample, shape (batch,).

        Raises:
            ArgumentValueError: a sample's value isn't a single number.
        """
        return self.vectors(name, 1, dtype)[:, 0]

    def vectors(self, name: str, length: int | None = None, dtype: npt.DTypeLike = np.float64) -> Array:
        """Return one vector per sample, shape (batch, length).

        Args:
            name: name of the argument.
            length: length of the vectors; a single number is repeated to fill it. With None, any length is accepted,
                but it must be the same for all samples.
            dtype: dtype of the result.

        Raises:
            ArgumentValueError: a sample's value has a different length.
        """
        values = self._values.get(name)
        if values is None:
            known = self._node.vectors
            key = (name, length, dtype, self._batch_size)
            if key not in known:
                known[key] = self._repeated(name, length, dtype)
            repeated: Array = known[key]
            return repeated
        array = values.small_array()
        if array is not None:
            rows = array.reshape(self._batch_size, -1).astype(dtype, copy=False)
            if length is None or rows.shape[1] == length:
                return rows
            if rows.shape[1] == 1:
                repeated = np.empty((self._batch_size, length), dtype)  # `np.broadcast_to` takes five times as long
                repeated[:] = rows
                return repeated
        vectors = [self._fit(name, np.asarray(sample, dtype=dtype).ravel(), length) for sample in values.samples]
        if len({len(vector) for vector in vectors}) > 1:
            raise ArgumentValueError(f"argument {name!r} has vectors of different lengths in one batch")
        return np.stack(vectors)

    def _repeated(self, name: str, length: int | None, dtype: npt.DTypeLike) -> Array:
        """Return `vectors` of a constant."""
        row = self._fit(name, self._constant(name, dtype), length)
        return np.broadcast_to(row, (self._batch_size, len(row)))

    def derived(self, compute: Callable[[Arguments, int], _Result], *names: str) -> _Result:
        """Return a value that depends on arguments and the size of the batch; it is computed once for constants."""
        if any(name in self._values for name in names):
            return compute(self, self._batch_size)
        known, key = self._node.vectors, (compute, names, self._batch_size)
        if key not in known:
            known[key] = compute(self, self._batch_size)
        result: _Result = known[key]
        return result

    def rows(self, name: str, dtype: npt.DTypeLike = np.float64) -> Sequence[Array]:
        """Return one vector of any length per sample."""
        values = self._values.get(name)
        if values is None:
            return [self._constant(name, dtype)] * self._batch_size
        array = values.small_array()
        if array is not None:
            return list(array.reshape(self._batch_size, -1).astype(dtype, copy=False))
        return [np.asarray(sample, dtype=dtype).ravel() for sample in values.samples]

    def table(self, name: str, dtype: npt.DTypeLike = np.float64) -> Array | Sequence[Array]:
        """Return `vectors` of any length, (batch, length), or `rows` if their lengths differ."""
        try:
            return self.vectors(name, dtype=dtype)
        except ArgumentValueError:
            return self.rows(name, dtype)

    def arrays(self, name: str, dtype: npt.DTypeLike = np.float64) -> Sequence[Array]:
        """Return one array of any shape per sample."""
        values = self._values.get(name)
        if values is not None:
            return [np.asarray(sample, dtype=dtype) for sample in values.samples]
        return [np.asarray(self._value(name), dtype=dtype)] * self._batch_size

    def _value(self, name: str) -> Any:
        """Return the constant of an argument that is given or has a default."""
        value = self._node.argument(name)
        assert value is not None, f"read the argument {name!r} with `optional`"
        return value

    def _constant(self, name: str, dtype: npt.DTypeLike) -> Array:
        """Return such a constant as a vector."""
        return np.atleast_1d(np.asarray(self._value(name), dtype=dtype)).ravel()

    def _fit(self, name: str, row: Array, length: int | None) -> Array:
        if length is None or len(row) == length:
            return row
        if len(row) == 1:
            return np.repeat(row, length)
        raise ArgumentValueError(
            f'Argument "{name}" expects either a single value or a list of {length} elements. {len(row)} given.'
        )
