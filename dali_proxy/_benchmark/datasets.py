"""Datasets over image files: samples for a pipeline, and the same images decoded by PIL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from dali_proxy.pipeline._definition.file_inputs import FileInputs


class FileDataset(Dataset[Any]):
    """Files, each passed to a function."""

    def __init__(self, files: Sequence[Path], transform: Callable[[Path], Any]) -> None:
        self.files = files
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.files[index])


class ProxyTransform:
    """Reads the inputs of a pipeline and passes them to its server."""

    def __init__(self, reader: FileInputs, proxy: Callable[..., Any]) -> None:
        self.reader = reader
        self.proxy = proxy

    def __call__(self, path: Path) -> Any:
        return self.proxy(**self.reader.read(path))


class PillowTransform:
    """What most scripts do at least: decode by PIL, resize, and convert to float."""

    def __init__(self, height: int, width: int) -> None:
        self.height = height
        self.width = width

    def __call__(self, path: Path) -> torch.Tensor:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB").resize((self.width, self.height), Image.Resampling.BILINEAR))
        return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float().div_(255)
