"""Train with ignite's DeterministicEngine, which replaces the loader's batch sampler by one that it can resume.

    python examples/ignite_engine.py
    python examples/ignite_engine.py --data /data/imagenet --image-size 224 --batch-size 256 --epochs 90

--data names a folder with train/ and val/, each with one folder of JPEGs per class. The dataset and the
pipelines come from imagenet.py.

Needs the package pytorch-ignite.
"""

from __future__ import annotations

from typing import Any

import torch
from ignite.engine import DeterministicEngine, Engine
from ignite.metrics import Accuracy
from torch.nn import functional

import common
import dali_proxy
from imagenet import ImageFolder, training_pipe, validation_pipe
from networks import classifier


def main() -> None:
    options = common.parse(common.make_parser(__doc__, epochs=8))
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    with (
        common.class_folders(options.data) as (train_folder, val_folder),
        dali_proxy.DALIServer(training_pipe(**pipe_options)) as server,
        dali_proxy.DALIServer(validation_pipe(**pipe_options)) as val_server,
    ):
        dataset = ImageFolder(train_folder, transform=server.proxy)
        loader = dali_proxy.DataLoader(server, dataset, shuffle=True, drop_last=True, **loader_options)
        val_set = ImageFolder(val_folder, transform=val_server.proxy)
        val_loader = dali_proxy.DataLoader(val_server, val_set, **loader_options)
        network = classifier(len(dataset.classes)).to(options.device)
        optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
        meter = common.Meter(options.epochs, len(loader))

        def train(engine: Engine, batch: Any) -> None:
            images, labels = (part.to(options.device) for part in batch)
            meter.start()
            network.train()
            loss = functional.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.add(loss, len(labels))
            meter.bar.update()

        @torch.no_grad()
        def evaluate(engine: Engine, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
            images, labels = (part.to(options.device) for part in batch)
            network.eval()
            return network(images), labels

        trainer, evaluator = DeterministicEngine(train), Engine(evaluate)
        Accuracy().attach(evaluator, "accuracy")
        trainer.run(loader, max_epochs=options.epochs)
        meter.close()
        stats = server.stats()
        if options.picture:
            common.save_picture(options.picture, next(iter(loader))[0])
        score = evaluator.run(val_loader).metrics["accuracy"]
    meter.report(stats, accuracy=f"{score:.1%} of {len(val_set)} (guessing: {1 / len(dataset.classes):.1%})")


if __name__ == "__main__":
    main()
