"""The objects that functions get and return: NumPy or CuPy arrays, DLPack capsules, or torch tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._imaging.rows import contiguous
from dali_proxy.pipeline.errors import InputError
from dali_proxy.pipeline.tensors.dlpack import opened


@dataclass(frozen=True)
class Arrays:
    """NumPy arrays; on the GPU, CuPy arrays."""

    device_id: int | None = None

    @contextmanager
    def context(self, stream: Any) -> Iterator[None]:
        """Return a context for calls and for the conversion of their results. The stream, if any, is current."""
        yield

    def to_argument(self, sample: Any) -> Any:
        """Return a sample as an argument of the function, which may modify it. On the GPU, samples are copies already.

        Without copies, other readers of the sample would see the changes. A read-only array would be an error in the
        first call; torch has none.
        """
        return sample.copy() if self.device_id is None else sample

    def to_array(self, value: Any) -> Any:
        """Return a result of the function as a NumPy or CuPy array.

        Raises:
            InputError: the result isn't an array of numbers.
        """
        if self.device_id is not None:
            import cupy

            array = cupy.asarray(cupy.from_dlpack(value) if hasattr(value, "__dlpack__") else value, order="C")
        elif hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            array = contiguous(np.from_dlpack(value))
        else:
            array = contiguous(np.asarray(value))
        if array.dtype.kind not in "biuf":
            raise InputError(f"the function returned {type(value).__name__}, which isn't an array of numbers")
        return array


@dataclass(frozen=True)
class Capsules(Arrays):
    """DLPack capsules.

    Attributes:
        synchronize: whether to wait for inputs on the GPU.
    """

    synchronize: bool = True

    @contextmanager
    def context(self, stream: Any) -> Iterator[None]:
        if stream is not None and self.synchronize:
            stream.synchronize()
        yield

    def to_argument(self, sample: Any) -> Any:
        return super().to_argument(sample).__dlpack__()

    def to_array(self, value: Any) -> Any:
        return super().to_array(opened(value))


@dataclass(frozen=True)
class Tensors(Arrays):
    """Tensors of torch. On the GPU, torch's current stream is the batch's."""

    @contextmanager
    def context(self, stream: Any) -> Iterator[None]:
        import torch

        if self.device_id is None:
            yield
            return
        external = torch.cuda.ExternalStream(stream.ptr, device=self.device_id)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(external):
            yield

    def to_argument(self, sample: Any) -> Any:
        import torch
        import torch.utils.dlpack

        argument = super().to_argument(sample)
        return torch.from_numpy(argument) if self.device_id is None else torch.utils.dlpack.from_dlpack(argument)

    def to_array(self, value: Any) -> Any:
        is_tensor = hasattr(value, "detach") and hasattr(value, "device")  # file objects have detach(), too
        return super().to_array(value.detach() if is_tensor else value)
