"""The workload: JPEGs like ImageNet's, and plain arrays for the transport alone."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from dali_proxy._demo.data import photograph_paths

IMAGE_SIZE = 224
CROP_AREA = (0.08, 1.0)
CROP_ASPECT_RATIO = (3 / 4, 4 / 3)
MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)

IMAGE_KINDS = ("paths", "bytes", "decoded")
"""What a dataset passes to the loader: a file's path, its bytes, or the decoded image."""

ONE_WORKER_KIND = "decoded-one-worker"
"""Images that a single worker decodes, so that another core is free for later steps; compared with its decode rate."""

DECODED_KINDS = ("decoded", ONE_WORKER_KIND)
"""Kinds whose dataset decodes."""

TRANSPORT_KINDS = ("arrays-60KB", "arrays-562KB")
"""Arrays that the pipeline returns unchanged: the transport alone."""

ARRAY_SHAPES = {
    "arrays-64B": (64,),
    "arrays-10KB": (10_000,),
    "arrays-60KB": (60_000,),
    "arrays-100KB": (100_000,),
    "arrays-562KB": (375, 500, 3),
    "arrays-1MB": (1_000_000,),
    "arrays-10MB": (10_000_000,),
}
"""Shapes of uint8 arrays. Those outside of `TRANSPORT_KINDS` serve the scaling and the costs."""

READER_KIND = "reader"
"""Without a dataset: the pipeline reads the files."""

DATASET_KINDS = (*IMAGE_KINDS, ONE_WORKER_KIND, *TRANSPORT_KINDS)
KINDS = (READER_KIND, *DATASET_KINDS)

EPOCH = 1 << 22
"""Samples in an epoch: more than any measurement takes, so that epochs never end."""

FILES = 512
WIDTHS = (400, 640)
"""Smallest and largest width of the images in pixels; their height is three quarters of it."""

JPEG_QUALITY = 90


Cut = tuple[Image.Image, tuple[int, int], tuple[float, float, float, float]]


@dataclass(frozen=True)
class Setup:
    """One way to run a rival.

    Attributes:
        kind: Kind of the dataset's samples: one of ``KINDS`` or ``ARRAY_SHAPES``.
        folder: Folder with the JPEGs.
        batch_size: Samples per batch.
        workers: Dataset worker processes.
        threads: Threads of the pipeline, if a rival has one.
        device_id: The GPU, or None for the CPU.
        dtype: Type of the resulting images: "float32" or "float16".
        layout: Layout of the resulting images: "CHW" or "HWC".
        shard: Number of the part of the files that is read, and number of parts.
    """

    kind: str
    folder: Path
    batch_size: int = 64
    workers: int = 2
    threads: int = 2
    device_id: int | None = None
    dtype: str = "float32"
    layout: str = "CHW"
    shard: tuple[int, int] = (0, 1)

    @property
    def files(self) -> list[str]:
        """The paths of all JPEGs, sorted."""
        return sorted(str(path) for path in self.folder.iterdir())

    @property
    def device(self) -> str:
        """The device's name in torch."""
        return "cpu" if self.device_id is None else f"cuda:{self.device_id}"


def prepare_images(files: int = FILES, widths: tuple[int, int] = WIDTHS) -> Path:
    """Create the JPEGs once, below the temporary directory of this machine.

    They are cut from a dozen photographs; those of 400 x 300 to 640 x 480 pixels have about 60 KB each.

    Args:
        files: Number of JPEGs.
        widths: Smallest and largest width in pixels.

    Returns:
        The folder that holds them.
    """
    source = "extra" if os.environ.get("DALI_EXTRA_PATH") else "bundled"
    size = "" if widths == WIDTHS else f"-{widths[0]}-{widths[1]}"
    name = f"{source}-{files}-{JPEG_QUALITY}{size}"
    folder = Path(tempfile.gettempdir()) / f"dali-proxy-benchmark-{os.getuid()}" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
    photographs = []
    for path in photograph_paths(12).values():
        with Image.open(path) as opened:
            photographs.append(opened.convert("RGB"))
    cuts = _cuts(files, widths, photographs)

    def write(number: int) -> None:
        photograph, size, box = cuts[number]
        image = photograph.resize(size, Image.Resampling.LANCZOS, box=box)
        image.save(unfinished / f"{number:05d}.jpg", quality=JPEG_QUALITY)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # Pillow releases the GIL
        list(pool.map(write, range(files)))
    try:
        unfinished.rename(folder)
    except OSError:  # another process created them in the meantime
        shutil.rmtree(unfinished)
    return folder


def _cuts(files: int, widths: tuple[int, int], photographs: list[Image.Image]) -> list[Cut]:
    """Choose a photograph, the size of the image and the region of the photograph, for each file."""
    dice = random.Random(0)
    cuts = []
    for _ in range(files):
        photograph = dice.choice(photographs)
        width = dice.randint(*widths)
        height = round(width * 3 / 4)
        size = min(photograph.width, photograph.height * 4 / 3) * dice.uniform(0.8, 1.0)
        x, y = dice.uniform(0, photograph.width - size), dice.uniform(0, photograph.height - size * 3 / 4)
        cuts.append((photograph, (width, height), (x, y, x + size, y + size * 3 / 4)))
    return cuts
