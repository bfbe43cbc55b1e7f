"""Train SSD, a single shot detector, as with NVIDIA DALI: the pipeline reads COCO, crops and encodes the boxes.

    python examples/ssd.py --picture guesses.png
    python examples/ssd.py --data /data/coco --image-size 320 --epochs 50

`fn.random_bbox_crop` crops images so that they keep objects, and `fn.box_encoder` assigns the objects to the network's
default boxes. So all targets have one shape. --data names a folder with train/ and val/, each with images/ and
instances.json (COCO annotations). Without it, the example places objects on photographs. The pipeline's reader provides
the data, so the example needs neither a dataset nor a server (`detection.py` has both).
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import boxes
import torch
from torch import nn
from torch.nn import functional

import common
import dali_proxy
import scenes
from dali_proxy import fn, pipeline_def, types
from networks import convolution, encoder

STRIDES = (8, 16, 32)
SIZES = (0.2, 0.4, 0.75, 1.2)  # of the default boxes of each stride, as fractions of the image
RATIOS = (1.0, 2.0, 0.5)
PER_CELL = len(RATIOS) + 1
STDS = (0.1, 0.1, 0.2, 0.2)  # scale of encoded boxes, as in the paper's code (Liu et al. 2016)
BOXES = 5  # guesses per image


def default_boxes(size: int) -> torch.Tensor:
    """Return the default boxes of images of `size` pixels, [n, 4]: centre x, centre y, width, height."""
    rows = []
    for stride, scale, following in zip(STRIDES, SIZES, SIZES[1:], strict=False):
        cells = -(-size // stride)
        shapes = [(scale * ratio**0.5, scale / ratio**0.5) for ratio in RATIOS] + [((scale * following) ** 0.5,) * 2]
        centres = [((x + 0.5) / cells, (y + 0.5) / cells) for y in range(cells) for x in range(cells)]
        rows += [(*centre, *shape) for centre in centres for shape in shapes]
    return torch.tensor(rows)


@pipeline_def
def training_pipe(folder: Path, decoder: str, size: int, anchors: list[float]):
    """Return images, float [3, size, size], and for each default box an encoded box, float [4], and a class."""
    encoded, objects, labels = fn.readers.coco(
        file_root=str(folder / "images"),
        annotations_file=str(folder / "instances.json"),
        ltrb=True,
        ratio=True,
        skip_empty=True,
        shuffle_after_epoch=True,
        name="Reader",
    )
    start, shape, objects, labels = fn.random_bbox_crop(
        objects,
        labels,
        aspect_ratio=[0.5, 2.0],
        scaling=[0.4, 1.0],
        thresholds=[0.0, 0.1, 0.3, 0.5, 0.7, 0.9],
        num_attempts=20,
        bbox_layout="xyXY",
    )
    image = fn.decoders.image_slice(encoded, start, shape, device=decoder)
    image = fn.resize(image, size=(size, size), interp_type=types.INTERP_LINEAR)
    mirror = fn.random.coin_flip()
    objects = fn.bb_flip(objects, ltrb=True, horizontal=mirror)
    objects, labels = fn.box_encoder(objects, labels, anchors=anchors, criteria=0.5, offset=True, stds=STDS)
    image = fn.crop_mirror_normalize(image, dtype=types.FLOAT, mean=common.MEAN, std=common.STD, mirror=mirror)
    return image, objects, labels


@pipeline_def
def validation_pipe(folder: Path, decoder: str, size: int):
    """Return images, their boxes as left, top, width and height, float [n, 4], and classes: 0 fills up the batch."""
    encoded, objects, labels = fn.readers.coco(
        file_root=str(folder / "images"),
        annotations_file=str(folder / "instances.json"),
        ratio=True,
        name="Reader",
    )
    image = fn.resize(fn.decoders.image(encoded, device=decoder), size=(size, size), interp_type=types.INTERP_LINEAR)
    image = fn.crop_mirror_normalize(image, dtype=types.FLOAT, mean=common.MEAN, std=common.STD)
    return image, fn.pad(objects), fn.pad(labels)


class SSD(nn.Module):
    """Computes, for each default box, logits of no object and the classes, and an encoded box."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList([encoder((24, 48, 96)), *(convolution(96, 96, stride=2) for _ in STRIDES[1:])])
        self.per_box = 1 + classes + 4
        self.heads = nn.ModuleList(nn.Conv2d(96, PER_CELL * self.per_box, 3, padding=1) for _ in STRIDES)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features, outputs = images, []
        for level, head in zip(self.levels, self.heads, strict=True):
            features = level(features)
            outputs.append(head(features).permute(0, 2, 3, 1).flatten(1).unflatten(1, (-1, self.per_box)))
        output = torch.cat(outputs, dim=1)
        return output[..., :-4], output[..., -4:]


