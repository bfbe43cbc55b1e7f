"""Train a network to guess the middle frame of clips of video from the frames around it."""

from __future__ import annotations

import argparse
import os

import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali.pipeline import pipeline_def
from nvidia.dali.plugin import pytorch

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--frames", type=int, default=5)
parser.add_argument("--window", type=int, nargs=2, default=[40, 56])
parser.add_argument("--cpu", action="store_true")
options = parser.parse_args()


@pipeline_def
def clips(paths, length, window):
    frames = fn.readers.video(
        name="Reader",
        device="cpu" if options.cpu else "gpu",
        filenames=paths,
        sequence_length=length,
        random_shuffle=True,
        initial_fill=16,
        pad_last_batch=True,
        image_type=types.RGB,
        dtype=types.UINT8,
        normalized=False,
    )
    x, y = fn.random.uniform(range=(0.0, 1.0)), fn.random.uniform(range=(0.0, 1.0))
    frames = fn.crop(frames, crop_pos_x=x, crop_pos_y=y, crop=window, dtype=types.FLOAT)
    return fn.transpose(frames, perm=[3, 0, 1, 2])


class Clips:
    """The items of a training loop."""

    def __init__(self, folder, length, window, batch_size):
        paths = [folder + "/" + name for name in os.listdir(folder)]
        device_id = None if options.cpu else 0
        pipe = clips(
            paths=paths, length=length, window=window, batch_size=batch_size, num_threads=2, device_id=device_id
        )
        pipe.build()
        self.count = pipe.epoch_size("Reader")
        self.batches = pytorch.DALIGenericIterator(
            pipe, ["clip"], reader_name="Reader", auto_reset=True, last_batch_policy=pytorch.LastBatchPolicy.PARTIAL
        )

    def __len__(self):
        return int(self.count)

    def __iter__(self):
        return self.batches.__iter__()


class MiddleFrame(torch.nn.Module):
    def __init__(self, frames):
        super().__init__()
        self.middle = frames // 2
        self.mix = torch.nn.Conv2d(3 * (frames - 1), 3, 1)

    def forward(self, clip, step):
        """Return the loss; clip: (batch, channels, frames, height, width)."""
        before, truth, after = clip.div(255).split([self.middle, 1, clip.shape[2] - self.middle - 1], dim=2)
        around = torch.cat([before, after], dim=2).flatten(1, 2)
        return torch.nn.functional.mse_loss(self.mix(around), truth.squeeze(2))


torch.manual_seed(2)
network = MiddleFrame(options.frames).to("cuda:0" if torch.cuda.is_available() and not options.cpu else "cpu")
optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
loader = Clips(os.path.join(options.folder, "train"), options.frames, options.window, batch_size=4)
print(len(loader), "clips")
examined = None
for epoch in range(2):
    for step, batch in enumerate(loader):
        clip = batch[0]["clip"]
        if torch.cuda.is_available() and not options.cpu:
            clip = clip.cuda(non_blocking=True)
        print(f"epoch {epoch}, step {step}: {tuple(clip.shape)} {clip.dtype}")
        optimizer.zero_grad()
        loss = network(clip, step)
        loss.backward()
        optimizer.step()
        if examined is None:
            examined, loss_before = clip, loss.item()
with torch.no_grad():
    print("learns:", network(examined, 0).item() < loss_before)
