"""`segmentation.select_masks`: the polygons of chosen masks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import each_sample
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

SELECT_MASKS = declare_operator(
    name="segmentation.select_masks",
    doc="""Selects the polygons of masks, in the order of `mask_ids`.

Polygons and vertices have the form in which `fn.readers.coco` returns them. The outputs are the chosen polygons and
their vertices.""",
    inputs=(
        Input("mask_ids", "INT32 of shape (K,): masks to select, each of them once."),
        Input(
            "polygons",
            "INT32 of shape (P, 3): a polygon's mask, the index of its first vertex, and the index after its last.",
        ),
        Input("vertices", "Coordinates of the vertices, of shape (V, n) and any dtype."),
    ),
    arguments=(
        Argument("reindex_masks", Kind.BOOL, "Number the masks in the order of `mask_ids`: 0, 1, and so on.", False),
    ),
    outputs=2,
)


@implements(SELECT_MASKS, "cpu")
class SelectMasks(BatchOperator):
    """Copies the rows of the chosen vertices."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        reindex = self.node.argument("reindex_masks")
        together = _select_all(*inputs, reindex=reindex)
        if together is not None:
            return together
        columns = (map(np.asarray, data.samples) for data in inputs)
        results = each_sample(partial(_select, reindex=reindex), *columns)
        polygons, vertices = zip(*results, strict=True)
        return [TensorListCPU(list(polygons)), TensorListCPU(list(vertices))]


def _select_all(
    mask_ids: TensorListCPU, polygons: TensorListCPU, vertices: TensorListCPU, *, reindex: bool
) -> list[TensorListCPU] | None:
    """Return the outputs for all samples; None if that must be done, or refused, sample by sample."""
    if compiled is None:
        return None
    found = compiled.select_polygons(mask_ids.samples, polygons.samples, vertices.samples, reindex)
    if found is None:
        return None
    selected, counts, rows, lengths = found
    points, counts, lengths = vertices.samples[0], np.frombuffer(counts, np.int64), np.frombuffer(lengths, np.int64)
    return [
        TensorListCPU.from_rows(np.ndarray((counts.sum(), 3), np.int32, selected), counts),
        TensorListCPU.from_rows(np.ndarray((lengths.sum(), points.shape[1]), points.dtype, rows), lengths),
    ]


def _select(masks: Array, polygons: Array, vertices: Array, *, reindex: bool) -> tuple[Array, Array]:
    """Return the polygons and vertices of the chosen masks of a sample."""
    for name, array in (("mask_ids", masks), ("polygons", polygons)):
        if array.dtype.kind not in "iu":
            raise ArgumentTypeError(f"``{name}`` input is expected to be int32, not {array.dtype}")
    if masks.ndim != 1:
        raise ArgumentValueError(f"``mask_ids`` input is expected to be 1D, not of shape {masks.shape}")
    if polygons.ndim != 2 or polygons.shape[1] != 3:
        raise ArgumentValueError(
            "``polygons`` is expected to contain 2D tensors with 3 columns: ``mask_id, start_idx, end_idx``, not of "
            f"shape {polygons.shape}"
        )
    if vertices.ndim != 2:
        raise ArgumentValueError(f"``vertices`` is expected to contain 2D tensors, not of shape {vertices.shape}")
    chosen = masks.tolist()
    if len(set(chosen)) < len(chosen):
        raise ArgumentValueError(f"mask_ids must not repeat a mask: {chosen}")
    rows: dict[int, list[tuple[int, int]]] = {mask: [] for mask in chosen}
    for mask, begin, end in polygons.tolist():
        if mask in rows:
            if not 0 <= begin <= end <= len(vertices):
                raise ArgumentValueError(
                    f"a polygon of mask {mask} has the vertices {begin} to {end}, but there are {len(vertices)}"
                )
            rows[mask].append((begin, end))
    selected: list[tuple[int, int, int]] = []
    parts: list[Array] = []
    position = 0
    for number, (mask, ranges) in enumerate(rows.items()):
        if not ranges:
            raise ArgumentValueError(f"Selected mask_id {mask} is not present in the input")
        for begin, end in ranges:
            selected.append((number if reindex else mask, position, position + end - begin))
            parts.append(vertices[begin:end])
            position += end - begin
    picked = np.concatenate(parts) if parts else vertices[:0]
    return np.array(selected, np.int32).reshape(-1, 3), picked
