"""Data for the inputs of a pipeline from image files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from dali_proxy.pipeline._declaration.schema import DECODERS, Role
from dali_proxy.pipeline._graph.graph import Graph, GraphNode
from dali_proxy.pipeline._imaging.formats import FORMATS
from dali_proxy.pipeline._listing import did_you_mean
from dali_proxy.pipeline.errors import ArgumentValueError

_IMAGES = tuple(extension for each in FORMATS for extension in each.extensions)
_VIDEOS = (".avi", ".mkv", ".mov", ".mp4", ".webm")


def find_images(folder: str | Path | Iterable[str | Path], most: int | None = None) -> list[Path]:
    """Return image and video files.

    Args:
        folder: a folder, which is searched with its subfolders, or the files.
        most: largest number of files; those of a folder are spread over all that it contains.

    Raises:
        ArgumentValueError: there are none.
    """
    if not isinstance(folder, str | os.PathLike):
        return [Path(path) for path in folder][:most]
    root = Path(folder)
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise ArgumentValueError(f"the folder {str(folder)!r} doesn't exist")
    found = sorted(path for path in root.rglob("*") if path.suffix.lower() in _IMAGES + _VIDEOS and path.is_file())
    if not found:
        raise ArgumentValueError(f"the folder {str(folder)!r} contains no images")
    count = min(len(found), len(found) if most is None else most)
    return [found[index * len(found) // count] for index in range(count)]


class FileInputs:
    """Reads a sample for each input of a graph that is fed.

    Args:
        graph: the graph.
        values: data for inputs by name: a folder with files of the same names, a function of a file's path, or an array
            for all files. One input may be missing: it gets the file itself.

    Raises:
        ArgumentValueError: inputs have no data, or don't exist.
    """

    def __init__(self, graph: Graph, values: Mapping[str, Any]) -> None:
        nodes = graph.fed_inputs
        unknown = sorted(values.keys() - nodes.keys())
        if unknown:
            raise ArgumentValueError(
                f"the pipeline has no input {unknown[0]!r}; its inputs are {', '.join(map(repr, nodes)) or 'none'}"
                + did_you_mean(unknown[0], nodes)
            )
        open_inputs = [name for name in nodes if name not in values]
        if len(open_inputs) > 1:
            raise ArgumentValueError(
                f"the inputs {', '.join(map(repr, open_inputs))} need data. One of them may get the image files; give "
                "each of the others a folder with files of the same names, a function of a file's path, or a value: "
                f"{open_inputs[-1]}=..., or on the command line --input {open_inputs[-1]}=..."
            )
        self._nodes = nodes
        self._values = values
        self._encoded = {name for name, node in nodes.items() if _is_encoded(node, graph)}

    def read(self, path: Path) -> dict[str, Any]:
        """Return a sample for each input.

        Raises:
            ArgumentValueError: a file is missing, or isn't an image.
        """
        return {name: self._value(name, path) for name in self._nodes}

    def _value(self, name: str, path: Path) -> Any:
        if name not in self._values:
            return self._content(name, path)
        value = self._values[name]
        if callable(value):
            return value(path)
        if isinstance(value, str | os.PathLike):
            return self._content(name, _same_file(Path(value), path))
        array = np.asarray(value)
        wide = {"float64": np.float32, "int64": np.int32}
        return array if isinstance(value, np.ndarray) else array.astype(wide.get(array.dtype.name, array.dtype))

    def _content(self, name: str, path: Path) -> npt.NDArray[Any]:
        if name in self._encoded:
            return np.fromfile(path, np.uint8)
        try:
            with Image.open(path) as image:
                pixels = np.asarray(image if image.mode in ("L", "P", "RGB") else image.convert("RGB"))
        except OSError as error:
            raise ArgumentValueError(f"can't read {path}: {error}") from error
        node = self._nodes[name]
        ndim = node.argument("ndim") or len(node.argument("layout") or "HWC")
        return pixels[..., None] if pixels.ndim < ndim else pixels


def _same_file(folder: Path, path: Path) -> Path:
    """Return the file of the same name in another folder, with any suffix, in the same subfolders if it has them."""
    subfolders = path.parent.parts
    for count in range(len(subfolders), -1, -1):
        inner = Path(*subfolders[len(subfolders) - count :])
        if not inner.is_absolute() and (found := sorted((folder / inner).glob(f"{glob.escape(path.stem)}.*"))):
            return found[0]
    raise ArgumentValueError(f"the folder {str(folder)!r} has no file for {path}")


def _is_encoded(node: GraphNode, graph: Graph) -> bool:
    """Return whether the readers of an input decode it."""
    roles = {other.schema.role for other in graph.nodes for edge in other.inputs if edge.node == node.index}
    return node.operator.startswith("inputs.") or not roles.isdisjoint({*DECODERS, Role.IMAGE_SHAPE})
