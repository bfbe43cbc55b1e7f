"""Helpers of operators on encoded data: samples as bytes, and channels of decoded images."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Bytes
from dali_proxy.pipeline._codecs import EncodedBatch
from dali_proxy.pipeline._operator_api.gpu_operator import each_sample
from dali_proxy.pipeline.errors import DecodeError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import DALIImageType

_CHANNELS = {DALIImageType.RGB: 3, DALIImageType.BGR: 3, DALIImageType.YCbCr: 3, DALIImageType.GRAY: 1}


def flat_bytes(sample: Array) -> Bytes:
    """Return the bytes of a sample, without a copy if it is contiguous.

    Args:
        sample: array of an integer type, with at most one dimension of more than one element.

    Raises:
        DecodeError: the sample has the shape or the type of decoded pixels.

    Example:
        >>> flat_bytes(np.zeros((1, 5), np.uint8)).shape
        (5,)
    """
    if sample.ndim == 1 and sample.dtype == np.uint8:
        return sample
    if sample.ndim > 2 or (sample.ndim == 2 and min(sample.shape) > 1) or sample.dtype.kind == "f":
        raise DecodeError(
            f"the bytes of a file are needed, but this is an array of {sample.dtype} of shape {sample.shape}, like "
            "decoded pixels: pass the content of the file, such as path.read_bytes(), or, for pixels, leave the "
            "decoder out of the pipeline"
        )
    return np.ascontiguousarray(sample).reshape(-1).view(np.uint8)


def encoded_batch(data: TensorListCPU) -> EncodedBatch:
    """Return a batch in the form of GPU decoders. Contiguous 1-D uint8 samples need no work per sample.

    Raises:
        OperatorError: samples have the shape of decoded pixels.
    """
    table = data.table()
    if table.ndim == 1 and table.dtype == np.uint8 and table.is_contiguous():
        return EncodedBatch(table.pointers, table.shapes[:, 0], lambda: data.samples, data)
    return EncodedBatch.from_arrays(each_sample(flat_bytes, data.samples))


def channels_of(output_type: DALIImageType) -> int | None:
    """Return the number of channels of decoded images; None if it depends on the file."""
    return _CHANNELS.get(output_type)
