"""The demo's dataset: a plain torch Dataset that reads a file and hands its bytes to a transform."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

Transform = Callable[[npt.NDArray[np.uint8]], Any]


class CropDataset(Dataset[tuple[Any, int]]):
    """JPEGs in one folder a class, as torchvision's ImageFolder lays them out.

    Args:
        folder: Holds one folder a class, which holds JPEG files.
        transform: Gets the bytes of one file as a uint8 array of shape ``[bytes]``. ``server.proxy`` here
            makes the pipeline decode and augment the pictures; any function of such an array works as well.

    Attributes:
        classes: Names of the classes, sorted; a label is a position in this list.
    """

    def __init__(self, folder: Path, transform: Transform) -> None:
        self.transform = transform
        self.classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        self.samples = [
            (path, label)
            for label, name in enumerate(self.classes)
            for path in sorted((folder / name).iterdir())
            if path.suffix.lower() in (".jpg", ".jpeg")
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, label = self.samples[index]
        return self.transform(np.fromfile(path, np.uint8)), label
