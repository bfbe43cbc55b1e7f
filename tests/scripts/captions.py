"""Load photographs and the lengths of their names through torch's loader, with the pipeline behind a proxy."""

from __future__ import annotations

import argparse
from glob import glob
from pathlib import Path

import numpy as np
import nvidia.dali.plugin.pytorch.experimental.proxy as dali_proxy
from nvidia.dali import fn, pipeline_def, types
from torch.utils.data import Dataset

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--cpu", action="store_true")
options = parser.parse_args()


class Captioned(Dataset):
    def __init__(self, folder, transform=None):
        self.folder = folder
        self.names = sorted(glob("*.jpeg", root_dir=folder))
        self.transform = transform

    def __len__(self):
        return len(self.names)

    def __getitem__(self, number):
        name = self.names[number]
        encoded = np.fromfile(self.folder / name, dtype=np.uint8)
        if self.transform is None:
            return encoded, len(name)
        return self.transform(np.expand_dims(encoded, axis=0)), len(name)


@pipeline_def
def thumbnails(decoder, extents=(48, 64)):
    encoded = fn.external_source(no_copy=True, name="jpegs")
    decoded = fn.decoders.image(encoded, output_type=types.RGB, device=decoder)
    return fn.resize(decoded, interp_type=types.INTERP_LINEAR, size=extents)


def build():
    decoder, device_id = ("cpu", None) if options.cpu else ("mixed", 0)
    return thumbnails(decoder, num_threads=2, batch_size=3, device_id=device_id)


print("files:", sum(encoded.ndim == 1 for encoded, _ in Captioned(options.folder)))
with dali_proxy.DALIServer(build()) as server:
    captioned = Captioned(options.folder, server.proxy)
    loader = dali_proxy.DataLoader(server, captioned, batch_size=3, num_workers=2, drop_last=True)
    for number, (photographs, lengths) in enumerate(loader):
        print(f"with workers, batch {number}: {tuple(photographs.shape)} {photographs.device.type} {lengths.tolist()}")

server = dali_proxy.DALIServer(build())  # without `with`: it ends with the script
loader = dali_proxy.DataLoader(server, Captioned(options.folder, transform=server.proxy), batch_size=3)
print("here, batches of", [len(photographs) for photographs, _ in loader])
