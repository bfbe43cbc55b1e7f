"""Train a small vision-language model on drawn shapes and their captions, in packed batches without padding.

    python examples/vision_language.py --picture patches.png
    torchrun --nproc-per-node 2 examples/vision_language.py

A sample is a caption, such as "a red circle , a blue square", with an image of any size for each shape; some have no
image. Images become patches as for Qwen2-VL. A batch has a number of tokens, and the batches of all ranks cost the
same. The score is the share of colours and shapes that the model names correctly.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

import common
import dali_proxy
from dali_proxy import Mixture, PackedBatchSampler, PackedCollate, PatchGrid, SourceCounts, fn, pipeline_def, types

GRID = PatchGrid(patch_size=8, merge_size=2, temporal_patch_size=1, min_pixels=32 * 32, max_pixels=64 * 64)
COLORS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (50, 80, 230), "yellow": (240, 220, 40)}
SHAPES = ("circle", "square", "triangle")
WORDS = ["<image>", "<end>", "a", ",", "no", *COLORS, *SHAPES]
IMAGE, END = 0, 1
LARGEST = 256  # positions
WIDTH, HEADS = 96, 4


class Captions(Dataset):
    """Captions of up to three drawn shapes, each with an image of its own size; none in a few."""

    def __init__(self, count: int, seed: int, images: bool, transform: Callable[[np.ndarray], Any]) -> None:
        self.transform = transform
        dice = np.random.default_rng(seed)
        self.samples = []
        for number in range(count):
            shapes = [
                (dice.choice(list(COLORS)), dice.choice(SHAPES), tuple(dice.integers(24, 96, 2).tolist()))
                for _ in range(dice.integers(1, 4) if images else 0)
            ]
            self.samples.append((shapes, seed + number))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, Any]:
        shapes, seed = self.samples[index]
        return {
            "input_ids": self.tokens(index),
            "pixel_values": [self.transform(drawn(color, shape, size, seed)) for color, shape, size in shapes],
            "image_grid_thw": [GRID.thw(*size) for _, _, size in shapes],
        }

    def tokens(self, index: int) -> list[int]:
        """The images' tokens, then the caption: their number follows from the sizes, before anything is decoded."""
        shapes, _ = self.samples[index]
        words = [WORDS.index(word) for color, shape, _ in shapes for word in ("a", color, shape, ",")]
        images = [IMAGE] * sum(GRID.tokens(*size) for _, _, size in shapes)
        return [*images, *(words[:-1] or [WORDS.index("no")]), END]

    def patches(self, index: int) -> int:
        return sum(int(np.prod(GRID.thw(*size))) for _, _, size in self.samples[index][0])


