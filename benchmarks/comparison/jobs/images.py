"""JPEGs for classification: a random window, resized, mirrored half of the time, normalised."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
import simplejpeg
import torch
from PIL import Image
from torch.nn import functional

from benchmarks.comparison.job import DRAWN, Arrays, Job, Tensors
from benchmarks.crop import random_window
from benchmarks.workload import IMAGE_SIZE, MEAN, STD, prepare_images

SIZE = (IMAGE_SIZE, IMAGE_SIZE)


class Images(Job):
    """Images from files, with a class.

    Args:
        name: Its name on the command line.
        title: Its name in tables.
        widths: The smallest and the largest width of an image.
        files: Number of JPEGs.
        options: Further attributes.
    """

    bounds: tuple[float, ...] = (4.0,)
    units: tuple[float, ...] = (float(np.mean(STD)),)
    unit = "of 255"

    def __init__(self, name: str, title: str, widths: tuple[int, int], files: int, **options: Any) -> None:
        self.name, self.title, self.widths, self.number_of_files = name, title, widths, files
        vars(self).update(options)

    def prepare(self) -> None:
        self.folder = prepare_images(self.number_of_files, self.widths)

    @cached_property
    def files(self) -> list[str]:
        """The paths of all JPEGs."""
        return sorted(str(path) for path in self.folder.iterdir())

    @cached_property
    def windows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each of `DRAWN` samples: top and left, height and width of its window, and whether it is mirrored."""
        sizes = []
        for path in self.files:
            with Image.open(path) as image:
                sizes.append(image.size)
        random.seed(1)
        drawn = [random_window(*sizes[number % len(sizes)]) for number in range(DRAWN)]
        mirrored = np.array([random.random() < 0.5 for _ in drawn], np.int32)
        boxes = np.array(drawn, np.int32)
        return boxes[:, [1, 0]].copy(), boxes[:, [3, 2]].copy(), mirrored

    def stored(self, index: int) -> Arrays:
        return (np.fromfile(self.files[index % len(self.files)], np.uint8),)

    def drawn(self, index: int) -> Arrays:
        start, shape, mirrored = self.windows
        number = index % DRAWN
        return start[number], shape[number], mirrored[number]

    def transform(self, *inputs: np.ndarray) -> Arrays:
        encoded, start, shape, mirrored = inputs
        return (mirror(shrink(decode(encoded), start, shape), mirrored),)

    def graph(self, library: Any, *inputs: Any) -> Any:
        encoded, start, shape, mirrored = inputs
        images = library.fn.decoders.image_slice(encoded, start=start, shape=shape, axes=[0, 1])
        return normalize(library, library.fn.resize(images, size=SIZE), mirror=mirrored)

    def reference(self, *inputs: np.ndarray) -> Arrays:
        encoded, start, shape, mirrored = inputs
        return (mirror(normal(exact(exact_decode(encoded), start, shape)), mirrored),)

    def finisher(self) -> Callable[[Tensors], Tensors]:
        finish = Normalize()
        return lambda batch: (finish(batch[0]),)


class Normalize:
    """Turn uint8 batches ``[N, C, H, W]`` into normalised float32, in memory that is reused."""

    def __init__(self) -> None:
        self._mean = torch.tensor(MEAN).view(1, 3, 1, 1)
        self._scale = 1 / torch.tensor(STD).view(1, 3, 1, 1)
        self._buffer = torch.empty(0)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        if self._buffer.shape != images.shape:
            self._buffer = torch.empty(images.shape, device=images.device)
            self._mean, self._scale = self._mean.to(images.device), self._scale.to(images.device)
        return self._buffer.copy_(images).sub_(self._mean).mul_(self._scale)


def decode(encoded: np.ndarray) -> np.ndarray:
    """Decode a JPEG with libjpeg-turbo, as fast as it can, into uint8 ``[H, W, 3]``."""
    return simplejpeg.decode_jpeg(encoded, fastdct=True, fastupsample=True)


def shrink(image: np.ndarray, start: Iterable[int], shape: Iterable[int], size: tuple[int, int] = SIZE) -> np.ndarray:
    """Return a window of an image, resized with antialiasing, uint8 ``[C, H, W]``.

    torch's kernel for uint8 is the fastest that we know.
    """
    (top, left), (height, width) = start, shape
    window = torch.from_numpy(image[top : top + height, left : left + width]).permute(2, 0, 1)[None]
    return functional.interpolate(window, size, mode="bilinear", antialias=True)[0].numpy()


def mirror(image: np.ndarray, mirrored: np.ndarray) -> np.ndarray:
    """Mirror an image ``[C, H, W]``, or not."""
    return torch.from_numpy(image).flip(2).numpy() if mirrored else image


def exact_decode(encoded: np.ndarray) -> np.ndarray:
    """Decode a JPEG with Pillow, without shortcuts."""

    return np.asarray(Image.open(io.BytesIO(encoded.tobytes())).convert("RGB"))


def exact(image: np.ndarray, start: np.ndarray, shape: np.ndarray, size: tuple[int, int] = SIZE) -> np.ndarray:
    """Resize a window of an image with antialiasing, with Pillow."""
    (top, left), (height, width) = start.tolist(), shape.tolist()
    window = Image.fromarray(image[top : top + height, left : left + width])
    return np.asarray(window.resize(size[::-1], Image.Resampling.BILINEAR))


def normal(image: np.ndarray) -> np.ndarray:
    """Normalise an image, float32 ``[C, H, W]``."""
    return ((image - np.array(MEAN)) / np.array(STD)).astype(np.float32).transpose(2, 0, 1)


def normalize(library: Any, images: Any, **options: Any) -> Any:
    """Normalise images in a graph, float32 ``[C, H, W]``."""
    return library.fn.crop_mirror_normalize(
        images, dtype=library.types.FLOAT, output_layout="CHW", mean=MEAN, std=STD, **options
    )
