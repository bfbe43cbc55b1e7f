"""Train with Ray Train: every worker has its own server, and `prepare_data_loader` divides the samples among them.

    python examples/ray_train_workers.py
    python examples/ray_train_workers.py --workers 8 --data /data/imagenet --image-size 224 --batch-size 256

--data names a folder with train/ and val/, each with one folder of JPEGs per class, at the same path on every machine.
The dataset and the pipelines come from imagenet.py.

Needs Ray, with its part for training: pip install 'ray[train]'
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ray.train.torch
import torch
from ray.train import RunConfig, ScalingConfig
from torch import distributed
from torch.nn import functional

import common
import dali_proxy
from imagenet import ImageFolder, training_pipe, validation_pipe
from networks import classifier


def train(config: dict[str, Any]) -> None:
    """Run the training loop of one worker."""
    options, (train_folder, val_folder) = config["options"], config["folders"]
    options.device = ray.train.torch.get_device()  # the one that Ray gives to this worker
    torch.manual_seed(options.seed)
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    with (
        dali_proxy.DALIServer(training_pipe(**pipe_options)) as server,
        dali_proxy.DALIServer(validation_pipe(**pipe_options)) as val_server,
    ):
        dataset = ImageFolder(train_folder, transform=server.proxy)
        loader = dali_proxy.DataLoader(server, dataset, shuffle=True, drop_last=True, **loader_options)
        loader = ray.train.torch.prepare_data_loader(loader)
        val_set = ImageFolder(val_folder, transform=val_server.proxy)
        val_loader = dali_proxy.DataLoader(val_server, val_set, **loader_options)
        val_loader = ray.train.torch.prepare_data_loader(val_loader)
        network = ray.train.torch.prepare_model(classifier(config["number_of_classes"]))
        optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
        meter = common.Meter(options.epochs, len(loader), bar=False)
        network.train()
        for epoch in range(options.epochs):
            if hasattr(loader.sampler, "set_epoch"):  # with several workers
                loader.sampler.set_epoch(epoch)
            for images, labels in meter.follow(loader):
                loss = functional.cross_entropy(network(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                meter.add(loss, len(labels))
        meter.close()
        if options.picture and ray.train.get_context().get_world_rank() == 0:
            common.save_picture(options.picture, next(iter(loader))[0])
        right = evaluate(network, val_loader)
    if ray.train.get_context().get_world_rank() == 0:
        losses = [float(loss) for loss in meter.losses]
        measured = {"losses": losses, "samples": meter.samples, "seconds": meter.seconds}
        (Path(config["results"]) / "measured.json").write_text(json.dumps({**measured, "right": right}))


@torch.no_grad()
def evaluate(network: torch.nn.Module, loader: Any) -> float:
    """Return the fraction of images that are classified correctly, by all workers together."""
    network.eval()
    counts = torch.zeros(2, device=ray.train.torch.get_device())
    for images, labels in loader:
        counts += torch.tensor([(network(images).argmax(dim=1) == labels).sum(), len(labels)], device=counts.device)
    if distributed.is_initialized():
        distributed.all_reduce(counts)
    return float(counts[0] / counts[1])


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8)
    parser.add_argument("--workers", default=2, type=common.positive, help="of Ray Train (%(default)s)")
    parser.set_defaults(num_workers=1)  # of each worker of Ray Train
    options = common.parse(parser)
    use_gpu = options.device.type == "cuda"
    here = os.path.dirname(os.path.abspath(__file__))
    paths = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    with common.class_folders(options.data) as folders, common.temporary_folder() as results:
        ray.init(runtime_env={"env_vars": {"PYTHONPATH": paths}})  # the workers import this folder's modules
        trainer = ray.train.torch.TorchTrainer(
            train,
            train_loop_config={
                "options": options,
                "folders": folders,
                "number_of_classes": sum(path.is_dir() for path in folders[0].iterdir()),
                "results": str(results),
            },
            scaling_config=ScalingConfig(
                num_workers=options.workers, use_gpu=use_gpu, resources_per_worker={"CPU": 0.5, "GPU": int(use_gpu)}
            ),
            run_config=RunConfig(storage_path=str(results)),
        )
        trainer.fit()
        measured = json.loads((results / "measured.json").read_text())
        ray.shutdown()
    meter = common.Meter(options.epochs, None, bar=False)
    meter.losses = [torch.tensor(loss) for loss in measured["losses"]]
    meter.samples, meter.seconds = measured["samples"], measured["seconds"]
    meter.report(None, workers=str(options.workers), accuracy=f"{measured['right']:.1%}")


if __name__ == "__main__":
    main()
