"""The demo's dataset: a plain torch Dataset that reads a file and passes its bytes to a transform."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

Transform = Callable[[npt.NDArray[np.uint8]], Any]


class CropDataset(Dataset[tuple[Any, int]]):
    """JPEGs in one folder per class, with the layout of torchvision's ImageFolder.

    Args:
        folder: Folder with one folder of JPEG files per class.
        transform: Function of the bytes of one file, a uint8 array of shape ``[bytes]``. With ``server.proxy``, the
            pipeline decodes and augments the images; any other such function works, too.

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
