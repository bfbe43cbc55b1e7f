"""Print the size and the mean colour of each photograph of a folder: one run of the pipeline for each file."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline import pipeline_def
from nvidia.dali.plugin.pytorch.torch_utils import to_torch_tensor

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--cpu", action="store_true")
options = parser.parse_args()


@pipeline_def(batch_size=3, num_threads=2, device_id=None if options.cpu else 0, exec_dynamic=True)
def reading(input_name, decoder):
    files = fn.external_source(device="cpu", name=input_name, dtype=types.UINT8, blocking=True, no_copy=False)
    return fn.decoders.image(files, device=decoder, jpeg_fancy_upsampling=True, output_type=types.RGB)


pipe = reading("photograph", decoder="cpu" if options.cpu else "mixed", prefetch_queue_depth=1)
pipe.build()
for path in sorted(options.folder.iterdir()):
    batch_of_one = np.expand_dims(np.fromfile(path, dtype=np.uint8), axis=0)
    outputs = pipe.run(photograph=batch_of_one)
    photograph = to_torch_tensor(outputs[0][0], copy=False)  # the pipeline's own memory
    height, width, _ = photograph.shape
    red, green, blue = photograph.float().mean(dim=(0, 1)).round().int().tolist()
    print(f"{path.name}: {height} x {width} on {photograph.device.type}, rgb({red}, {green}, {blue})")
