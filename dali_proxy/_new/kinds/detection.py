"""Train a detector of objects.

The folder of --data has train/ and val/, each with images/ and instances.json in the format of COCO.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn

from dali_proxy import dynamic

SCORE = "recall"  # of objects that a box with IoU 0.5 and the right class finds
SIZE = 128  # height and width of the network's input
CELL = 16  # the network finds at most one object in each cell of so many pixels
OBJECTS = 20  # most objects of an image; others are left out
DECODER = "cpu"  # "gpu" decodes on the GPU, where the batches stay
NORMAL: dict[str, Any] = {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4]}


class Samples(torch.utils.data.Dataset[Any]):
    """Encoded images, boxes (left, top, right, bottom as fractions of the image), and classes from 0."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        content = json.loads((folder / "instances.json").read_text(encoding="utf-8"))
        self.folder, self.transform, self.images = folder / "images", transform, content["images"]
        self.classes = sorted(each["id"] for each in content["categories"])
        self.found: dict[int, list[Any]] = {image["id"]: [] for image in self.images}
        for annotation in content["annotations"]:
            if not annotation.get("iscrowd"):
                self.found[annotation["image_id"]].append(annotation)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        image = self.images[index]
        found = self.found[image["id"]][:OBJECTS]
        ltwh = np.array([each["bbox"] for each in found], np.float32).reshape(-1, 4)
        boxes = np.concatenate([ltwh[:, :2], ltwh[:, :2] + ltwh[:, 2:]], axis=1)
        boxes /= np.array([image["width"], image["height"]] * 2, np.float32)
        labels = np.array([self.classes.index(each["category_id"]) for each in found], np.int32)
        encoded = (self.folder / image["file_name"]).read_bytes()
        return self.transform(image=encoded, boxes=boxes, labels=labels)


def augment(image: Any, boxes: Any, labels: Any) -> Any:
    """Return a random crop of an image, CHW, and the boxes and classes that are left, for the training."""
    start, shape, boxes, labels = dynamic.random_bbox_crop(
        boxes, labels, aspect_ratio=[0.7, 1.4], scaling=[0.5, 1.0], bbox_layout="xyXY", allow_no_crop=True
    )
    mirror = dynamic.random.coin_flip()
    image = dynamic.decoders.image_slice(image, start, shape, device=DECODER)
    image = dynamic.resize(image, size=(SIZE, SIZE))
    boxes = dynamic.bb_flip(boxes, horizontal=mirror, ltrb=True)
    return dynamic.crop_mirror_normalize(image, mirror=mirror, **NORMAL), *padded(boxes, labels)


def prepare(image: Any, boxes: Any, labels: Any) -> Any:
    """Return a whole image, CHW, its boxes and its classes, for the validation."""
    image = dynamic.resize(dynamic.decoders.image(image, device=DECODER), size=(SIZE, SIZE))
    return dynamic.crop_mirror_normalize(image, **NORMAL), *padded(boxes, labels)


def padded(boxes: Any, labels: Any) -> tuple[Any, Any]:
    """Return `OBJECTS` boxes and classes, so that samples are equal in shape. The class -1 means that there is none."""
    boxes = dynamic.pad(boxes, axes=[0], shape=[OBJECTS])
    return boxes, dynamic.pad(labels, axes=[0], shape=[OBJECTS], fill_value=-1)


class Detector(nn.Module):
    """A small network from images to a box and logits in each cell: [N, cells, 4] and [N, cells, 1 + classes].

    The first logit is that of a cell without an object. Replace this network by your own.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels, width in ((3, 16), (16, 32), (32, 64), (64, 96)):
            layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.Conv2d(96, 96, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(96, 5 + classes, 1)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return boxes and logits."""
        output = self.head(self.features(images))
        rows, columns = output.shape[2:]
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        cells = torch.stack([x, y]).to(output)
        centers = (cells + output[:, :2].sigmoid()) / torch.tensor([columns, rows]).to(output).view(2, 1, 1)
        halves = output[:, 2:4].sigmoid() / 2
        boxes = torch.cat([centers - halves, centers + halves], dim=1)
        return boxes.flatten(2).transpose(1, 2), output[:, 4:].flatten(2).transpose(1, 2)


def make_network(dataset: Samples) -> nn.Module:
    """Return the network."""
    return Detector(len(dataset.classes))


def compute_loss(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a batch: the class of all cells, and the distance of boxes where there is an object."""
    images, boxes, labels = batch
    guesses, logits = network(images)
    side = SIZE // CELL
    columns, rows = ((boxes[..., :2] + boxes[..., 2:]) / 2 * side).long().clamp(0, side - 1).unbind(-1)
    sample, number = (labels >= 0).nonzero(as_tuple=True)
    cell = (rows * side + columns)[sample, number]
    targets = torch.zeros_like(logits[..., 0], dtype=torch.long)
    targets[sample, cell] = 1 + labels[sample, number].long()
    weights = torch.ones(logits.shape[-1], device=logits.device)
    weights[0] = 0.2  # most cells are empty
    classes = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), weights)
    distance = (guesses[sample, cell] - boxes[sample, number]).abs().sum(dim=-1)
    return classes + 2 * distance.sum() / max(1, len(sample))


def compute_scores(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return for each object whether a box finds it."""
    images, boxes, labels = batch
    guesses, logits = network(images)
    sample, number = (labels >= 0).nonzero(as_tuple=True)
    truth, found = boxes[sample, number][:, None], guesses[sample]  # [objects, 1 or cells, 4]
    overlap = (torch.minimum(truth, found)[..., 2:] - torch.maximum(truth, found)[..., :2]).clamp(min=0).prod(-1)
    areas = [(each[..., 2:] - each[..., :2]).prod(-1) for each in (truth, found)]
    iou = overlap / (areas[0] + areas[1] - overlap)
    right = logits.argmax(dim=-1)[sample] == 1 + labels[sample, number][:, None]
    return ((iou > 0.5) & right).any(dim=1)


def write_data(folder: Path) -> None:
    """Draw disks, class 1, and rectangles, class 2, on noise."""
    random = np.random.default_rng(0)
    for split, count in (("train", 160), ("val", 32)):
        (folder / split / "images").mkdir(parents=True)
        images, annotations = [], []
        for number in range(count):
            image = Image.fromarray(random.integers(0, 80, (120, 160, 3), np.uint8))
            for left, label in ((0, 1), (80, 2)):
                x, y, width, height = (int(each) for each in random.integers((0, 0, 35, 35), (20, 60, 60, 60)))
                box = (left + x, y, left + x + width, y + height)
                pen = ImageDraw.Draw(image)
                draw, color = (pen.ellipse, (220, 90, 60)) if label == 1 else (pen.rectangle, (60, 150, 220))
                draw(box, fill=color)
                annotations.append({"image_id": number, "category_id": label, "bbox": [left + x, y, width, height]})
            name = f"{number:03}.jpg"
            image.save(folder / split / "images" / name)
            images.append({"id": number, "file_name": name, "width": image.width, "height": image.height})
        categories = [{"id": 1, "name": "disk"}, {"id": 2, "name": "rectangle"}]
        content = {"images": images, "annotations": annotations, "categories": categories}
        (folder / split / "instances.json").write_text(json.dumps(content), encoding="utf-8")
