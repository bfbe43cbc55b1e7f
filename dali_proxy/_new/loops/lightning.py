"""The loop of Lightning."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import dali_proxy
from dali_proxy._new.kinds.classification import (
    SCORE,
    Samples,
    augment,
    compute_loss,
    compute_scores,
    make_network,
    prepare,
    write_data,
)


class Data(lightning.LightningDataModule):
    """The datasets, each with the server of its pipeline."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.options = options
        self.servers = ExitStack()

    def setup(self, stage: str) -> None:
        """Start the servers."""
        options = self.options
        serving = {"batch_size": options.batch_size, "num_threads": options.num_threads, "seed": options.seed}
        self.train_server = self.servers.enter_context(dali_proxy.serve(augment, **serving))
        self.val_server = self.servers.enter_context(dali_proxy.serve(prepare, **serving))
        self.loading: dict[str, Any] = {"batch_size": options.batch_size, "num_workers": options.num_workers}
        self.loading["persistent_workers"] = options.num_workers > 0

    def train_dataloader(self) -> dali_proxy.DataLoader:
        """Return the loader of the training."""
        dataset = Samples(self.options.data / "train", self.train_server.proxy)
        order = torch.Generator().manual_seed(self.options.seed)
        return dali_proxy.DataLoader(self.train_server, dataset, shuffle=True, generator=order, **self.loading)

    def val_dataloader(self) -> dali_proxy.DataLoader:
        """Return the loader of the validation."""
        dataset = Samples(self.options.data / "val", self.val_server.proxy)
        return dali_proxy.DataLoader(self.val_server, dataset, **self.loading)

    def teardown(self, stage: str) -> None:
        """Stop the servers."""
        self.servers.close()


class Model(lightning.LightningModule):
    """The network and its training."""

    def __init__(self, network: torch.nn.Module, learning_rate: float) -> None:
        super().__init__()
        self.network, self.learning_rate = network, learning_rate
        self.scores: list[torch.Tensor] = []

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        """Return the loss of a batch."""
        loss = compute_loss(self.network, batch)
        self.log("loss", loss, on_epoch=True, on_step=False)
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        """Collect the scores of a batch."""
        self.scores.append(compute_scores(self.network, batch))

    def on_validation_epoch_end(self) -> None:
        """Log the mean of all scores."""
        self.log(SCORE, torch.cat(self.scores).float().mean(), prog_bar=True)
        self.scores.clear()

    def on_train_epoch_end(self) -> None:
        """Print the scores of the epoch."""
        values = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch + 1}: loss {values['loss']:.3f}, {SCORE} {values[SCORE]:.1%}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate)


def train(options: argparse.Namespace) -> None:
    """Train and validate, from the checkpoint if there is one."""
    lightning.seed_everything(options.seed)
    folder, name = options.checkpoint.parent, options.checkpoint.stem
    saving = ModelCheckpoint(folder, filename=name, enable_version_counter=False, save_on_train_epoch_end=True)
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        callbacks=[saving],
        devices=1,
        enable_model_summary=False,
        logger=False,
        num_sanity_val_steps=0,
    )
    model = Model(make_network(Samples(options.data / "train", bytes)), options.learning_rate)
    resumed = options.checkpoint if options.checkpoint.exists() else None
    if resumed:
        print(f"resumed from {resumed}")
    trainer.fit(model, datamodule=Data(options), ckpt_path=resumed)


def main() -> None:
    """Read the command line, and train."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=here / "data", help="your data (default: data that is drawn)")
    parser.add_argument("--checkpoint", type=Path, default=here / "checkpoint.ckpt", help="to save, and to resume from")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--num-workers", type=int, default=2, help="processes that read the dataset")
    parser.add_argument("--num-threads", type=int, default=os.cpu_count(), help="threads of each pipeline")
    parser.add_argument("--seed", type=int, default=0, help="of the network, the order and the augmentation")
    options = parser.parse_args()
    if not options.data.exists():
        if options.data != here / "data":
            parser.error(f"{options.data} doesn't exist")
        print(f"generating data in {options.data}")
        write_data(options.data)
    train(options)


if __name__ == "__main__":  # for workers that don't fork
    main()
