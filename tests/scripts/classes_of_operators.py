"""Load photographs with pipelines that are classes, as scripts from before DALI 1 define them."""

from __future__ import annotations

import argparse

import numpy as np
import nvidia.dali.ops as ops
import nvidia.dali.types as types
import torch
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import DALIGenericIterator, feed_ndarray, to_torch_type

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--cpu", action="store_true")
options = parser.parse_args()


class Training(Pipeline):
    def __init__(self, batch_size, num_threads, device_id, folder, crop):
        super().__init__(batch_size, num_threads, device_id, seed=12)
        device, decoder = ("cpu", "cpu") if options.cpu else ("gpu", "mixed")
        self.input = ops.readers.File(
            file_root=folder, shard_id=0, num_shards=1, random_shuffle=True, pad_last_batch=True
        )
        self.decode = ops.decoders.Image(device=decoder, output_type=types.RGB)
        self.res = ops.RandomResizedCrop(device=device, size=crop, random_area=[0.1, 1.0])
        self.cmnp = ops.CropMirrorNormalize(
            device=device, dtype=types.FLOAT, output_layout=types.NCHW, crop=(crop, crop), mean=[127.5], std=[127.5]
        )
        self.coin = ops.random.CoinFlip(probability=0.5)

    def define_graph(self):
        mirror = self.coin()
        self.jpegs, self.labels = self.input(name="Reader")
        images = self.cmnp(self.res(self.decode(self.jpegs)), mirror=mirror)
        return [images, self.labels if options.cpu else self.labels.gpu()]


class Fed(Pipeline):
    """Takes arrays that `iter_setup` feeds."""

    def __init__(self, device_id):
        super().__init__(2, 1, device_id)
        self.source = ops.ExternalSource()
        self.flip = ops.Flip(device="cpu" if options.cpu else "gpu")

    def define_graph(self):
        self.arrays = self.source(name="arrays")
        return self.flip(self.arrays if options.cpu else self.arrays.gpu())

    def iter_setup(self):
        self.feed_input(self.arrays, [np.arange(6, dtype=np.uint8).reshape(1, 2, 3)] * 2, layout="HWC")


device_id = None if options.cpu else 0
pipe = Training(batch_size=4, num_threads=2, device_id=device_id, folder=options.folder, crop=20)
pipe.build()
iterator = DALIGenericIterator([pipe], ["data", "label"], size=pipe.epoch_size("Reader"), auto_reset=True)
print([tuple(batch[0]["data"].shape) for batch in iterator][-1])

fed = Fed(device_id)
fed.build()
(flipped,) = fed.run()
tensor = flipped.as_tensor()
copied = torch.zeros(
    tensor.shape(), dtype=to_torch_type[tensor.dtype], device="cuda" if torch.cuda.is_available() else "cpu"
)
feed_ndarray(tensor, copied)
print(copied[0].tolist(), flipped.as_cpu().at(1).tolist())
