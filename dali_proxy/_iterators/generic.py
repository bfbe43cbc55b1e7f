"""`DALIGenericIterator` and `DALIClassificationIterator`: batches as dicts of torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dali_proxy._common.policies import LastBatchPolicy
from dali_proxy._iterators.base import BaseIterator
from dali_proxy._iterators.pipelines import Outputs
from dali_proxy.pipeline.errors import FrameworkArgumentError, InputError
from dali_proxy.pipeline.tensors.interop import to_torch_tensor


class DALIGenericIterator(BaseIterator):
    """Iterates over pipelines: each batch is a list with a dict of torch tensors for every pipeline.

    The tensors lie on the device of the pipeline's output and share its memory. They stay valid and unchanged while
    you hold them. On a GPU, they are ordered with torch's current stream.

    The pipelines run ahead: they compute the next batches while you use one.

    With several pipelines and `size`, the pipelines take turns, one batch each. `size` counts the samples of all
    pipelines. The last list omits the pipelines whose batches would begin after the last sample. With `reader_name`,
    the iterator counts each shard separately, and a shard without more samples returns an empty tensor.

    Args:
        pipelines: one pipeline, or a list of several with the same batch size.
        output_map: a unique name for each output: the keys of the dicts.
        size: number of samples of an epoch, of all pipelines together. With -1, the iterator needs a single pipeline
            and returns its batches unchanged until it raises `StopIteration`.
        reader_name: name of the reader, in each pipeline, that determines the size of the data set, the shards and
            whether the last batch is padded, whatever `last_batch_padded` says. Use it instead of `size`.
        auto_reset: whether the end of an epoch calls `reset`: True, False, "yes" or "no". A ``for`` loop over the
            iterator calls `reset` automatically.
        fill_last_batch: deprecated: True is `LastBatchPolicy.FILL`, False is `LastBatchPolicy.PARTIAL`.
        dynamic_shape: accepted for compatibility; shapes may always change from batch to batch.
        last_batch_padded: whether the pipeline fills the last batch with its last sample and begins the next epoch
            with a new batch; otherwise the last batch continues with samples of the next epoch. This argument
            only describes the pipeline, and doesn't change it.
        last_batch_policy: treatment of the last batch if the samples don't fill it.
        prepare_first_batch: whether the constructor runs the first batch.

    Raises:
        FrameworkArgumentError, ArgumentTypeError, ArgumentValueError: an argument is invalid.
        PipelineError: there is no data, or there is no such reader.

    Example:
        Samples 1 to 5 in batches of 3:

        ======= ====== ============= ======================
        policy  padded last batch    next epoch begins with
        ======= ====== ============= ======================
        PARTIAL True   ``[4, 5]``    ``[1, 2, 3]``
        PARTIAL False  ``[4, 5]``    ``[2, 3, 4]``
        FILL    True   ``[4, 5, 5]`` ``[1, 2, 3]``
        FILL    False  ``[4, 5, 1]`` ``[2, 3, 4]``
        DROP    True   ``[1, 2, 3]`` ``[1, 2, 3]``
        DROP    False  ``[1, 2, 3]`` ``[2, 3, 4]``
        ======= ====== ============= ======================

        >>> import numpy as np
        >>> from dali_proxy import Pipeline, fn
        >>> pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
        >>> with pipe:
        ...     pipe.set_outputs(fn.external_source(source=[np.array([1, 2]), np.array([3, 3])], cycle=True))
        >>> [batch[0]["x"].tolist() for batch in DALIGenericIterator(pipe, ["x"], size=3, last_batch_padded=True)]
        [[1, 2], [3, 3]]
    """

    def __init__(
        self,
        pipelines: Any,
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: bool | str | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: Any = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        self.output_map = _check_output_map(output_map)
        super().__init__(
            pipelines,
            size,
            reader_name,
            auto_reset,
            fill_last_batch,
            last_batch_padded,
            last_batch_policy,
            prepare_first_batch,
        )

    def _convert(self, outputs: Outputs, samples: int) -> dict[str, Any]:
        self._check_count(outputs)
        return {
            name: self._own(self._dense(name, output), outputs, number)[:samples]
            for number, (name, output) in enumerate(zip(self.output_map, outputs, strict=True))
        }

    def _check_count(self, outputs: Outputs) -> None:
        if len(self.output_map) != len(outputs):
            raise FrameworkArgumentError(
                f"the pipeline has {len(outputs)} outputs, and output_map has {len(self.output_map)} names for them: "
                f"{list(self.output_map)}"
            )

    @staticmethod
    def _own(tensor: torch.Tensor, outputs: Outputs, number: int) -> torch.Tensor:
        """Return a tensor of an output, copied if an earlier output is the same batch: users may write to tensors."""
        repeated = any(outputs[number] is earlier for earlier in outputs[:number])
        return tensor.clone() if repeated else tensor

    def _dense(self, name: str, output: Any) -> torch.Tensor:
        if not output.is_dense_tensor():
            shapes = output.shape()
            raise InputError(
                f"output {name!r} is ragged, so it can't be one tensor: its samples have shapes such as {shapes[0]} "
                f"and {next(shape for shape in shapes if shape != shapes[0])}. Give them one shape in the pipeline "
                "(fn.resize, fn.crop), or use DALIRaggedIterator with output_types=[SPARSE_LIST_TAG]"
            )
        return to_torch_tensor(output, copy=False)


class DALIClassificationIterator(DALIGenericIterator):
    """`DALIGenericIterator` with the outputs "data" and "label".

    The other arguments are those of `DALIGenericIterator`.
    """

    def __init__(
        self,
        pipelines: Any,
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: bool | str | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: Any = False,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        super().__init__(
            pipelines,
            ["data", "label"],
            size,
            reader_name,
            auto_reset,
            fill_last_batch,
            dynamic_shape,
            last_batch_padded,
            last_batch_policy,
            prepare_first_batch,
        )


def _check_output_map(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise FrameworkArgumentError(f"output_map must be a list of names, not {names!r}")
    if len(set(names)) < len(names) or not names:
        raise FrameworkArgumentError(
            f"output_map names should be distinct, and there must be at least one: {list(names)}"
        )
    return tuple(names)
