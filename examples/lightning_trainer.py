"""Train with Lightning: a LightningDataModule owns the servers, starts them in setup and stops them in teardown.

    python examples/lightning_trainer.py
    python examples/lightning_trainer.py --data /data/imagenet --image-size 224 --batch-size 256 --epochs 90

--data names a folder with train/ and val/, each with one folder of JPEGs per class. The dataset and the
pipelines come from imagenet.py.

Needs the package lightning.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch.nn import functional

import common
import dali_proxy
from imagenet import ImageFolder, training_pipe, validation_pipe
from networks import classifier


class Images(lightning.LightningDataModule):
    """Both datasets, each with the server of its pipeline."""

    def __init__(self, options: argparse.Namespace, folders: tuple[Path, Path]) -> None:
        super().__init__()
        self.options = options
        self.folders = folders  # of the training and of the validation
        self.stack = ExitStack()

    def setup(self, stage: str) -> None:
        pipe_options = common.pipeline_options(self.options)
        self.servers, self.datasets = [], []
        for folder, definition in zip(self.folders, (training_pipe, validation_pipe), strict=True):
            server = self.stack.enter_context(dali_proxy.DALIServer(definition(**pipe_options)))
            self.servers.append(server)
            self.datasets.append(ImageFolder(folder, transform=server.proxy))

    def train_dataloader(self) -> dali_proxy.DataLoader:
        loader_options = common.loader_options(self.options)
        return dali_proxy.DataLoader(self.servers[0], self.datasets[0], shuffle=True, drop_last=True, **loader_options)

    def val_dataloader(self) -> dali_proxy.DataLoader:
        return dali_proxy.DataLoader(self.servers[1], self.datasets[1], **common.loader_options(self.options))

    def teardown(self, stage: str) -> None:
        self.stack.close()

    def on_exception(self, exception: BaseException) -> None:
        self.stack.close()


class Classifier(lightning.LightningModule):
    """An ordinary LightningModule: it doesn't know where the batches come from."""

    def __init__(self, classes: int, learning_rate: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.network = classifier(classes)
        self.right: list[torch.Tensor] = []

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        images, labels = batch
        return functional.cross_entropy(self.network(images), labels)

    def validation_step(self, batch: Any, _: int) -> None:
        images, labels = batch
        self.right.append(self.network(images).argmax(dim=1) == labels)

    def on_validation_epoch_end(self) -> None:
        self.log("accuracy", torch.cat(self.right).float().mean(), prog_bar=True)
        self.right.clear()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.hparams["learning_rate"])


class Measure(Callback):
    """Records losses, speed and, before the training's server stops, its statistics."""

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.meter = common.Meter(trainer.max_epochs or 0, steps=None, bar=False)  # Lightning has its own bar

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.meter.start()
        self.meter.add(outputs["loss"], len(batch[0]))

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.meter.close()
        data: Images = trainer.datamodule  # type: ignore[attr-defined]
        self.stats = data.servers[0].stats()
        if path := data.options.picture:
            images, _ = next(iter(data.train_dataloader()))
            common.save_picture(path, images)


def main() -> None:
    options = common.parse(common.make_parser(__doc__, epochs=8))
    measure = Measure()
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        accelerator=options.device.type,
        devices=1 if options.device.type == "cpu" else [options.device.index],
        callbacks=[measure],
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    with common.class_folders(options.data) as folders:
        classes = sum(path.is_dir() for path in folders[0].iterdir())
        trainer.fit(Classifier(classes, options.learning_rate), datamodule=Images(options, folders))
    score = float(trainer.callback_metrics["accuracy"])
    measure.meter.report(measure.stats, accuracy=f"{score:.1%} (guessing: {1 / classes:.1%})")


if __name__ == "__main__":
    main()
