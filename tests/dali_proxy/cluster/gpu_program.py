"""A program for the test of a Ray cluster whose node has a GPU: prints a JSON object with what it found."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from PIL import Image

from dali_proxy import DALIServer, DataLoader, RayCluster
from pipeline import fn, pipeline_def

SAMPLES = 64
MARKER = Path(sys.argv[1]) / "exited"


@pipeline_def(batch_size=8, num_threads=1, device_id=0, seed=3)
def augment() -> Any:
    images = fn.decoders.image_random_crop(fn.external_source(name="image"), device="mixed")
    images = fn.resize(images, size=(64, 64))
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[120.0], std=[60.0])


class Images(torch.utils.data.Dataset[Any]):
    """JPEGs; the process that reads one of them exits, once."""

    def __init__(self, proxy: Any, exits: bool = False) -> None:
        self.proxy, self.exits = proxy, exits

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        if self.exits and index == 29 and not MARKER.exists():
            MARKER.touch()
            os._exit(7)
        rows = np.arange(160)[:, None, None] * (index % 5 + 1) + np.arange(200)[None, :, None]
        file = io.BytesIO()
        Image.fromarray(np.broadcast_to(rows % 256, (160, 200, 3)).astype(np.uint8)).save(file, "jpeg")
        return self.proxy(file.getvalue()), index


def batches(server: DALIServer, exits: bool = False) -> list[tuple[torch.Tensor, list[int]]]:
    loader = DataLoader(server, Images(server.proxy, exits), batch_size=8, num_workers=2)
    return [(images, indices.tolist()) for images, indices in loader]


def equal(found: list[Any], wanted: list[Any]) -> bool:
    return len(found) == len(wanted) and all(
        mine[1] == its[1] and torch.equal(mine[0], its[0]) for mine, its in zip(found, wanted, strict=True)
    )


def main() -> None:
    with DALIServer(augment()) as server:
        wanted = batches(server)
    ray.init(num_cpus=4, num_gpus=1, include_dashboard=False, object_store_memory=200 << 20)
    with DALIServer(augment(), cluster=RayCluster(servers=2, num_cpus=1, num_gpus=0.4, start_timeout=120)) as server:
        found = batches(server)
        again = batches(server, exits=True)
        outcome = {
            "devices": sorted({str(images.device) for images, _ in found + again}),
            "as_here": equal(found, wanted),
            "after_a_loss": equal(again, wanted),
            "lost": server.pool.lost,
            "on_gpu": [times.device for name, times in server.stats().operators.items() if "normalize" in name],
        }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
