"""Train a network on folders of photographs, then validate it: the structure of scripts for ImageNet."""

from __future__ import annotations

import argparse
import math
import os

import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali.pipeline import pipeline_def
from nvidia.dali.plugin.pytorch import DALIClassificationIterator, LastBatchPolicy

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", metavar="DIR", nargs="*")
    parser.add_argument("-b", "--batch-size", type=int, default=5)
    parser.add_argument("-j", "--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="run the pipelines on the CPU")
    return parser.parse_args()


@pipeline_def(exec_dynamic=True)
def photographs(folder, crop, size, shard_id, num_shards, on_cpu=False, training=True):
    encoded, labels = fn.readers.file(
        file_root=folder,
        shard_id=shard_id,
        num_shards=num_shards,
        random_shuffle=training,
        pad_last_batch=True,
        name="Reader",
    )
    device, decoder = ("cpu", "cpu") if on_cpu else ("gpu", "mixed")
    hints = {"preallocate_width_hint": 0 if on_cpu else 5980, "preallocate_height_hint": 0 if on_cpu else 6430}
    if training:
        images = fn.decoders.image_random_crop(
            encoded,
            device=decoder,
            output_type=types.RGB,
            random_aspect_ratio=[0.8, 1.25],
            random_area=[0.1, 1.0],
            num_attempts=100,
            **hints,
        )
        images = fn.resize(images, device=device, resize_x=crop, resize_y=crop, interp_type=types.INTERP_TRIANGULAR)
        mirror = fn.random.coin_flip(probability=0.5)
    else:
        images = fn.decoders.image(encoded, device=decoder, output_type=types.RGB)
        images = fn.resize(images, device=device, size=size, mode="not_smaller", interp_type=types.INTERP_TRIANGULAR)
        mirror = False
    if not on_cpu:
        images, labels = images.gpu(), labels.gpu()
    images = fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout="CHW",
        crop=(crop, crop),
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
        mirror=mirror,
    )
    return images, labels


def load(args, training):
    pipe = photographs(
        batch_size=args.batch_size,
        num_threads=args.workers,
        device_id=None if args.cpu else 0,
        seed=12,
        folder=args.data[0],
        crop=24,
        size=32,
        on_cpu=args.cpu,
        shard_id=0,
        num_shards=1,
        training=training,
    )
    pipe.build()
    return DALIClassificationIterator(
        pipe, reader_name="Reader", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
    )


def main():
    args = parse()
    torch.manual_seed(0)
    classes = len(os.listdir(args.data[0]))
    model = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Flatten(), torch.nn.LazyLinear(classes)).to(DEVICE)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    train_loader, val_loader = load(args, training=True), load(args, training=False)
    for epoch in range(args.epochs):
        model.train()
        seen = 0
        for data in train_loader:
            images, target = data[0]["data"].to(DEVICE), data[0]["label"].squeeze(-1).long().to(DEVICE)
            loss = criterion(model(images), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(target)
        print(f"epoch {epoch}: {seen} photographs in {math.ceil(train_loader._size / args.batch_size)} batches")
    model.eval()
    seen = right = 0
    with torch.no_grad():
        for data in val_loader:
            images, target = data[0]["data"].to(DEVICE), data[0]["label"].squeeze(-1).long().to(DEVICE)
            right += (model(images).argmax(1) == target).sum().item()
            seen += len(target)
    print(f"validated: {seen}, better than chance: {right > seen / classes}")


if __name__ == "__main__":
    main()
