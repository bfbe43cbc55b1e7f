"""Segmentation: the same window of an image and of its mask."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from benchmarks.comparison.files import write_once
from benchmarks.comparison.job import Arrays
from benchmarks.comparison.jobs.images import SIZE, Images, exact_decode


class Segmentation(Images):
    """A JPEG and a PNG with 8 classes. The mask keeps its values: no interpolation between classes."""

    bounds = (4.0, 0.01)
    units = (*Images.units, 1.0)

    def prepare(self) -> None:
        super().prepare()
        self.masks_folder = write_once(f"masks-{self.number_of_files}", self._write)

    def _write(self, folder: Path) -> None:
        for number, path in enumerate(self.files):
            with Image.open(path) as image:
                small = np.asarray(image.convert("L").resize((12, 9)))
                smooth = cv2.resize(small, image.size, interpolation=cv2.INTER_CUBIC)
            cv2.imwrite(str(folder / f"{number:05}.png"), smooth // 32)

    @cached_property
    def masks(self) -> list[str]:
        """The paths of all masks."""
        return sorted(str(path) for path in self.masks_folder.iterdir())

    def stored(self, index: int) -> Arrays:
        return (*super().stored(index), np.fromfile(self.masks[index % len(self.masks)], np.uint8))

    def transform(self, *inputs: np.ndarray) -> Arrays:
        encoded, mask, start, shape, mirrored = inputs
        (image,) = super().transform(encoded, start, shape, mirrored)
        (top, left), (height, width) = start, shape
        window = cv2.imdecode(mask, cv2.IMREAD_GRAYSCALE)[top : top + height, left : left + width]
        made = cv2.resize(window, SIZE, interpolation=cv2.INTER_NEAREST_EXACT)
        return image, cv2.flip(made, 1) if mirrored else made

    def graph(self, library: Any, *inputs: Any) -> Any:
        fn, types = library.fn, library.types
        encoded, mask, start, shape, mirrored = inputs
        image = super().graph(library, encoded, start, shape, mirrored)
        mask = fn.decoders.image_slice(mask, start=start, shape=shape, axes=[0, 1], output_type=types.GRAY)
        mask = fn.flip(fn.resize(mask, size=SIZE, interp_type=types.INTERP_NN), horizontal=mirrored)
        return image, fn.squeeze(mask, axes=[2])

    def reference(self, *inputs: np.ndarray) -> Arrays:
        encoded, mask, start, shape, mirrored = inputs
        (image,) = super().reference(encoded, start, shape, mirrored)
        (top, left), (height, width) = start.tolist(), shape.tolist()
        rows = top + ((np.arange(SIZE[0]) + 0.5) * height / SIZE[0]).astype(int)
        columns = left + ((np.arange(SIZE[1]) + 0.5) * width / SIZE[1]).astype(int)
        made = exact_decode(mask)[..., 0][np.ix_(rows, columns)]
        return image, made[:, ::-1] if mirrored else made

    def finisher(self) -> Any:
        finish = super().finisher()
        return lambda batch: (*finish(batch[:1]), *batch[1:])
