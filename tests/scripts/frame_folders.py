"""Read sequences of frames that lie as files in folders, and print their shapes."""

from __future__ import annotations

import argparse

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline import pipeline_def
from nvidia.dali.plugin import pytorch

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--cpu", action="store_true")
options = parser.parse_args()


@pipeline_def(batch_size=2, num_threads=2, device_id=None if options.cpu else 0)
def windows():
    sequences = fn.readers.sequence(
        name="Frames",
        file_root=options.folder,
        sequence_length=3,
        image_type=types.RGB,
        random_shuffle=True,
        initial_fill=4,
        pad_last_batch=True,
    )
    left, top = (fn.random.uniform(range=(0.0, 1.0)) for _ in range(2))
    cut = fn.crop(sequences, crop=[24, 40], crop_pos_x=left, crop_pos_y=top, dtype=types.FLOAT)
    return fn.transpose(cut, perm=[3, 0, 1, 2])


pipe = windows()
pipe.build()
print(pipe.epoch_size("Frames"), "sequences")
batches = pytorch.DALIGenericIterator(
    pipe, ["frames"], reader_name="Frames", last_batch_policy=pytorch.LastBatchPolicy.PARTIAL, auto_reset=True
)
for epoch in range(2):
    for batch in batches:
        print(f"epoch {epoch}: {tuple(batch[0]['frames'].shape)} {batch[0]['frames'].dtype}")
