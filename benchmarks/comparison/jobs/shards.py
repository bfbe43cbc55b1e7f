"""JPEGs in the storage format of each loader: files, tar archives, or its own."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparison.files import write_once
from benchmarks.comparison.job import Arrays
from benchmarks.comparison.jobs.images import Images

SHARDS = 4


class Shards(Images):
    """A stored sample is a JPEG and a label of six numbers: the random arguments, and its index.

    Loaders read whole epochs, in an order of their own.
    """

    ordered = False

    def label(self, index: int) -> np.ndarray:
        """Return top, left, height and width of the window, whether it is mirrored, and the index, as int32."""
        return np.array([*np.concatenate(self.drawn(index)[:2]), self.drawn(index)[2], index], np.int32)

    def records(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield all samples of an epoch: JPEG and label."""
        for index in range(self.length):
            yield self.stored(index)[0], self.label(index)

    def load(self, encoded: np.ndarray, label: np.ndarray) -> tuple[Arrays, int]:
        """Do the work for a stored sample."""
        return self.transform(encoded, label[:2], label[2:4], label[4]), int(label[5])

    def written(self, form: str, write: Any) -> Path:
        """Return the folder of a format, which ``write`` fills once."""
        return write_once(f"shards-{form}-{self.length}", write)

    def archives(self) -> list[str]:
        """Return the paths of tar archives, which webdataset and the readers of pipelines read."""
        return sorted(str(path) for path in self.written("tar", self._write_archives).iterdir())

    def _write_archives(self, folder: Path) -> None:
        archives = [
            tarfile.open(folder / f"{number:02}.tar", "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115
            for number in range(SHARDS)
        ]
        part = -(-self.length // SHARDS)
        for index, (encoded, label) in enumerate(self.records()):
            for suffix, content in (("jpg", encoded.tobytes()), ("label", label.tobytes())):
                member = tarfile.TarInfo(f"{index:06}.{suffix}")
                member.size = len(content)
                archives[index // part].addfile(member, io.BytesIO(content))
        for archive in archives:
            archive.close()

    def graph_of_reader(self, library: Any) -> Any:
        """Describe the work with a reader of the archives: the outputs, then the indices."""
        fn, types = library.fn, library.types
        encoded, label = fn.readers.webdataset(
            paths=self.archives(),
            ext=["jpg", "label"],
            dtypes=[types.UINT8, types.INT32],
            missing_component_behavior="error",
        )
        images = self.graph(library, encoded, label[0:2], label[2:4], label[4])
        return images, label[5]