def loss_of(logits: torch.Tensor, offsets: torch.Tensor, truth: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of classes plus that of boxes. Three empty boxes count for each object: the worst ones."""
    entropy = functional.cross_entropy(logits.transpose(1, 2), labels.long(), reduction="none")
    found = labels > 0
    ranks = entropy.masked_fill(found, 0).argsort(dim=1, descending=True).argsort(dim=1)
    counted = found | (ranks < 3 * found.sum(dim=1, keepdim=True))
    distance = functional.smooth_l1_loss(offsets[found], truth[found], reduction="sum")
    return (entropy[counted].sum() + distance) / found.sum().clamp(min=1)


@torch.no_grad()
def detect(network: nn.Module, images: torch.Tensor, anchors: torch.Tensor, chance: float = 0.0) -> list[torch.Tensor]:
    """Find the best boxes of each image, [BOXES or fewer, 5], of at least this chance, without overlaps."""
    logits, offsets = (output.float().cpu() for output in network(images))
    offsets = offsets * torch.tensor(STDS)
    found = torch.cat([anchors[:, :2] + offsets[..., :2] * anchors[:, 2:], anchors[:, 2:] * offsets[..., 2:].exp()], 2)
    chances, classes = logits.softmax(dim=2)[..., 1:].max(dim=2)
    guesses = []
    for scores, rows in zip(chances, torch.cat([found, classes[..., None]], dim=2), strict=True):
        best: list[torch.Tensor] = []
        while len(best) < BOXES and scores.max() > chance:
            best.append(rows[scores.argmax()])
            scores[boxes.iou(best[-1], rows) > 0.45] = 0
        guesses.append(torch.stack(best) if best else rows[:0])
    return guesses


def main() -> None:
    options = common.parse(common.make_parser(__doc__, epochs=12, batch_size=16, workers=False))
    pipe_options = common.pipeline_options(options)
    anchors = default_boxes(options.image_size)
    corners = torch.cat([anchors[:, :2] - anchors[:, 2:] / 2, anchors[:, :2] + anchors[:, 2:] / 2], dim=1)
    iterate: dict[str, Any] = {
        "reader_name": "Reader",
        "last_batch_policy": dali_proxy.LastBatchPolicy.PARTIAL,
        "auto_reset": True,
    }
    with ExitStack() as stack:
        folder = options.data or stack.enter_context(common.temporary_folder())
        if options.data is None:
            scenes.write_scenes(folder, options.seed)
        categories = json.loads((folder / "train" / "instances.json").read_text())["categories"]
        pipe = training_pipe(folder / "train", anchors=corners.flatten().tolist(), **pipe_options)
        stack.callback(pipe.close)
        loader = dali_proxy.DALIGenericIterator(pipe, ["images", "boxes", "labels"], **iterate)
        network = SSD(len(categories)).to(options.device)
        optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
        meter = common.Meter(options.epochs, len(loader))
        for _ in range(options.epochs):
            for (batch,) in meter.follow(loader):
                images, truth, labels = (batch[name].to(options.device) for name in ("images", "boxes", "labels"))
                logits, offsets = network(images)
                loss = loss_of(logits, offsets, truth, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                meter.add(loss, len(images))
        meter.close()

        val_pipe = validation_pipe(folder / "val", **pipe_options)
        stack.callback(val_pipe.close)
        val_loader = dali_proxy.DALIGenericIterator(val_pipe, ["images", "boxes", "labels"], **iterate)
        network.eval()
        pairs: list[Any] = []
        shown: list[torch.Tensor] = []
        found: list[torch.Tensor] = []
        for (batch,) in val_loader:
            images = batch["images"].to(options.device)
            if len(shown) < 32:
                shown += list(images)
                found += map(boxes.corners, detect(network, images, anchors, chance=0.5))
            for objects, labels, guesses in zip(
                batch["boxes"], batch["labels"], detect(network, images, anchors), strict=True
            ):
                low, extents = objects[labels > 0].split(2, dim=1)
                truth = torch.cat([low + extents / 2, extents, labels[labels > 0, None] - 1], dim=1)
                pairs.append((truth, guesses))
        score = boxes.recall(pairs)
    meter.report(None, recall=f"{score:.1%} at IoU 0.5 with {BOXES} boxes per image, on {len(pairs)} images")
    if options.picture:
        common.save_picture(options.picture, shown, boxes=found)


if __name__ == "__main__":
    main()
