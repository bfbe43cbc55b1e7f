"""Measure the cost of `deterministic=True`: the same epochs with and without it, in turn.

python -m benchmarks.determinism --rounds 10
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from benchmarks.workload import prepare_images
from dali_proxy import DALIServer, DataLoader
from dali_proxy._new.kinds.classification import augment


class Encoded(Dataset[Any]):
    def __init__(self, folder: Path, length: int, transform: Any) -> None:
        self.encoded = [np.fromfile(path, np.uint8) for path in sorted(folder.iterdir())]
        self.length = length
        self.transform = transform

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.encoded[index % len(self.encoded)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", default=6, type=int, help="(%(default)s)")
    parser.add_argument("--samples", default=2048, type=int, help="of an epoch (%(default)s)")
    parser.add_argument("--batch-size", default=64, type=int, help="(%(default)s)")
    parser.add_argument("--workers", default=2, type=int, help="(%(default)s)")
    parser.add_argument("--threads", default=2, type=int, help="(%(default)s)")
    options = parser.parse_args()
    folder = prepare_images(64)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    loaders = {}
    servers = []
    for deterministic in seconds:
        serving = {"batch_size": options.batch_size, "num_threads": options.threads, "device_id": None, "seed": 1}
        server = DALIServer(augment, deterministic=deterministic, **serving)
        servers.append(server)
        server.start()
        loaders[deterministic] = DataLoader(
            server,
            Encoded(folder, options.samples, server.proxy),
            options.batch_size,
            num_workers=options.workers,
            persistent_workers=True,
        )
    for number in range(options.rounds + 1):
        for deterministic in (True, False) if number % 2 else (False, True):
            begin = time.perf_counter()
            for _ in loaders[deterministic]:
                pass
            if number:  # the first epoch starts processes
                seconds[deterministic].append(time.perf_counter() - begin)
    loaders.clear()
    for server in servers:
        server.stop()
    for deterministic, each in seconds.items():
        rates = [options.samples / one for one in each]
        print(
            f"deterministic={deterministic!s:5}  {statistics.median(rates):7,.0f} samples/s "
            f"({min(rates):,.0f} to {max(rates):,.0f})"
        )
    ratios = [without / with_it for with_it, without in zip(seconds[True], seconds[False], strict=True)]
    print(f"True / False: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
