"""The time of training steps on one or several ranks: batches by count, padded or not, and packed by tokens.

The collate functions of frameworks pad texts to the longest one of the batch, and join the patches of all images: "by
count, padded". "By count" is what remains if a user packs such batches without padding. Then packed batches are faster
only because no rank waits for the heaviest one: the gain is at most "heaviest rank by count", which is small for few
ranks and large batches.

Start it with ``torchrun --nproc-per-node 2 -m benchmarks.packing step --device cuda``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from benchmarks.packing.model import Model
from benchmarks.packing.plan import heaviest_by_count
from benchmarks.packing.samples import GRID, Drawn, draw
from dali_proxy import PackedBatchSampler
from dali_proxy.distributed import DistributedBatchSampler

__all__ = ["measure_steps"]

_WAYS = ("by count, padded", "by count", "packed")
_ROUNDS = 3


def measure_steps(device: str, steps: int, tokens: int, width: int, depth: int) -> dict[str, Any]:
    """Return tokens per second of all ranks for each way, and the gain of packed batches.

    Args:
        device: "cpu" or "cuda".
        steps: steps of a round; rounds of the ways alternate.
        tokens: tokens of a packed batch, and mean tokens of a batch by count.
        width: width of the model.
        depth: blocks of each of its parts.
    """
    rank, ranks = (int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("WORLD_SIZE", 1)))
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if ranks > 1:
        distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    torch.manual_seed(0)
    model: Any = Model(width, depth).to(device)
    if ranks > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=device == "cuda")
    drawn = draw(200_000)
    streams = {way: _batches(way, drawn, tokens, rank, ranks) for way in _WAYS}
    for way in _WAYS:
        _run(model, optimizer, streams[way], way, drawn, min(3, steps), device)
    totals = {way: [0.0, 0.0] for way in _WAYS}
    for _ in range(_ROUNDS):
        for way in _WAYS:
            seconds, done = _run(model, optimizer, streams[way], way, drawn, steps, device)
            totals[way][0] += seconds
            totals[way][1] += done
    if ranks > 1:
        distributed.destroy_process_group()
    rates = {way: round(done / seconds) for way, (seconds, done) in totals.items()}
    gains = {f"packed / {way}": round(rates["packed"] / rates[way], 3) for way in _WAYS[:2]}
    heaviest = dict(zip(("tokens", "patches"), heaviest_by_count(drawn, tokens, ranks, 0), strict=True))
    limits = {"heaviest rank by count": {kind: round(value, 3) for kind, value in heaviest.items()}}
    return {"device": device, "ranks": ranks, "tokens": tokens, "tokens_per_second": rates, **gains, **limits}


def _batches(way: str, drawn: Drawn, tokens: int, rank: int, ranks: int) -> Iterator[list[int]]:
    if way == "packed":
        return iter(PackedBatchSampler(drawn.lengths, tokens, costs=drawn.patches, rank=rank, world_size=ranks))
    size = max(1, int(tokens / drawn.lengths.mean()))
    return iter(DistributedBatchSampler(len(drawn.lengths), size, rank=rank, world_size=ranks))


def _run(
    model: Any, optimizer: Any, stream: Iterator[list[int]], way: str, drawn: Drawn, steps: int, device: str
) -> tuple[float, float]:
    """Train for some steps. Return seconds, and tokens of all ranks that aren't padding."""
    batches = [(indices, _batch(drawn, indices, "padded" in way, device)) for indices in islice(stream, steps)]
    done = torch.tensor(float(sum([drawn.lengths[indices].sum() for indices, _ in batches])), device=device)
    if distributed.is_initialized():
        distributed.all_reduce(done)
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _, batch in batches:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = model(batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()
    if distributed.is_initialized():
        distributed.barrier()
    return time.perf_counter() - begin, float(done)


def _batch(drawn: Drawn, indices: list[int], padded: bool, device: str) -> dict[str, Any]:
    lengths, patches = drawn.lengths[indices], drawn.patches[indices]
    images = patches[patches > 0] if patches.any() else np.array([4])
    offsets, image_offsets = (np.concatenate([[0], np.cumsum(each)]).astype(np.int32) for each in (lengths, images))
    rows = [np.where(np.arange(length) < count // 4, 2, 5) for length, count in zip(lengths, patches, strict=True)]
    if not patches.any():
        rows[0][0] = 2  # one image of four patches, so that the vision tower has a gradient
    if padded:
        ids = np.zeros((len(rows), lengths.max()), np.int64)
        for line, row in zip(ids, rows, strict=True):
            line[: len(row)] = row
    else:
        ids = np.concatenate(rows).astype(np.int64)
    batch: dict[str, Any] = {
        "pixel_values": torch.randn(int(images.sum()), GRID.features, device=device),
        "images": torch.from_numpy(image_offsets).to(device),
        "longest_image": int(images.max()),
        "input_ids": torch.from_numpy(ids).to(device),
        "is_image": torch.from_numpy(ids == 2).to(device),
        "cu_seqlens": None if padded else torch.from_numpy(offsets).to(device),
        "longest": int(lengths.max()),
    }
    return batch
