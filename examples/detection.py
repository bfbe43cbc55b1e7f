"""Train a detector: boxes go through the pipeline with their image, and are mirrored with it.

    python examples/detection.py --picture boxes.png
    python examples/detection.py --data /data/coco --image-size 320 --epochs 50

--data names a folder with train/ and val/, each with images/ and instances.json (COCO annotations). Without it, the
example places objects on photographs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import boxes
import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

import common
import dali_proxy
import scenes
from dali_proxy.pipeline import DataNode, fn, pipeline_def, types
from networks import encoder

STRIDE = 8
BOXES = 5  # guesses per image


class Coco(Dataset):
    """Images and their objects: float [n, 5], with centre x, centre y, width and height as fractions, and class."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        self.transform = transform
        annotations = json.loads((folder / "instances.json").read_text())
        self.classes = [category["name"] for category in annotations["categories"]]
        number = {category["id"]: i for i, category in enumerate(annotations["categories"])}
        rows: dict[int, list[list[float]]] = {image["id"]: [] for image in annotations["images"]}
        for found in annotations["annotations"]:
            left, top, width, height = found["bbox"]
            row = [left + width / 2, top + height / 2, width, height, number[found["category_id"]]]
            rows[found["image_id"]].append(row)
        self.samples = [
            (
                folder / "images" / image["file_name"],
                np.array(rows[image["id"]], np.float32).reshape(-1, 5)
                / np.array([image["width"], image["height"], image["width"], image["height"], 1], np.float32),
            )
            for image in annotations["images"]
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, objects = self.samples[index]
        return self.transform(image=np.fromfile(path, np.uint8), objects=objects)


@pipeline_def
def detection_pipe(decoder: str, size: int, augment: bool):
    """Return images, float [3, size, size], and objects, float [n, 5]."""
    image = fn.decoders.image(fn.external_source(name="image", no_copy=True), device=decoder)
    objects = fn.external_source(name="objects", dtype=types.FLOAT, ndim=2)
    image = fn.resize(image, size=(size, size), interp_type=types.INTERP_LINEAR)
    mirror: int | DataNode = 0
    if augment:
        mirror = fn.random.coin_flip()
        # x becomes 1 - x if the image is mirrored: x + mirror * (1 - 2 * x). The other columns don't change.
        one, two = (types.Constant(np.array([value, 0, 0, 0, 0], np.float32)) for value in (1, 2))
        objects = objects + mirror * (one - two * objects)
    return (
        fn.crop_mirror_normalize(image, dtype=types.FLOAT, mean=common.MEAN, std=common.STD, mirror=mirror),
        objects,
    )


class Detector(nn.Module):
    """Computes, for each cell of 8 x 8 pixels, logits of the classes and a box with its centre in the cell."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = encoder((24, 48, 96))
        self.context = nn.Sequential(nn.Conv2d(96, 96, 3, padding=2, dilation=2), nn.ReLU())
        self.head = nn.Conv2d(96, classes + 4, kernel_size=3, padding=1)
        _, bias = self.head.parameters()
        nn.init.constant_(bias[:classes], -3.0)  # most cells are empty

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.features(images)
        output = self.head(features + self.context(features))
        offsets, sizes = output[:, -4:-2].sigmoid(), output[:, -2:].sigmoid()
        height, width = output.shape[2:]
        cells = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy")).to(output)
        centres = (cells + offsets) / torch.tensor([width, height]).to(output).view(2, 1, 1)
        return output[:, :-4], torch.cat([centres, sizes], dim=1)


def loss_of(logits: torch.Tensor, boxes: torch.Tensor, objects: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return the focal loss of all cells' classes, plus the distance of boxes in cells with an object's centre."""
    targets, distances = torch.zeros_like(logits), []
    height, width = logits.shape[2:]
    for index, rows in enumerate(objects):  # a tensor [n, 5] for each image, n may differ
        for row in rows.to(logits.device):
            x, y = (int(row[i].clamp(0, 0.999) * extent) for i, extent in ((0, width), (1, height)))
            targets[index, int(row[4]), y, x] = 1
            distances.append((boxes[index, :, y, x] - row[:4]).abs().sum())
    chance = logits.sigmoid()
    miss = torch.where(targets > 0, 1 - chance, chance) ** 2
    entropy = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    found = max(len(distances), 1)
    return (miss * entropy).sum() / found + 2 * sum(distances, logits.new_zeros(())) / found


@torch.no_grad()
def detect(network: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    """Find the best boxes of each image, [BOXES, 5]."""
    logits, boxes = network(images)
    peaks = torch.where(logits == functional.max_pool2d(logits, 3, stride=1, padding=1), logits, -torch.inf)
    places = peaks.flatten(1).topk(BOXES).indices
    classes, cells = places // logits[0, 0].numel(), places % logits[0, 0].numel()
    found = boxes.flatten(2).transpose(1, 2).gather(1, cells[..., None].expand(-1, -1, 4))
    return list(torch.cat([found, classes[..., None]], dim=2).cpu())


def main() -> None:
    options = common.parse(common.make_parser(__doc__, epochs=12, batch_size=16))
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    with ExitStack() as stack:
        folder = options.data or stack.enter_context(common.temporary_folder())
        if options.data is None:
            scenes.write_scenes(folder, options.seed)
        server = stack.enter_context(dali_proxy.DALIServer(detection_pipe(augment=True, **pipe_options)))
        train_set = Coco(folder / "train", transform=server.proxy)
        loader = dali_proxy.DataLoader(server, train_set, shuffle=True, **loader_options)
        network = Detector(len(train_set.classes)).to(options.device)
        optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
        meter = common.Meter(options.epochs, len(loader))
        for _ in range(options.epochs):
            for images, objects in meter.follow(loader):
                logits, guesses = network(images.to(options.device))
                loss = loss_of(logits, guesses, objects)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                meter.add(loss, len(images))
        meter.close()
        stats = server.stats()
        if options.picture:
            images, objects = next(iter(loader))
            common.save_picture(options.picture, images, boxes=[boxes.corners(rows) for rows in objects])

        val_server = stack.enter_context(dali_proxy.DALIServer(detection_pipe(augment=False, **pipe_options)))
        val_set = Coco(folder / "val", transform=val_server.proxy)
        network.eval()
        score = boxes.recall(
            pair
            for images, objects in dali_proxy.DataLoader(val_server, val_set, **loader_options)
            for pair in zip(objects, detect(network, images.to(options.device)), strict=True)
        )
    meter.report(stats, recall=f"{score:.1%} at IoU 0.5 with {BOXES} boxes per image, on {len(val_set)} images")


if __name__ == "__main__":
    main()
