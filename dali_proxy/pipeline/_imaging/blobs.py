"""Connected regions of masks."""

from __future__ import annotations

import cv2
import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled

# Limit of the compiled loop.
_COMPILED_PIXELS = (1 << 31) - 1


def blob_boxes(mask: Array) -> Array:
    """Return the bounding boxes of the connected regions of a mask. Neighbours share a side, not only a corner.

    Args:
        mask: bool, of any number of dimensions above 0.

    Returns:
        Start and end of each region, (regions, 2, ndim) int64.

    Example:
        >>> blob_boxes(np.array([[1, 1, 0], [0, 0, 1]], bool)).tolist()
        [[[0, 0], [1, 2]], [[1, 2], [2, 3]]]
    """
    ndim = mask.ndim
    if not mask.size:
        return np.zeros((0, 2, ndim), np.int64)
    if compiled is not None and mask.size <= _COMPILED_PIXELS:
        found = compiled.blob_boxes(np.ascontiguousarray(mask))
        return np.frombuffer(found, np.int64).reshape(-1, 2, ndim) if found else np.zeros((0, 2, ndim), np.int64)
    stack = mask.astype(np.uint8).reshape(-1, *(mask.shape[-2:] if ndim > 1 else (1, *mask.shape)))
    labels = np.empty(stack.shape if ndim > 2 else 0, np.int32)
    boxes: list[Array] = []
    count = 0
    outer = mask.shape[:-2]
    for index, plane in enumerate(stack):
        found, numbers, stats, _ = cv2.connectedComponentsWithStats(plane, connectivity=4, ltype=cv2.CV_32S)
        if ndim > 2:
            labels[index] = np.where(numbers > 0, numbers + count, 0)
        corner = stats[1:, [cv2.CC_STAT_TOP, cv2.CC_STAT_LEFT]].astype(np.int64)
        size = stats[1:, [cv2.CC_STAT_HEIGHT, cv2.CC_STAT_WIDTH]]
        own = np.stack([corner, corner + size], axis=1)[..., max(0, 2 - ndim) :]
        place = np.array(np.unravel_index(index, outer), np.int64) if outer else np.zeros(0, np.int64)
        ends = np.broadcast_to(np.stack([place, place + 1]), (found - 1, 2, len(place)))
        boxes.append(np.concatenate([ends, own], axis=2))
        count += found - 1
    result: Array = np.concatenate(boxes)
    return result if ndim < 3 else _joined(result, labels.reshape(mask.shape))


def _joined(boxes: Array, labels: Array) -> Array:
    """Return the boxes of regions that consist of labelled regions of planes.

    Label 1 has the first box, and only regions of one plane have the same label.
    """
    parents = np.arange(len(boxes))

    def root(label: int) -> int:
        while parents[label] != label:
            parents[label] = parents[parents[label]]
            label = parents[label]
        return label

    for axis in range(labels.ndim - 2):
        moved = np.moveaxis(labels, axis, 0)
        pairs = np.stack([moved[:-1].ravel(), moved[1:].ravel()], axis=1)
        for first, second in np.unique(pairs[pairs.all(axis=1)] - 1, axis=0).tolist():
            low, high = sorted((root(first), root(second)))
            parents[high] = low
    roots = np.array([root(label) for label in range(len(boxes))], np.intp)
    kept, group = np.unique(roots, return_inverse=True)
    joined: Array = boxes[kept]
    np.minimum.at(joined[:, 0], group, boxes[:, 0])
    np.maximum.at(joined[:, 1], group, boxes[:, 1])
    return joined