def drawn(color: str, shape: str, size: tuple[int, int], seed: int) -> np.ndarray:
    """Draw a shape somewhere on a grey image. Return a PNG file."""
    dice = np.random.default_rng(seed)
    height, width = size
    image = Image.new("RGB", (width, height), tuple(dice.integers(90, 160, 1).repeat(3).tolist()))
    radius = dice.integers(min(size) // 4, min(size) // 2)
    x, y = dice.integers(radius, width - radius + 1), dice.integers(radius, height - radius + 1)
    box = [int(x - radius), int(y - radius), int(x + radius), int(y + radius)]
    pen = ImageDraw.Draw(image)
    if shape == "circle":
        pen.ellipse(box, fill=COLORS[color])
    elif shape == "square":
        pen.rectangle(box, fill=COLORS[color])
    else:
        pen.polygon([(box[0], box[3]), (int(x), box[1]), (box[2], box[3])], fill=COLORS[color])
    file = io.BytesIO()
    image.save(file, "PNG")
    return np.frombuffer(file.getvalue(), np.uint8)


@pipeline_def
def patch_pipe(decoder: str):
    """Return the patches of each image, float [number, features]."""
    images = fn.decoders.image(fn.external_source(name="images", no_copy=True), device=decoder)
    images = fn.smart_resize(images, interp_type=types.INTERP_CUBIC, **GRID.resizing)
    return fn.patchify(images, mean=127.5, std=127.5, **GRID.patching)


class Reader(nn.Module):
    """A transformer that reads packed patches and words. A token sees the tokens before it in its own sample."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Sequential(nn.Linear(GRID.features, WIDTH), nn.GELU())
        self.merge = nn.Linear(WIDTH * GRID.merge_size**2, WIDTH)
        self.words = nn.Embedding(len(WORDS), WIDTH)
        self.positions = nn.ModuleList([nn.Embedding(LARGEST, WIDTH) for _ in range(3)])  # time, row, column
        self.blocks = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0, batch_first=True, norm_first=True)
                for _ in range(2)
            ]
        )
        self.head = nn.Linear(WIDTH, len(WORDS))

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        tokens = batch["input_ids"]
        images = self.merge(self.patches(batch["pixel_values"]).reshape(-1, WIDTH * GRID.merge_size**2))
        x = self.words(tokens).masked_scatter((tokens == IMAGE)[:, None], images)
        for table, positions in zip(self.positions, batch["position_ids"], strict=True):
            x = x + table(positions)
        number = torch.arange(len(tokens), device=tokens.device)
        sample = torch.searchsorted(batch["cu_seqlens"], number, right=True)
        hidden = (sample[:, None] != sample) | (number[:, None] < number)  # FlashAttention reads cu_seqlens instead
        x = x[None]
        for block in self.blocks:
            x = block(x, src_mask=hidden)
        return self.head(x[0])


def targets(batch: dict[str, Any]) -> torch.Tensor:
    """The next word of each token; -100 for tokens that aren't followed by one."""
    following = batch["input_ids"].roll(-1)
    last = batch["cu_seqlens"][1:].long() - 1
    following[last] = -100
    return following.masked_fill(following == IMAGE, -100)


def loader_of(server: dali_proxy.DALIServer, seed: int, count: int, options: Any, shuffle: bool) -> tuple[Any, Mixture]:
    sets = {
        "images": Captions(count, seed, True, server.proxy),
        "text": Captions(count // 8, seed, False, server.proxy),
    }
    mixture = Mixture(sets, {"images": 7, "text": 1}, samples=count, seed=options.seed)
    captions = list(sets.values())
    sampler = PackedBatchSampler(
        [len(each.tokens(index)) for each in captions for index in range(len(each))],
        options.tokens,
        costs=[each.patches(index) for each in captions for index in range(len(each))],
        order=mixture.order if shuffle else None,
        shuffle=False,
        ranks=2,
    )
    collate = PackedCollate(vision={IMAGE: "image_grid_thw"}, grid=GRID)
    workers = {"num_workers": options.num_workers, "persistent_workers": options.num_workers > 0}
    return dali_proxy.DataLoader(server, mixture, batch_sampler=sampler, collate_fn=collate, **workers), mixture


def on_device(batch: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}


@torch.no_grad()
def accuracy(network: nn.Module, loader: Any, device: torch.device) -> tuple[float, int]:
    """Return the share of colours and shapes that the network names, and their number."""
    network.eval()
    right = total = 0
    for batch in loader:
        batch = on_device(batch, device)
        wanted = targets(batch)
        named = wanted >= WORDS.index("red")
        right += int((network(batch).argmax(dim=1) == wanted)[named].sum())
        total += int(named.sum())
    return right / total, total


def images_of(batch: dict[str, Any], size: int = 64) -> torch.Tensor:
    """Return the images of a batch, put together from their patches, each in the corner of a grey square."""
    images, done = torch.zeros(0, 3, size, size), 0
    for time, rows, columns in batch["image_grid_thw"].tolist()[:16]:
        patches = batch["pixel_values"][done : done + time * rows * columns].cpu()
        done += len(patches)
        side, merge = GRID.patch_size, GRID.merge_size
        squares = patches.reshape(rows // merge, columns // merge, merge, merge, 3, side, side)
        image = squares.permute(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * side, columns * side)[:, :size, :size]
        images = torch.cat(
            [images, nn.functional.pad(image, (0, size - image.shape[2], 0, size - image.shape[1]))[None]]
        )
    return images


def main() -> None:
    parser = common.make_parser(__doc__, epochs=6, batch_size=64, image_size=None)
    parser.add_argument("--tokens", default=512, type=common.positive, help="tokens of a batch (%(default)s)")
    parser.add_argument("--samples", default=480, type=common.positive, help="captions of an epoch (%(default)s)")
    options = common.parse(parser)
    here = dali_proxy.distributed.environment()
    if here.world_size > 1:
        distributed.init_process_group("gloo")
    decoder = "cpu" if options.device.type == "cpu" else "mixed"
    with ExitStack() as stack:
        server = stack.enter_context(dali_proxy.DALIServer(patch_pipe(decoder=decoder, **common.placement(options))))
        loader, mixture = loader_of(server, 1000, options.samples, options, shuffle=True)
        network: Any = Reader().to(options.device)
        if here.world_size > 1:
            network = DistributedDataParallel(network)
        optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
        counts, meter = SourceCounts(mixture), common.Meter(options.epochs, None, bar=here.rank == 0)
        batch: dict[str, Any] = {}
        for _ in range(options.epochs):
            for batch in meter.follow(loader):
                batch = on_device(batch, options.device)
                loss = nn.functional.cross_entropy(network(batch), targets(batch))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                meter.add(loss, len(batch["source"]))
                counts.add(batch["source"].tolist(), batch["cu_seqlens"].diff().tolist())
        meter.close()
        stats, balance = server.stats(), loader.batch_sampler.balance()
        if options.picture and here.rank == 0:
            dali_proxy.show(images_of(batch), mean=[127.5] * 3, std=[127.5] * 3, path=options.picture)
            print(f"saved       {options.picture}")
        inner = network.module if here.world_size > 1 else network
        score, named = accuracy(inner, loader_of(server, 9000, 96, options, shuffle=False)[0], options.device)
    if here.rank == 0:
        meter.report(stats, accuracy=f"{score:.1%} of {named} colours and shapes")
        print(f"padding     {balance.padding:.1%}, heaviest rank {max(balance.heaviest):.3f} of the mean")
        print(f"tokens      {', '.join(f'{name} {count:,}' for name, count in counts.tokens.items())}")
    if here.world_size > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
