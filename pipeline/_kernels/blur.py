"""Launcher of blur.cu: filters contiguous samples along axes, with one launch per axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._kernels.context import KernelContext
from pipeline._kernels.launch import Launch, blocks_for, ctype
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

__all__ = ["BlurPlan", "blur_axes"]

#: struct Sample of blur.cu.
_SAMPLE = np.dtype(
    [("src", "i8"), ("dst", "i8"), ("count", "u8"), ("inner", "u8"), ("extent", "i8"), ("radius", "i8"),
     ("weights", "u8"), ("factor", "f4"), ("add", "i8")],
    align=True,
)  # fmt: skip


def blur_axes(
    context: KernelContext,
    stream: Any,
    src: Samples,
    dst: Samples,
    *,
    first: int,
    windows: Sequence[Sequence[npt.NDArray[np.float32]]],
) -> None:
    """Filter a batch along neighboring axes. Borders reflect without repeating the outermost value.

    Args:
        context: context of the samples' device.
        stream: `cupy.cuda.Stream` to enqueue on.
        src: contiguous samples.
        dst: contiguous samples of the same shapes; integers are rounded and clamped.
        first: first axis to filter.
        windows: per sample and axis, an odd number of float32 weights.

    Raises:
        PipelineError: the shapes don't match.
        CudaError: a launch failed.
    """
    plan = BlurPlan(src, dst, first=first, windows=windows)
    scratch = context.scratch(plan.scratch_bytes, stream) if plan.scratch_bytes else 0
    for launch in plan.launches(scratch):
        context.run(launch, stream)


class BlurPlan:
    """Plan of the launches of `blur_axes`, with the same arguments and others.

    Args:
        src: as in `blur_axes`.
        dst: as in `blur_axes`.
        first: as in `blur_axes`.
        windows: as in `blur_axes`.
        factors: factors of the results, (N,) float32; None for 1.
        add: contiguous float32 samples of the same shapes, which are added to the results; only with `factors`.
    """

    def __init__(
        self,
        src: Samples,
        dst: Samples,
        *,
        first: int,
        windows: Sequence[Sequence[npt.NDArray[np.float32]]],
        factors: npt.NDArray[np.float32] | None = None,
        add: Samples | None = None,
    ) -> None:
        if len(src) != len(dst) or len(windows) != len(src) or (src.shapes != dst.shapes).any():
            raise PipelineError("the samples of input and output, and the windows, differ in number or shape")
        if not (src.is_contiguous() and dst.is_contiguous()):
            raise PipelineError("the samples are not contiguous")
        self._src, self._dst, self._first, self._windows = src, dst, first, windows
        self._factors, self._add = factors, add
        self._axes = len(windows[0])
        self._sum = np.dtype(np.float64 if src.dtype == np.float64 else np.float32)
        self._most = int(np.prod(src.shapes, axis=1, dtype=np.int64).max())
        _, self._room = Samples.packed(0, src.shapes, self._sum)
        #: Bytes of device memory for intermediate results: none for one axis, a batch for two, two batches for three.
        self.scratch_bytes = self._room * (self._axes - 1) if self._most else 0

    def launches(self, scratch: int) -> list[Launch]:
        """Return a launch for each axis; `scratch` is the address of device memory of `scratch_bytes`."""
        if not self._most:
            return []
        launches, source = [], self._src
        for number in range(self._axes):
            target = self._dst
            if number < self._axes - 1:
                target, _ = Samples.packed(scratch + number * self._room, self._src.shapes, self._sum)
            launches.append(self._launch(number, source, target))
            source = target
        return launches

    def _launch(self, number: int, source: Samples, target: Samples) -> Launch:
        axis = self._first + number
        windows = [rows[number] for rows in self._windows]
        lengths = np.array([len(window) for window in windows])
        table = np.zeros(len(source), _SAMPLE)
        table["src"], table["dst"] = source.pointers, target.pointers
        table["count"] = np.prod(source.shapes, axis=1, dtype=np.int64)
        table["inner"] = np.prod(source.shapes[:, axis + 1 :], axis=1, dtype=np.int64)
        table["extent"] = source.shapes[:, axis]
        table["radius"] = lengths // 2
        table["weights"] = np.cumsum(lengths) - lengths
        weights = np.concatenate(windows).astype(np.float32)
        adds = target is self._dst and self._factors is not None
        if adds:
            table["factor"] = self._factors
            table["add"] = 0 if self._add is None else self._add.pointers
        types = {"IN": source.dtype, "OUT": target.dtype, "SUM": self._sum}
        defines = (*((name, ctype(dtype)) for name, dtype in types.items()), ("ADDS", str(int(adds))))
        return Launch("blur.cu", "blur_axis", defines, (table, weights), (blocks_for(self._most), len(source)))
