"""Nodes for `torchdata.nodes`: a reader, a function on one of its outputs, and the conversion to torch tensors.

Example:
    >>> from dali_proxy import dynamic                                  # doctest: +SKIP
    >>> from dali_proxy.pipeline.dynamic.pytorch import nodes                    # doctest: +SKIP
    >>> import torchdata.nodes as tn                                  # doctest: +SKIP
    >>> reader = nodes.Reader(dynamic.readers.File, batch_size=8, file_root="photos")  # doctest: +SKIP
    >>> decoded = nodes.DictMapper(reader, dynamic.decoders.image)    # doctest: +SKIP
    >>> loader = tn.Loader(tn.Prefetcher(nodes.ToTorch(decoded), 2))  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

from dali_proxy.pipeline._dynamic.readers import Reader as DataReader
from dali_proxy.pipeline.errors import ArgumentValueError

try:
    from torchdata.nodes import BaseNode
except ImportError as error:
    raise ImportError("pipeline.dynamic.pytorch.nodes needs torchdata: pip install torchdata") from error

import torch

__all__ = ["DictMapper", "Reader", "ToTorch"]

_STATE = "reader"
_SOURCE = "source"


class Reader(BaseNode[dict[str, Any]]):  # type: ignore[misc]
    """A node that yields the outputs of a reader as dictionaries.

    Args:
        reader_type: class of the reader, such as `dali_proxy.dynamic.readers.File`.
        batch_size: batch size; None for tensors instead of batches.
        output_names: keys of the outputs; by default "data" and "label", for readers with two outputs.
        **kwargs: arguments of the reader.
    """

    def __init__(
        self,
        reader_type: type[DataReader],
        *,
        batch_size: int | None,
        output_names: Iterable[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._reader = reader_type(**kwargs)
        self._batch_size = batch_size
        self._names = ("data", "label") if output_names is None else tuple(output_names)
        self._items: Iterator[Any] = iter(())

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Begin an epoch, or resume from a state."""
        super().reset(initial_state)
        if initial_state is not None:
            self._reader.set_state(initial_state[_STATE])
        self._items = self._reader.next_epoch(self._batch_size)

    def next(self) -> dict[str, Any]:
        """Return the next outputs.

        Raises:
            ArgumentValueError: the reader doesn't have as many outputs as names.
            StopIteration: the epoch is over.
        """
        outputs = next(self._items)
        if len(outputs) != len(self._names):
            raise ArgumentValueError(
                f"the reader has {len(outputs)} outputs, but {len(self._names)} names: pass output_names="
            )
        return dict(zip(self._names, outputs, strict=True))

    def get_state(self) -> dict[str, Any]:
        """Return the position of the reader."""
        return {_STATE: self._reader.get_state()}

    def get_metadata(self) -> dict[str, int]:
        """Return the size of the data set and the shard."""
        return self._reader.get_metadata()


class _Node(BaseNode[Any]):  # type: ignore[misc]
    """A node that converts the items of a source."""

    def __init__(self, source: BaseNode[Any]) -> None:
        super().__init__()
        self._source = source

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Begin an epoch, or resume from a state."""
        super().reset(initial_state)
        self._source.reset(None if initial_state is None else initial_state[_SOURCE])

    def get_state(self) -> dict[str, Any]:
        """Return the state of the source."""
        return {_SOURCE: self._source.state_dict()}


class DictMapper(_Node):
    """A node that applies a function to one entry of dictionaries.

    Args:
        source: the node that yields the dictionaries.
        map_fn: the function of a tensor or batch, which returns a tensor or batch.
        key: key of the entry.
    """

    def __init__(self, source: BaseNode[Any], map_fn: Callable[[Any], Any], key: str = "data") -> None:
        super().__init__(source)
        self._function = map_fn
        self._key = key

    def next(self) -> dict[str, Any]:
        """Return the next dictionary, with the result of the function."""
        item: Mapping[str, Any] = next(self._source)
        try:
            return {**item, self._key: self._function(item[self._key])}
        except StopIteration as stop:
            raise RuntimeError("StopIteration was raised by map_fn, which would end the epoch") from stop


class ToTorch(_Node):
    """A node that converts dictionaries to tuples of torch tensors.

    Args:
        source: the node that yields dictionaries of tensors or batches.
        output_stream: CUDA stream that uses the tensors; by default torch's current stream.
    """

    def __init__(self, source: BaseNode[Any], output_stream: Any = None) -> None:
        super().__init__(source)
        if output_stream is None and torch.cuda.is_available():
            output_stream = torch.cuda.current_stream()
        handle = getattr(output_stream, "handle", output_stream)
        if isinstance(handle, int):
            handle = torch.cuda.ExternalStream(handle)  # type: ignore[no-untyped-call]
        self._stream = handle

    def next(self) -> tuple[torch.Tensor, ...]:
        """Return the next tensors. The stream waits for the operators that compute them."""
        item = next(self._source)
        with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
            return tuple(value.torch() for value in item.values())
