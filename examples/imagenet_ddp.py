"""Train as imagenet.py does on several GPUs and machines, with a process for each GPU (DistributedDataParallel).

    torchrun --nproc-per-node 2 examples/imagenet_ddp.py --device cpu
    torchrun --nproc-per-node 8 examples/imagenet_ddp.py --data /data/imagenet --image-size 224 --batch-size 256

Every process has a server and reads its part of each step. The numbers of workers and threads are its share of the
machine's cores. With --shared-server, the processes of a machine use one server with one pool of dataset workers. With
--checkpoint FILE, training stops (--stop-after N steps) and resumes with any number of processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import common
import dali_proxy
from dali_proxy import Pipeline, distributed
from imagenet import ImageFolder, training_pipe, validation_pipe
from networks import classifier


def loader_of(
    server: dali_proxy.DALIServer, folder: Path, options: argparse.Namespace, *, shuffle: bool
) -> dali_proxy.DataLoader:
    """Return a loader of this rank's batches. All ranks have the same number of them, and no two have a sample."""
    dataset = ImageFolder(folder, transform=server.proxy)
    batches = distributed.DistributedBatchSampler(dataset, options.batch_size, shuffle=shuffle, seed=options.seed)
    return dali_proxy.DataLoader(server, dataset, batch_sampler=batches, num_workers=options.num_workers)


@contextmanager
def serving(options: argparse.Namespace, pipe: Callable[..., Pipeline]) -> Iterator[dali_proxy.DALIServer]:
    """Yield the server of this rank, or the one that all ranks of the machine share."""
    arguments = common.pipeline_options(options)  # the same seed on all ranks: they draw different crops nevertheless
    if options.shared_server:
        del arguments["num_threads"]  # by default, those of the whole machine
        with distributed.shared_server(pipe(**arguments)) as server:
            yield server
    else:
        with dali_proxy.DALIServer(pipe(**arguments)) as server:
            yield server


def train(
    options: argparse.Namespace, network: nn.Module, server: dali_proxy.DALIServer, folder: Path
) -> common.Meter | None:
    """Train, from the checkpoint on if there is one. Return None if the training stopped before its end."""
    loader = loader_of(server, folder, options, shuffle=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate, weight_decay=1e-2)
    begin, step = 0, 0
    if options.checkpoint is not None and options.checkpoint.exists():
        saved = torch.load(options.checkpoint, map_location=options.device)
        network.load_state_dict(saved["network"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])  # the state of rank 0: each rank gets its own part of what is left
        begin, step = saved["epoch"], saved["step"]
    network.train()
    meter = common.Meter(options.epochs - begin, len(loader), bar=dist.get_rank() == 0)
    for epoch in range(begin, options.epochs):
        for images, labels in meter.follow(loader):
            logits = network(images.to(options.device, non_blocking=True))
            loss = nn.functional.cross_entropy(logits, labels.to(options.device), label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.add(loss, len(images) * dist.get_world_size())
            step += 1
            if step == options.stop_after:
                if dist.get_rank() == 0 and options.checkpoint is not None:
                    state = {"network": network.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save(
                        {**state, "loader": loader.state_dict(), "epoch": epoch, "step": step}, options.checkpoint
                    )
                    print(f"stopped     after step {step}")
                meter.bar.close()
                return None
    meter.close()
    return meter


@torch.no_grad()
def accuracy(
    options: argparse.Namespace, network: nn.Module, server: dali_proxy.DALIServer, folder: Path
) -> tuple[float, int]:
    """Return the fraction of images that are classified correctly, and their number. Each rank counts its images."""
    network.eval()
    counts = torch.zeros(2, device=options.device)
    for images, labels in loader_of(server, folder, options, shuffle=False):
        guesses = network(images.to(options.device)).argmax(dim=1)
        counts += torch.tensor([int((guesses.cpu() == labels).sum()), len(labels)], device=options.device)
    dist.all_reduce(counts)
    right, total = counts.tolist()
    return right / total, int(total)


@contextmanager
def folders_of_rank_0(data: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield the folders for training and validation. Rank 0 makes the images of the example."""
    paths: list[Path | None] = [None, None]
    if dist.get_rank() == 0:
        with common.class_folders(data) as folders:
            dist.broadcast_object_list([*folders])
            yield folders
            dist.barrier()  # the others have read the images
    else:
        dist.broadcast_object_list(paths)
        yield Path(str(paths[0])), Path(str(paths[1]))
        dist.barrier()


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8)
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="resume from this file if it exists")
    parser.add_argument("--stop-after", type=common.positive, metavar="STEPS", help="save it and stop after N steps")
    parser.add_argument("--shared-server", action="store_true", help="one server and pool of workers per machine")
    here = distributed.environment()
    # The budget of this rank, instead of the fixed numbers of the other examples.
    parser.set_defaults(num_workers=here.num_workers, num_threads=here.num_threads)
    options = parser.parse_args()
    if options.stop_after is not None and options.checkpoint is None:
        parser.error("--stop-after needs --checkpoint")
    here.bind()  # the server and the workers run near the GPU, too
    if options.device.type == "cuda":
        options.device = torch.device("cuda", here.device_id or 0)
        torch.cuda.set_device(options.device)
    else:
        torch.set_num_threads(max(1, here.core_budget // 2))
    dist.init_process_group("gloo" if options.device.type == "cpu" else "nccl")
    torch.manual_seed(options.seed)  # the same initial weights on all ranks
    with folders_of_rank_0(options.data) as (train_folder, val_folder):
        classes = len([path for path in train_folder.iterdir() if path.is_dir()])
        plain = classifier(classes).to(options.device)
        network = DistributedDataParallel(plain, device_ids=[here.device_id] if options.device.type == "cuda" else None)
        with serving(options, training_pipe) as server:
            meter = train(options, network, server, train_folder)
            stats = server.stats()
            if options.picture and here.rank == 0:
                common.save_picture(
                    options.picture, next(iter(loader_of(server, train_folder, options, shuffle=True)))[0]
                )
        if meter is not None:
            with serving(options, validation_pipe) as server:
                score, total = accuracy(options, plain, server, val_folder)
            if here.rank == 0:
                workers = f"num_workers={options.num_workers} each" if not options.shared_server else "a shared server"
                print(f"ranks       {here.world_size} with {workers}")
                meter.report(stats, accuracy=f"{score:.1%} of {total} (guessing: {1 / classes:.1%})")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
