"""`DALIRaggedIterator`: batches of torch tensors whose samples differ in shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from dali_proxy._common.policies import LastBatchPolicy
from dali_proxy._iterators.generic import DALIGenericIterator
from dali_proxy._iterators.pipelines import Outputs
from dali_proxy.pipeline.errors import FrameworkArgumentError
from dali_proxy.pipeline.tensors.interop import sample_tensors


class DALIRaggedIterator(DALIGenericIterator):
    """A `DALIGenericIterator` for outputs whose samples differ in shape.

    Args:
        pipelines: see `DALIGenericIterator` for this and all arguments except `output_types`.
        output_map: a name for each output.
        size: number of samples of an epoch.
        reader_name: name of the reader that determines it.
        output_types: the form of each output. `DENSE_TAG`: one tensor. `SPARSE_LIST_TAG`: a list with a tensor for each
            sample, which share the output's memory. `SPARSE_COO_TAG`: a sparse tensor in COO format, as large as the
            largest sample in each dimension, in which every element of a sample is specified, including zeros. All
            are dense by default.
        auto_reset: whether the end of an epoch calls `reset`.
        fill_last_batch: deprecated.
        dynamic_shape: accepted for compatibility.
        last_batch_padded: whether the pipeline pads its last batch.
        last_batch_policy: treatment of the last batch.
        prepare_first_batch: whether the constructor runs the first batch.

    Raises:
        FrameworkArgumentError: see `DALIGenericIterator`; and if `output_types` doesn't fit `output_map`.

    Example:
        >>> import numpy as np
        >>> from dali_proxy import Pipeline, fn
        >>> pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
        >>> with pipe:
        ...     pipe.set_outputs(fn.external_source(source=[[np.array([1.0]), np.array([2.0, 3.0])]], cycle="raise"))
        >>> types = [DALIRaggedIterator.SPARSE_LIST_TAG]
        >>> next(DALIRaggedIterator(pipe, ["boxes"], output_types=types))
        [{'boxes': [tensor([1.], dtype=torch.float64), tensor([2., 3.], dtype=torch.float64)]}]
    """

    DENSE_TAG: ClassVar[str] = "dense"
    SPARSE_LIST_TAG: ClassVar[str] = "sparse_list"
    SPARSE_COO_TAG: ClassVar[str] = "sparse_coo"

    def __init__(
        self,
        pipelines: Any,
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        output_types: Sequence[str] | None = None,
        auto_reset: bool | str | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: Any = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        self.output_types = self._check_types(output_types, len(output_map))
        super().__init__(
            pipelines,
            output_map,
            size,
            reader_name,
            auto_reset,
            fill_last_batch,
            dynamic_shape,
            last_batch_padded,
            last_batch_policy,
            prepare_first_batch,
        )

    def _check_types(self, types: Sequence[str] | None, count: int) -> tuple[str, ...]:
        if types is None:
            return (self.DENSE_TAG,) * count
        known = (self.DENSE_TAG, self.SPARSE_LIST_TAG, self.SPARSE_COO_TAG)
        if isinstance(types, str) or len(types) != count or any(tag not in known for tag in types):
            raise FrameworkArgumentError(
                f"output_types must be a list with one of {', '.join(map(repr, known))} for each of the {count} "
                f"outputs, not {types!r}"
            )
        return tuple(types)

    def _convert(self, outputs: Outputs, samples: int) -> dict[str, Any]:
        self._check_count(outputs)
        tagged = enumerate(zip(self.output_map, self.output_types, strict=True))
        return {name: self._tensors(name, tag, outputs, number, samples) for number, (name, tag) in tagged}

    def _tensors(self, name: str, tag: str, outputs: Outputs, number: int, samples: int) -> Any:
        output = outputs[number]
        if tag == self.DENSE_TAG:
            return self._own(self._dense(name, output), outputs, number)[:samples]
        ragged = [self._own(tensor, outputs, number) for tensor in sample_tensors(output)[:samples]]
        return ragged if tag == self.SPARSE_LIST_TAG else _as_coo(ragged, output)


def _as_coo(samples: list[torch.Tensor], output: Any) -> torch.Tensor:
    """Return samples as one sparse tensor with the batch dimension first."""
    if not samples:
        like = sample_tensors(output)[0]
        nothing = torch.zeros((like.ndim + 1, 0), dtype=torch.int64)
        return torch.sparse_coo_tensor(nothing, like.reshape(-1)[:0], (0, *like.shape), check_invariants=False)
    size = [max(lengths) for lengths in zip(*(sample.shape for sample in samples), strict=True)]
    positions = [torch.ones(sample.shape, dtype=torch.bool).nonzero().T for sample in samples]
    numbers = torch.repeat_interleave(torch.tensor([sample.numel() for sample in samples]))
    indices = torch.cat([numbers[None], torch.cat(positions, dim=1)])
    values = torch.cat([sample.reshape(-1) for sample in samples])
    return torch.sparse_coo_tensor(
        indices.to(values.device), values, (len(samples), *size), is_coalesced=True, check_invariants=False
    )
