"""`ExternalSource`: tensors and batches from a function or an iterable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dali_proxy.pipeline._dynamic.arrays import Batch
from dali_proxy.pipeline._dynamic.creation import as_batch, as_tensor
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors import TensorListCPU, TensorListGPU

_CYCLES = {"no": "no", False: "no", None: "no", "quiet": "quiet", True: "quiet", "raise": "raise"}


class ExternalSource:
    """Takes data from a function or an iterable. Each call returns the next item.

    Args:
        source: a function without parameters, a generator function, or an iterable. Items are data for tensors,
            batches, or tuples of these with `num_outputs`.
        num_outputs: number of outputs of the source.
        cycle: what happens at the end of an iterable: "no" (the default) raises `StopIteration` from then on, "quiet"
            (or True) begins again, "raise" raises `StopIteration` once and begins again.
        device: device of the outputs.
        layout: layout of the outputs, or one for each.
        dtype: type of the outputs, or one for each.

    Raises:
        ArgumentTypeError: the source is neither callable nor iterable.
        ArgumentValueError: an argument has an invalid value.

    Example:
        >>> source = ExternalSource([1, 2], cycle="quiet")
        >>> [source().item() for _ in range(3)]
        [1, 2, 1]
    """

    def __init__(
        self,
        source: Callable[[], Any] | Iterable[Any],
        num_outputs: int = 1,
        *,
        cycle: str | bool | None = None,
        device: Any = "cpu",
        layout: Any = None,
        dtype: Any = None,
    ) -> None:
        if not callable(source) and not isinstance(source, Iterable):
            raise ArgumentTypeError(
                f"The `source` must be callable, iterable or a parameterless generator function, not "
                f"{type(source).__name__}"
            )
        if cycle not in _CYCLES:
            raise ArgumentValueError(f'ExternalSource: cycle must be "no", "quiet" or "raise", not {cycle!r}')
        self._source = source
        self._cycle = _CYCLES[cycle]
        self._count = num_outputs
        self._device = device
        self._layouts = _for_each(layout, num_outputs)
        self._dtypes = _for_each(dtype, num_outputs)
        self._items: Iterator[Any] | None = None

    def __call__(self, *, batch_size: int | None = None) -> Any:
        """Return the next item: a tensor or a batch, or a tuple of these with `num_outputs`.

        Args:
            batch_size: number of samples; a tensor is repeated.

        Raises:
            StopIteration: the data has ended.
            ArgumentValueError: the item doesn't have the outputs or the number of samples.
        """
        item = self._next()
        if self._count == 1:
            return self._convert(item, 0, batch_size)
        if not isinstance(item, tuple | list) or len(item) != self._count:
            raise ArgumentValueError(f"the source must return {self._count} outputs, not {type(item).__name__}")
        return tuple(self._convert(each, number, batch_size) for number, each in enumerate(item))

    def _next(self) -> Any:
        if self._items is None and callable(self._source):
            item = self._source()
            if not isinstance(item, Iterator):
                return item
            self._items = item  # of a generator function
        elif self._items is None:
            self._items = iter(self._source)  # type: ignore[arg-type]
        try:
            return next(self._items)
        except StopIteration:
            if self._cycle == "no":
                raise
            self._items = None
            if self._cycle == "raise":
                raise
        self._items = self._source() if callable(self._source) else iter(self._source)
        return next(self._items)

    def _convert(self, value: Any, number: int, batch_size: int | None) -> Any:
        arguments = (self._dtypes[number], self._device, self._layouts[number])
        if isinstance(value, Batch | TensorListCPU | TensorListGPU):
            batch = as_batch(value, *arguments)
            if batch_size not in (None, batch.batch_size):
                raise ArgumentValueError(f"the source returned {batch.batch_size} samples instead of {batch_size}")
            return batch
        tensor = as_tensor(value, *arguments)
        return tensor if batch_size is None else Batch.broadcast(tensor, batch_size)


def _for_each(value: Any, count: int) -> list[Any]:
    if isinstance(value, list | tuple):
        if len(value) != count:
            raise ArgumentValueError(f"ExternalSource: {len(value)} values for {count} outputs")
        return list(value)
    return [value] * count
