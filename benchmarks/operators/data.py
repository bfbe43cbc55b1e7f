"""Inputs of the operators: batches of realistic data, by name, the same in every process."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

BATCH = 64
#: Layouts, for data with a layout.
LAYOUTS = {
    "images": "HWC",
    "thumbnails": "HWC",
    "stamps": "HWC",
    "ragged": "HWC",
    "greys": "HWC",
    "planes": "CHW",
    "clips": "FHWC",
    "volumes": "DHWC",
    "mosaics": "HW",
}


def sample_image(number: int, height: int = 480, width: int = 640) -> Array:
    """Create a smooth image with some grain, uint8 [height, width, 3]: as a JPEG it is as large as a photograph."""
    rng = np.random.default_rng(number)
    coarse = rng.integers(0, 256, (12, 16, 3)).astype(np.float32)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    grain = cv2.resize(rng.normal(0, 9, (height // 2, width // 2, 3)).astype(np.float32), (width, height))
    return np.clip(smooth + grain, 0, 255).astype(np.uint8)


def _numbers(low: float, high: float, *shape: int, dtype: npt.DTypeLike = np.float32) -> Callable[[Path], list[Array]]:
    """Return a function that creates one array per sample, with numbers from `low` to `high`."""

    def make(folder: Path) -> list[Array]:
        drawn = np.random.default_rng(0).uniform(low, high, (BATCH, *shape))
        return list((np.floor(drawn) if np.dtype(dtype).kind in "iu" else drawn).astype(dtype))

    return make


def _ragged(folder: Path) -> list[Array]:
    extents = np.random.default_rng(0).integers((240, 320), (481, 641), (BATCH, 2)).tolist()
    return [sample_image(number, *extent) for number, extent in enumerate(extents)]


def _boxes(folder: Path) -> list[Array]:
    """Return twenty boxes per sample: left, top, right, bottom from 0 to 1."""
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 0.7, (BATCH, 20, 2))
    return list(np.concatenate([corner, corner + rng.uniform(0.05, 0.3, (BATCH, 20, 2))], axis=2).astype(np.float32))


def _encoded(suffix: str) -> Callable[[Path], list[Array]]:
    def make(folder: Path) -> list[Array]:
        encoded = [cv2.imencode(suffix, sample_image(number))[1].ravel() for number in range(8)]
        return [encoded[number % 8] for number in range(BATCH)]

    return make


def _npy(folder: Path) -> list[Array]:
    file = io.BytesIO()
    np.save(file, sample_image(0, 224, 224))
    return [np.frombuffer(file.getvalue(), np.uint8)] * BATCH


def _paths(folder: Path) -> list[Array]:
    return [np.frombuffer(str(path).encode(), np.uint8) for path in sorted((folder / "files/a").glob("*.jpg"))]


def _blobs(folder: Path) -> list[Array]:
    """Return segmentation maps with four classes."""
    return [(sample_image(number, 120, 160)[..., 0] // 64).astype(np.int32) for number in range(BATCH)]


def _swirl(number: int) -> tuple[Array, Array]:
    """Return smooth maps of positions along x and y, float32 [480, 640]."""
    y, x = np.mgrid[:480, :640].astype(np.float32)
    return x + 5 * np.sin(y / 30 + number), y + 5 * np.cos(x / 30 + number)


def _volumes(folder: Path) -> list[Array]:
    """Return grey volumes that change smoothly along all axes, uint8 [24, 96, 96, 1]."""
    made = []
    for number in range(BATCH):
        planes = sample_image(number, 96, 96)[..., :2].astype(np.float32)
        share = np.linspace(0, 1, 24, dtype=np.float32)[:, None, None, None]
        made.append((planes[..., :1] * (1 - share) + planes[..., 1:] * share).astype(np.uint8))
    return made


def _tone(number: int) -> Array:
    """Return a second of frequencies that all sample rates of the cases can represent, float32 [44100]."""
    time = np.arange(44_100) / 44_100
    return (8000 * sum(np.sin((500 * part + 20 * number) * time) / part for part in range(1, 9))).astype(np.float32)


def _flac(folder: Path) -> list[Array]:
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, make("signals", folder)[0] / 2, 16_000, format="FLAC")
    return [np.frombuffer(file.getvalue(), np.uint8)] * BATCH


_MAKERS: dict[str, Callable[[Path], list[Array]]] = {
    "images": lambda folder: [sample_image(number) for number in range(BATCH)],
    "thumbnails": lambda folder: [sample_image(number, 240, 320) for number in range(BATCH)],
    "stamps": lambda folder: [sample_image(number, 120, 160) for number in range(BATCH)],
    "ragged": _ragged,
    "greys": lambda folder: [sample_image(number)[..., :1].copy() for number in range(BATCH)],
    "planes": _numbers(0, 1, 3, 224, 224),
    "clips": lambda folder: [np.stack([sample_image(number, 120, 160)] * 8) for number in range(BATCH)],
    "volumes": _volumes,
    "means": _numbers(0.4, 0.6, 3, 1, 1),
    "jpegs": _encoded(".jpg"),
    "pngs": _encoded(".png"),
    "npys": _npy,
    "flacs": _flac,
    "signals": _numbers(-1, 1, 16_000),
    "tones": lambda folder: [_tone(number) for number in range(BATCH)],
    "stereo": lambda folder: [np.stack([_tone(number), _tone(number + 1)], 1) for number in range(BATCH)],
    "spectra": _numbers(0, 1, 257, 100),
    "paths": _paths,
    "vectors": _numbers(0, 1, 1000),
    "tokens": _numbers(0, 100, 1000, dtype=np.int32),
    "labels": _numbers(0, 100, dtype=np.int32),
    "boxes": _boxes,
    "class_ids": _numbers(0, 100, 20, dtype=np.int32),
    "mosaics": lambda folder: [sample_image(number)[..., 0].copy() for number in range(BATCH)],
    "blobs": _blobs,
    "mask_ids": lambda folder: [np.array([4, 2, 0], np.int32)] * BATCH,
    "polygons": lambda folder: [np.array([[mask, 20 * mask, 20 * mask + 20] for mask in range(5)], np.int32)] * BATCH,
    "vertices": _numbers(0, 100, 100, 2),
    "points": _numbers(0, 1, 1000, 2),
    "matrices": lambda folder: [
        np.array([[1, skew, -20], [-skew, 1, 30]], np.float32) for skew in np.linspace(-0.3, 0.3, BATCH)
    ],
    "kernels": _numbers(0, 0.1, 5, 5),
    "columns": lambda folder: [_swirl(number)[0] for number in range(BATCH)],
    "rows": lambda folder: [_swirl(number)[1] for number in range(BATCH)],
    "factors": _numbers(0.5, 1.5),
    "angles": _numbers(-45, 45),
    "flags": _numbers(0, 2, dtype=np.int32),
    "anchors": _numbers(0, 0.3, 2),
    "extents": _numbers(0.4, 0.6, 2),
    "offsets": _numbers(-20, 20, 2),
    "order": lambda folder: list(np.random.default_rng(0).permutation(BATCH).astype(np.int32)),
    "small_shapes": _numbers(100, 200, 2, dtype=np.int32),
}
NAMES = frozenset(_MAKERS)


@cache
def make(name: str, folder: Path, count: int = BATCH) -> list[Array]:
    """Create the batch of a name.

    Args:
        name: one of `NAMES`; then, after dots, another layout or another dtype, as in "images.CHW.float32".
        folder: folder from `write_files`.
        count: number of arrays, at most `BATCH`.
    """
    base, _, last = name.rpartition(".")
    if not base:
        return _MAKERS[name](folder)[:count]
    if last.isupper():
        order = [LAYOUTS[base].index(axis) for axis in last]
        return [np.ascontiguousarray(sample.transpose(order)) for sample in make(base, folder, count)]
    return [sample.astype(last) for sample in make(base, folder, count)]


def layout_of(name: str) -> str | None:
    """Return the layout of the batch of a name, if it has one."""
    base, *others = name.split(".")
    return next((each for each in others if each.isupper()), LAYOUTS.get(base))


def write_files(folder: Path) -> None:
    """Write the files for readers: images in two classes, arrays, a sequence, annotations, an archive."""
    jpegs = [cv2.imencode(".jpg", sample_image(number))[1].tobytes() for number in range(8)]
    arrays = [sample_image(number, 224, 224) for number in range(8)]
    frame = cv2.imencode(".jpg", sample_image(0, 60, 80))[1].tobytes()
    for parent in ("files/a", "files/b", "arrays", "sequences/0"):
        (folder / parent).mkdir(parents=True)
    for number in range(BATCH):
        for label in "ab":
            (folder / f"files/{label}/{number:03}.jpg").write_bytes(jpegs[number % 8])
        np.save(folder / f"arrays/{number:03}.npy", arrays[number % 8])
        (folder / f"sequences/0/{number:03}.jpg").write_bytes(frame)
    (folder / "coco.json").write_text(json.dumps(_annotations()))
    index = []
    with tarfile.open(folder / "archive.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(BATCH):
            parts = []
            for suffix, content in (("jpg", jpegs[number % 8]), ("cls", b"7")):
                member = tarfile.TarInfo(f"{number:03}.{suffix}")
                member.size = len(content)
                parts.append(f"{suffix} {archive.offset + tarfile.BLOCKSIZE} {len(content)} {member.name}")
                archive.addfile(member, io.BytesIO(content))
            index.append(" ".join(parts))
    (folder / "archive.idx").write_text("\n".join([f"v1.2 {BATCH}", *index]) + "\n")


def _annotations() -> dict[str, Any]:
    images = [{"id": number, "file_name": f"a/{number:03}.jpg", "height": 480, "width": 640} for number in range(BATCH)]
    boxes = [
        {
            "id": number,
            "image_id": number % BATCH,
            "category_id": 1 + number % 3,
            "bbox": [10 + number % 200, 20, 100, 90],
            "area": 9000,
            "iscrowd": 0,
            "segmentation": [[10, 10, 90, 12, 80, 70]],
        }
        for number in range(8 * BATCH)
    ]
    return {
        "images": images,
        "annotations": boxes,
        "categories": [{"id": each, "name": str(each)} for each in (1, 2, 3)],
    }
