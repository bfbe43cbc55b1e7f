"""Two views of each image, as SimCLR needs them: window, mirror, brightness and contrast, blur."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import cv2
import numpy as np

from benchmarks.comparison.job import DRAWN, Arrays, Tensors
from benchmarks.comparison.jobs.images import Images, Normalize, decode, exact, exact_decode, normal, normalize, shrink

BLUR = 9
"""Size of the blur's window in pixels."""


class Views(Images):
    """Two views with their own random arguments."""

    bounds = (4.0, 4.0)
    units = Images.units * 2

    @cached_property
    def looks(self) -> np.ndarray:
        """Brightness, contrast and sigma of the blur of two views for each sample, float32 ``[DRAWN, 2, 3]``."""
        rng = np.random.default_rng(2)
        return rng.uniform((0.6, 0.6, 0.3), (1.4, 1.4, 2.0), (DRAWN, 2, 3)).astype(np.float32)

    def drawn(self, index: int) -> Arrays:
        found: list[np.ndarray] = []
        for view in range(2):
            brightness, contrast, sigma = self.looks[index % DRAWN, view]
            # The second view's window is that of a later sample of the same image.
            found += [*super().drawn(index + view * len(self.files)), brightness, contrast, sigma]
        return tuple(found)

    def transform(self, *inputs: np.ndarray) -> Arrays:
        image = decode(inputs[0])
        return tuple(self._view(image, *inputs[first : first + 6]) for first in (1, 7))

    def _view(self, image: np.ndarray, start: Any, shape: Any, mirrored: Any, *look: Any) -> np.ndarray:
        brightness, contrast, sigma = map(float, look)
        table = np.clip(np.rint(brightness * (128 + contrast * (np.arange(256.0) - 128))), 0, 255).astype(np.uint8)
        window = shrink(image, start, shape)
        changed = cv2.LUT(window.transpose(1, 2, 0), table)
        blurred = cv2.GaussianBlur(changed, (BLUR, BLUR), sigma)
        return np.ascontiguousarray((cv2.flip(blurred, 1) if mirrored else blurred).transpose(2, 0, 1))

    def graph(self, library: Any, *inputs: Any) -> Any:
        fn = library.fn
        image = fn.decoders.image(inputs[0])
        views = []
        for first in (1, 7):
            start, shape, mirrored, brightness, contrast, sigma = inputs[first : first + 6]
            window = fn.resize(fn.slice(image, start, shape, axes=[0, 1]), size=(224, 224))
            changed = fn.brightness_contrast(window, brightness=brightness, contrast=contrast)
            blurred = fn.gaussian_blur(changed, window_size=BLUR, sigma=sigma)
            views.append(normalize(library, blurred, mirror=mirrored))
        return tuple(views)

    def reference(self, *inputs: np.ndarray) -> Arrays:
        image = exact_decode(inputs[0])
        return tuple(self._exact_view(image, *inputs[first : first + 6]) for first in (1, 7))

    def _exact_view(self, image: np.ndarray, start: Any, shape: Any, mirrored: Any, *look: Any) -> np.ndarray:
        brightness, contrast, sigma = map(float, look)
        window = exact(image, start, shape).astype(np.float64)
        changed = np.clip(brightness * (128 + contrast * (window - 128)), 0, 255)
        blurred = cv2.GaussianBlur(changed, (BLUR, BLUR), sigma)
        return normal(blurred[:, ::-1] if mirrored else blurred)

    def finisher(self) -> Callable[[Tensors], Tensors]:
        finish = Normalize(), Normalize()
        return lambda batch: (finish[0](batch[0]), finish[1](batch[1]))
