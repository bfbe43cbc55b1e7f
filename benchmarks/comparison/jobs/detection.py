"""Detection: images and their boxes, mirrored together."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.comparison.job import DRAWN, Arrays
from benchmarks.comparison.jobs.images import Images, decode, exact, exact_decode, mirror, normal, normalize, shrink

SIZE = (320, 320)
MOST = 32
"""Boxes of a sample after padding."""


class Detection(Images):
    """The whole image in 320 x 320 pixels; up to 32 boxes, padded with -1, and their classes."""

    bounds = (4.0, 1e-6, 0.0)
    units = (*Images.units, 1.0, 1.0)

    @cached_property
    def objects(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each of `DRAWN` samples, boxes (left, top, right, bottom from 0 to 1) and classes."""
        rng = np.random.default_rng(3)
        made = []
        for count in rng.integers(1, MOST, DRAWN, endpoint=True):
            corner = rng.uniform(0, 0.7, (count, 2))
            boxes = np.concatenate([corner, corner + rng.uniform(0.05, 0.3, (count, 2))], axis=1).astype(np.float32)
            made.append((boxes, rng.integers(0, 80, count).astype(np.int32)))
        return made

    def stored(self, index: int) -> Arrays:
        return (*super().stored(index), *self.objects[index % DRAWN])

    def drawn(self, index: int) -> Arrays:
        return super().drawn(index)[2:]

    def transform(self, *inputs: np.ndarray) -> Arrays:
        encoded, boxes, classes, mirrored = inputs
        image = decode(encoded)
        made = mirror(shrink(image, (0, 0), image.shape[:2], SIZE), mirrored)
        return made, *self._objects(boxes, classes, mirrored)

    def _objects(self, boxes: np.ndarray, classes: np.ndarray, mirrored: np.ndarray) -> Arrays:
        all_boxes, all_classes = np.full((MOST, 4), -1, np.float32), np.full(MOST, -1, np.int32)
        if mirrored:
            boxes = boxes.copy()
            boxes[:, [0, 2]] = 1 - boxes[:, [2, 0]]
        all_boxes[: len(boxes)], all_classes[: len(classes)] = boxes, classes
        return all_boxes, all_classes

    def graph(self, library: Any, *inputs: Any) -> Any:
        fn = library.fn
        encoded, boxes, classes, mirrored = inputs
        image = normalize(library, fn.resize(fn.decoders.image(encoded), size=SIZE), mirror=mirrored)
        boxes = fn.pad(fn.bb_flip(boxes, ltrb=True, horizontal=mirrored), shape=[MOST, 4], fill_value=-1)
        return image, boxes, fn.pad(classes, shape=[MOST], fill_value=-1)

    def reference(self, *inputs: np.ndarray) -> Arrays:
        encoded, boxes, classes, mirrored = inputs
        image = exact_decode(encoded)
        made = exact(image, np.zeros(2, int), np.array(image.shape[:2]), SIZE)
        return mirror(normal(made), mirrored), *self._objects(boxes, classes, mirrored)

    def finisher(self) -> Any:
        finish = super().finisher()
        return lambda batch: (*finish(batch[:1]), *batch[1:])
