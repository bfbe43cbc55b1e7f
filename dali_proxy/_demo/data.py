"""The demo's images: JPEG crops of a dozen photographs, in one folder per photograph.

Without photographs on this machine, there are drawings instead.

The task is to recognise the photograph that a crop comes from. Training and held-out crops come from disjoint regions:
a vertical band in the middle of each photograph is reserved for held-out crops, and no training crop touches it. So the
network can't succeed by remembering pixels. But a held-out crop shows the same scene, in the same light, as the
training crops. That is easier than the classification of objects, and the demo doesn't claim more.
"""

from __future__ import annotations

import importlib.util
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image

from dali_proxy._demo.drawing import draw

CROP_SIZE = (300, 400)
"""Width and height of each JPEG in pixels."""

CROP_ASPECT = CROP_SIZE[0] / CROP_SIZE[1]
HELD_OUT_BAND = (0.35, 0.65)
"""Begin and end of the held-out band, as fractions of a photograph's width."""

# Files in the scikit-image wheel. It downloads its other images at run time, so they aren't listed.
BUNDLED_PHOTOGRAPHS = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "cameraman": "camera.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "galaxies": "hubble_deep_field.jpg",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "motorcycle": "motorcycle_left.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
    "tissue": "ihc.png",
}


@dataclass(frozen=True)
class Crops:
    """Numbers of photographs and of crops, and the seed of the crops' positions."""

    photographs: int = 12
    train_per_photograph: int = 40
    held_out_per_photograph: int = 12
    seed: int = 0


def photograph_paths(count: int) -> dict[str, Path]:
    """Find photographs on this machine, without any network access.

    Returns:
        The path of each photograph by its name, sorted by name: from ``$DALI_EXTRA_PATH/db/single/jpeg`` if that
        variable is set, else from the installed scikit-image.

    Raises:
        FileNotFoundError: Neither source has enough photographs.
    """
    extra = os.environ.get("DALI_EXTRA_PATH")
    found = _extra_photographs(Path(extra)) if extra else _bundled_photographs()
    if len(found) < count:
        raise FileNotFoundError(
            f"the demo needs {count} photographs and found {len(found)}: install scikit-image "
            "(pip install 'dali-proxy[demo]'), or set DALI_EXTRA_PATH to a copy of DALI_extra"
        )
    names = sorted(found)
    step = len(names) / count
    return {name: found[name] for name in (names[int(i * step)] for i in range(count))}


def photographs(count: int) -> dict[str, Callable[[], Image.Image]]:
    """Return functions that read photographs, or that draw images if scikit-image isn't installed.

    Raises:
        FileNotFoundError: ``$DALI_EXTRA_PATH`` is set, but has too few photographs.
    """
    if os.environ.get("DALI_EXTRA_PATH") or len(_bundled_photographs()) >= count:
        return {name: partial(_read, path) for name, path in photograph_paths(count).items()}
    return {f"drawing {number:02}": partial(draw, number) for number in range(count)}


def has_photographs() -> bool:
    """Return whether there are photographs on this machine."""
    return bool(os.environ.get("DALI_EXTRA_PATH") or _bundled_photographs())


def _read(path: Path) -> Image.Image:
    with Image.open(path) as opened:
        photograph: Image.Image = opened.convert("RGB")
        return photograph


def write_crops(folder: Path, crops: Crops) -> Iterator[Path]:
    """Write ``train/<photograph>/*.jpg`` and ``held_out/<photograph>/*.jpg`` below a folder.

    Args:
        folder: Destination. Missing folders are created; files of the same names are replaced.
        crops: Numbers of crops.

    Yields:
        The path of each JPEG after it was written, for a progress bar.
    """
    for number, (name, read) in enumerate(photographs(crops.photographs).items()):
        photograph = read()
        for split, count in (
            ("train", crops.train_per_photograph),
            ("held_out", crops.held_out_per_photograph),
        ):
            (folder / split / name).mkdir(parents=True, exist_ok=True)
            dice = random.Random(f"{crops.seed}/{number}/{split}")
            for index in range(count):
                path = folder / split / name / f"{index:04d}.jpg"
                box = crop_box(photograph.size, held_out=split == "held_out", dice=dice)
                photograph.resize(CROP_SIZE, Image.Resampling.BICUBIC, box=box).save(path, quality=90)
                yield path


def crop_box(size: tuple[int, int], *, held_out: bool, dice: random.Random) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a random crop in pixels, inside of the held-out band or outside."""
    width, height = size
    begin, end = HELD_OUT_BAND
    sides = [(begin, end)] if held_out else [(0.0, begin), (end, 1.0)]
    left, right = (edge * width for edge in dice.choice(sides))
    crop_width = min(right - left, height * CROP_ASPECT) * dice.uniform(0.7, 1.0)
    crop_height = crop_width / CROP_ASPECT
    x = dice.uniform(left, right - crop_width)
    y = dice.uniform(0, height - crop_height)
    return x, y, x + crop_width, y + crop_height


def _bundled_photographs() -> dict[str, Path]:
    # Only locate the package: importing it would load SciPy, and the images are plain files.
    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        return {}
    folder = Path(next(iter(spec.submodule_search_locations))) / "data"
    return {name: folder / file for name, file in BUNDLED_PHOTOGRAPHS.items() if (folder / file).is_file()}


def _extra_photographs(extra: Path) -> dict[str, Path]:
    # The first word of a name is the subject: swan-3584559_640.jpg. Two dogs share one name; only one is used.
    return {path.stem.split("-")[0]: path for path in sorted((extra / "db/single/jpeg").glob("*/*.jpg"))}
