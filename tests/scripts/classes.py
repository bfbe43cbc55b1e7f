"""Train a classifier on a folder for each class, and count its guesses, with classification iterators."""

from __future__ import annotations

import argparse
import math

import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIClassificationIterator, LastBatchPolicy

BATCH_SIZE = 5

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--cpu", action="store_true")
options = parser.parse_args()


@pipeline_def(batch_size=BATCH_SIZE, num_threads=2, device_id=None if options.cpu else 0, seed=3)
def labelled(training):
    encoded, labels = fn.readers.file(
        name="Reader", file_root=options.folder, random_shuffle=training, pad_last_batch=True
    )
    images = fn.decoders.image(encoded, device="cpu" if options.cpu else "mixed", output_type=types.RGB)
    images = fn.resize(images, size=(32, 32))
    images = fn.crop_mirror_normalize(images, output_layout="CHW", dtype=types.FLOAT, mean=[127.5], std=[127.5])
    return images, labels if options.cpu else labels.gpu()


def iterate(training, **how):
    pipe = labelled(training)
    pipe.build()
    return DALIClassificationIterator(pipe, reader_name="Reader", **how)


def unpack(batch):
    return batch[0]["data"], batch[0]["label"].squeeze(-1).long()


torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.LazyLinear(3))
network.to("cuda:0" if torch.cuda.is_available() and not options.cpu else "cpu")
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
training_set = iterate(True, last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True)
mean_losses = []
for _ in range(3):
    total, sizes = 0.0, []
    for images, labels in map(unpack, training_set):
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += len(labels) * loss.item()
        sizes.append(len(images))
    mean_losses.append(total / sum(sizes))
    print("batches of", sizes)
print("learns:", mean_losses[-1] < mean_losses[0])
print("batches of an epoch:", math.ceil(training_set._size / BATCH_SIZE))

for how in ({"last_batch_policy": LastBatchPolicy.PARTIAL, "auto_reset": True}, {"fill_last_batch": False}):
    guessed = torch.zeros(3, 3, dtype=torch.long)  # by class and guess
    with torch.no_grad():
        for images, labels in map(unpack, iterate(False, **how)):
            for label, guess in zip(labels.tolist(), network(images).argmax(1).tolist(), strict=True):
                guessed[label, guess] += 1
    print("validated of each class:", guessed.sum(1).tolist())
