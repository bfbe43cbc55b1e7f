"""Train with Accelerate: `accelerator.prepare` gets our loader, and a run that was stopped inside an epoch resumes.

    python examples/accelerate_loop.py
    accelerate launch --num-processes 2 examples/accelerate_loop.py --data /data/imagenet --image-size 224
    python examples/accelerate_loop.py --checkpoint run --stop-after 8
    python examples/accelerate_loop.py --checkpoint run

--data names a folder with train/ and val/, each with one folder of JPEGs per class. The dataset and the
pipelines come from imagenet.py.

Needs the package accelerate.
"""

from __future__ import annotations

from pathlib import Path

import torch
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from torch.nn import functional

import common
import dali_proxy
from imagenet import ImageFolder, training_pipe, validation_pipe
from networks import classifier


def accuracy(accelerator: Accelerator, network: torch.nn.Module, loader: torch.utils.data.DataLoader) -> float:
    """Return the fraction of images that are classified correctly, by all processes together."""
    network.eval()
    right = []
    with torch.no_grad():
        for images, labels in loader:
            right.append(accelerator.gather_for_metrics(network(images).argmax(dim=1) == labels))
    return float(torch.cat(right).float().mean())


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8)
    parser.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="resume from this folder if it exists")
    parser.add_argument("--stop-after", type=common.positive, metavar="STEPS", help="save --checkpoint, and end there")
    options = common.parse(parser)
    # With this sampler, a resumed epoch has the order of the one that was stopped.
    config = DataLoaderConfiguration(use_seedable_sampler=True)
    accelerator = Accelerator(cpu=options.device.type == "cpu", dataloader_config=config)
    pipe_options, loader_options = common.pipeline_options(options), common.loader_options(options)
    with (
        common.class_folders(options.data) as (train_folder, val_folder),
        dali_proxy.DALIServer(training_pipe(**pipe_options)) as server,
        dali_proxy.DALIServer(validation_pipe(**pipe_options)) as val_server,
    ):
        dataset = ImageFolder(train_folder, transform=server.proxy)
        val_set = ImageFolder(val_folder, transform=val_server.proxy)
        network = classifier(len(dataset.classes))
        network, optimizer, loader, val_loader = accelerator.prepare(
            network,
            torch.optim.AdamW(network.parameters(), lr=options.learning_rate),
            dali_proxy.DataLoader(server, dataset, shuffle=True, drop_last=True, **loader_options),
            dali_proxy.DataLoader(val_server, val_set, **loader_options),
        )
        steps, step = len(loader), 0
        if options.checkpoint and options.checkpoint.exists():
            accelerator.load_state(str(options.checkpoint))
            step = int((options.checkpoint / "step").read_text(encoding="utf-8"))
            accelerator.print(f"resumed     after step {step}")
        meter = common.Meter(options.epochs, steps)
        for epoch in range(step // steps, options.epochs):
            network.train()
            loader.set_epoch(epoch)
            batches = skip_first_batches(loader, step % steps) if step % steps else loader
            for images, labels in meter.follow(batches):
                loss = functional.cross_entropy(network(images), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                meter.add(loss, len(labels))
                step += 1
                if step == options.stop_after:
                    meter.close()
                    accelerator.save_state(str(options.checkpoint))
                    (options.checkpoint / "step").write_text(str(step), encoding="utf-8")
                    accelerator.print(f"stopped     after step {step}")
                    return
        meter.close()
        if options.picture:
            common.save_picture(options.picture, next(iter(loader))[0])
        score = accuracy(accelerator, network, val_loader)
    if accelerator.is_main_process:
        meter.report(None, accuracy=f"{score:.1%} of {len(val_set)} (guessing: {1 / len(dataset.classes):.1%})")


if __name__ == "__main__":
    main()
