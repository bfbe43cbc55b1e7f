"""Train with the Trainer of transformers: two methods return our loaders, prepared as the Trainer does with its own.

    python examples/hf_trainer.py
    python examples/hf_trainer.py --data /data/imagenet --image-size 224 --batch-size 256 --epochs 90
    python examples/hf_trainer.py --checkpoint run --stop-after 8
    python examples/hf_trainer.py --checkpoint run

--data names a folder with train/ and val/, each with one folder of JPEGs per class. The dataset and the
pipelines come from imagenet.py.

Needs the packages accelerate and transformers.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import torch
from torch import nn
from torch.nn import functional
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import common
import dali_proxy
from imagenet import ImageFolder, training_pipe, validation_pipe
from networks import classifier


class Classifier(nn.Module):
    """A network with the interface of a transformers model."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.network = classifier(classes)

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.network(pixel_values)
        return {"loss": functional.cross_entropy(logits, labels), "logits": logits}


def with_names(samples: list[Any]) -> dict[str, Any]:
    """Collate samples to the arguments of the model."""
    images, labels = torch.utils.data.default_collate(samples)
    return {"pixel_values": images, "labels": labels}


class ImagesTrainer(Trainer):
    """A Trainer whose batches come from servers."""

    def __init__(
        self,
        *args: Any,
        servers: list[dali_proxy.DALIServer],
        loader_options: Any,
        meter: common.Meter,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.servers = servers
        self.meter = meter
        self.loader_options = {**loader_options, "collate_fn": with_names}

    def get_train_dataloader(self) -> Any:
        loader = dali_proxy.DataLoader(
            self.servers[0], self.train_dataset, shuffle=True, drop_last=True, **self.loader_options
        )
        return self.accelerator.prepare(loader)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        loader = dali_proxy.DataLoader(self.servers[1], eval_dataset or self.eval_dataset, **self.loader_options)
        return self.accelerator.prepare(loader)

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().training_step(model, inputs, *args, **kwargs)
        self.meter.start()
        self.meter.add(loss, len(inputs["labels"]))
        return loss


class StopAfter(TrainerCallback):
    """Saves a checkpoint and ends the training after a number of steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.steps:
            control.should_save = control.should_training_stop = True


def score(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(axis=1) == prediction.label_ids).mean())}


def train(options: argparse.Namespace, folders: tuple[Path, Path], checkpoints: Path) -> None:
    pipe_options = common.pipeline_options(options)
    with (
        dali_proxy.DALIServer(training_pipe(**pipe_options)) as server,
        dali_proxy.DALIServer(validation_pipe(**pipe_options)) as val_server,
    ):
        datasets = [ImageFolder(folder, each.proxy) for folder, each in zip(folders, (server, val_server), strict=True)]
        classes = len(datasets[0].classes)
        trainer = ImagesTrainer(
            Classifier(classes),
            TrainingArguments(
                output_dir=str(checkpoints),
                num_train_epochs=options.epochs,
                learning_rate=options.learning_rate,
                lr_scheduler_type="constant",
                use_cpu=options.device.type == "cpu",
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                seed=options.seed,
            ),
            train_dataset=datasets[0],
            eval_dataset=datasets[1],
            compute_metrics=score,
            callbacks=[StopAfter(options.stop_after)] if options.stop_after else [],
            servers=[server, val_server],
            loader_options=common.loader_options(options),
            meter=common.Meter(options.epochs, steps=None, bar=False),
        )
        trainer.train(resume_from_checkpoint=get_last_checkpoint(str(checkpoints)))
        trainer.meter.close()
        accuracy = trainer.evaluate()["eval_accuracy"]
        if options.picture:
            common.save_picture(options.picture, next(iter(trainer.get_train_dataloader()))["pixel_values"])
    trainer.meter.report(None, steps=str(trainer.state.global_step), accuracy=f"{accuracy:.1%}")


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8)
    parser.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="resume from here; save --stop-after's state")
    parser.add_argument("--stop-after", type=common.positive, metavar="STEPS", help="save a checkpoint, and end there")
    options = common.parse(parser)
    with common.class_folders(options.data) as folders, common.temporary_folder() as temporary:
        checkpoints = options.checkpoint or temporary
        checkpoints.mkdir(exist_ok=True)
        train(options, folders, checkpoints)


if __name__ == "__main__":
    main()
