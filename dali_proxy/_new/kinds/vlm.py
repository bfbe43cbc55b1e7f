"""Train a vision-language model that describes images: patches of an image, and then the characters of its caption.

The folder of --data has train/ and val/, each with images, and captions.json: {"a/0.jpg": "caption"}.
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

SCORE = "captions"  # that are completely right
PATCH = 14  # height and width of a patch
PATCHES = 32  # most patches of an image: it keeps its aspect ratio, and its sides become multiples of PATCH
LENGTH = 32  # most characters of a caption
DECODER = "cpu"  # "gpu" decodes on the GPU, where the batches stay
NORMAL: dict[str, Any] = {"mean": [123.7, 116.3, 103.5], "std": [58.4, 57.1, 57.4]}


class Samples(torch.utils.data.Dataset[tuple[Any, ...]]):
    """Patches, their number, and the bytes of the caption, padded with zeros."""

    def __init__(self, folder: Path, transform: Callable[..., Any]) -> None:
        self.captions = sorted(json.loads((folder / "captions.json").read_text(encoding="utf-8")).items())
        self.folder, self.transform = folder, transform

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        name, caption = self.captions[index]
        text = caption.encode()[:LENGTH]
        tokens = torch.zeros(LENGTH, dtype=torch.long)
        tokens[: len(text)] = torch.tensor([*text])
        return *self.transform((self.folder / name).read_bytes()), tokens


def prepare(encoded: Any) -> Any:
    """Return the patches of an image, [PATCHES, features], zeros after the last one, and their number."""
    image = dynamic.decoders.image(encoded, device=DECODER)
    image = dynamic.smart_resize(image, factor=PATCH, max_pixels=PATCHES * PATCH**2, min_pixels=PATCH**2)
    patches = dynamic.patchify(image, patch_size=PATCH, **NORMAL)
    return dynamic.pad(patches, axes=[0], shape=[PATCHES]), dynamic.shapes(patches)[0]


augment = prepare  # crops and mirroring would make captions wrong


class Model(nn.Module):
    """A small transformer. Replace it by your own.

    Patches have no positions here, which larger models need. For images of many sizes, pack batches by tokens instead
    of padding them: `dali_proxy.PackedBatchSampler`.
    """

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.patches = nn.Linear(3 * PATCH**2, width)
        self.tokens = nn.Embedding(256, width)
        self.positions = nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256)
        last = PATCHES + LENGTH
        mask = torch.ones(last, last, dtype=torch.bool).triu(1)  # True where attention isn't allowed
        mask[:, :PATCHES] = False  # all see the image
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, patches: torch.Tensor, count: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return for each character the logits of this character, given the image and those before it."""
        before = nn.functional.pad(tokens, (1, -1))
        text = self.tokens(before) + self.positions.weight
        places = torch.arange(PATCHES + LENGTH, device=tokens.device)
        missing = (places >= count.reshape(-1, 1)) & (places < PATCHES)
        features = self.layers(torch.cat([self.patches(patches), text], dim=1), self.mask, missing)
        return self.head(features[:, PATCHES:])


def make_network(dataset: Samples) -> nn.Module:
    """Return the network."""
    return Model()


def compute_loss(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a batch: the characters, and one zero as the end."""
    logits, tokens = network(*batch), batch[-1]
    used = nn.functional.pad(tokens, (1, -1), value=1) > 0
    return nn.functional.cross_entropy(logits[used], tokens[used])


def compute_scores(network: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return for each sample whether the network writes the caption, if it always takes the likeliest character."""
    right, tokens = network(*batch).argmax(dim=-1) == batch[-1], batch[-1]
    unused = nn.functional.pad(tokens, (1, -1), value=1) == 0
    return (right | unused).all(dim=1)


def write_data(folder: Path) -> None:
    """Draw shapes in colors, of images of many sizes, and say what they are."""
    random = np.random.default_rng(0)
    colors = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 80, 230)}
    for split, count in (("train", 192), ("val", 32)):
        (folder / split).mkdir(parents=True)
        captions = {}
        for number in range(count):
            width, height = (int(each) for each in random.integers(60, 200, 2))
            image = Image.fromarray(random.integers(0, 60, (height, width, 3), np.uint8))
            color, shape = [*colors][random.integers(3)], ("disk", "square")[random.integers(2)]
            x, y = width // 2, height // 2
            radius = int(min(x, y) * random.uniform(0.5, 0.9))
            pen = ImageDraw.Draw(image)
            draw = pen.ellipse if shape == "disk" else pen.rectangle
            draw((x - radius, y - radius, x + radius, y + radius), fill=colors[color])
            image.save(folder / split / f"{number:03}.jpg")
            captions[f"{number:03}.jpg"] = f"a {color} {shape}"
        (folder / split / "captions.json").write_text(json.dumps(captions), encoding="utf-8")
