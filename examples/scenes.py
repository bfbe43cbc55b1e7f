"""Images for segmentation and detection: objects are placed on photographs, so that masks and boxes are exact.

An object is an ellipse or a polygon cut from another photograph; its class is the photograph. The backgrounds of the
validation images don't occur in training images.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from tqdm import tqdm

from dali_proxy._demo.data import photograph_paths

CLASSES = ("first", "second", "third")
SIZE = (240, 180)  # width and height of a scene in pixels
TRAIN, VAL = 144, 36


def write_scenes(folder: Path, seed: int = 0) -> None:
    """Write train/ and val/, each with images/*.jpg, masks/*.png (0 is background) and boxes in COCO's format."""
    photographs = []
    for path in photograph_paths(12).values():
        with Image.open(path) as opened:
            photographs.append(opened.convert("RGB"))
    textures, backgrounds = photographs[-len(CLASSES) :], photographs[: -len(CLASSES)]
    with tqdm(total=TRAIN + VAL, desc="writing scenes", unit="image", disable=None) as bar:
        for split, count, choice in (("train", TRAIN, backgrounds[:-2]), ("val", VAL, backgrounds[-2:])):
            (folder / split / "images").mkdir(parents=True)
            (folder / split / "masks").mkdir()
            dice = random.Random(f"{seed}/{split}")
            boxes = []
            for number in range(count):
                image, mask = scene(dice.choice(choice), textures, dice)
                image.save(folder / split / "images" / f"{number:04}.jpg", quality=90)
                mask.save(folder / split / "masks" / f"{number:04}.png")
                boxes.append(list(boxes_of(np.asarray(mask))))
                bar.update()
            (folder / split / "instances.json").write_text(json.dumps(as_coco(boxes)))


def scene(background: Image.Image, textures: list[Image.Image], dice: random.Random) -> tuple[Image.Image, Image.Image]:
    """Place one object each of one to three classes; the mask has the number of the class, from 1."""
    image, mask = cut(background, SIZE, dice), Image.new("L", SIZE)
    columns = dice.sample(range(len(textures)), len(textures))  # each gets a third of the width, so they never overlap
    for label in dice.sample(range(len(textures)), dice.randint(1, len(textures))):
        width, height = dice.randint(40, SIZE[0] // 3 - 2), dice.randint(40, 100)
        left = columns[label] * SIZE[0] // 3 + dice.randint(0, SIZE[0] // 3 - width)
        top = dice.randint(0, SIZE[1] - height)
        shape = Image.new("L", (width, height))
        outline(ImageDraw.Draw(shape), width, height, dice)
        image.paste(cut(textures[label], (width, height), dice), (left, top), shape)
        mask.paste(label + 1, (left, top), shape)
    return image, mask


def cut(photograph: Image.Image, size: tuple[int, int], dice: random.Random) -> Image.Image:
    """Cut a part of random size at a random place, and resize it."""
    scale = min(photograph.width / size[0], photograph.height / size[1]) * dice.uniform(0.5, 1.0)
    width, height = size[0] * scale, size[1] * scale
    left, top = dice.uniform(0, photograph.width - width), dice.uniform(0, photograph.height - height)
    return photograph.resize(size, Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))


def outline(pen: ImageDraw.ImageDraw, width: int, height: int, dice: random.Random) -> None:
    """Draw a filled ellipse, or a polygon with its corners on one."""
    corners = dice.choice([0, 4, 5, 6])
    if not corners:
        pen.ellipse((0, 0, width - 1, height - 1), fill=255)
        return
    turn = dice.uniform(0, 2 * math.pi)
    angles = [turn + 2 * math.pi * corner / corners for corner in range(corners)]
    pen.polygon([(width / 2 * (1 + math.cos(a)), height / 2 * (1 + math.sin(a))) for a in angles], fill=255)


def boxes_of(mask: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """Yield each class in a mask with its box: left, top, width, height."""
    for label in range(1, len(CLASSES) + 1):
        ys, xs = np.nonzero(mask == label)
        if len(xs):
            left, top = int(xs.min()), int(ys.min())
            yield label, [left, top, int(xs.max()) + 1 - left, int(ys.max()) + 1 - top]


def as_coco(boxes: list[list[tuple[int, list[int]]]]) -> dict[str, list[dict[str, object]]]:
    """Return annotations in the format of COCO's instances files."""
    names = [f"{number:04}.jpg" for number in range(len(boxes))]
    return {
        "images": [{"id": i, "file_name": name, "width": SIZE[0], "height": SIZE[1]} for i, name in enumerate(names)],
        "categories": [{"id": label, "name": name} for label, name in enumerate(CLASSES, start=1)],
        "annotations": [
            {"image_id": i, "category_id": label, "bbox": box} for i, found in enumerate(boxes) for label, box in found
        ],
    }
