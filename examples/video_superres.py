"""Train video super-resolution: three small frames become one of twice the size; compare with bicubic enlargement.

    python examples/video_superres.py --picture superres.png
    python examples/video_superres.py --data /data/clips --image-size 256 --epochs 100 --device cuda:0

--data names a folder with train/ and val/, each with videos. Without it, the example makes clips that pan and zoom over
photographs; validation uses other photographs. The reader provides the data, so the example needs neither a dataset nor
a server: an iterator over the pipeline is the loader.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image
from torch import nn
from tqdm import tqdm

import common
import dali_proxy
from dali_proxy import fn, pipeline_def, types
from dali_proxy._demo.data import photograph_paths
from networks import SuperResolution

SCALE = 2
FRAMES = 3  # per sequence; the network makes the one in the middle
CLIP_SIZE = (192, 144)
CLIP_FRAMES = 24
CLIPS = 36  # from 12 photographs; every fourth is for validation
PHOTOGRAPHS = 12


@pipeline_def
def training_pipe(device: str, files: list[str], size: int):
    """Return sequences, float [3, FRAMES, size, size] with values from 0 to 255."""
    frames = fn.readers.video(
        device=device,
        filenames=files,
        sequence_length=FRAMES,
        step=2,  # sequences overlap: each frame is in the middle of one, or next to the middle
        random_shuffle=True,
        pad_last_batch=True,
        name="Reader",
    )
    frames = fn.crop(
        frames,
        crop=(size, size),
        dtype=types.FLOAT,
        crop_pos_x=fn.random.uniform(range=(0.0, 1.0)),
        crop_pos_y=fn.random.uniform(range=(0.0, 1.0)),
    )
    return fn.transpose(frames, perm=[3, 0, 1, 2])


@pipeline_def
def validation_pipe(device: str, files: list[str]):
    """The same with whole frames, in order."""
    frames = fn.readers.video(
        device=device, filenames=files, sequence_length=FRAMES, pad_last_batch=True, name="Reader"
    )
    return fn.transpose(fn.cast(frames, dtype=types.FLOAT), perm=[3, 0, 1, 2])


def write_clips(folder: Path, seed: int) -> None:
    """Write train/*.mp4 and val/*.mp4."""
    photographs = list(photograph_paths(PHOTOGRAPHS).values())
    for number in tqdm(range(CLIPS), "writing clips", unit="clip", disable=None):
        split = "train" if number % 4 else "val"
        (folder / split).mkdir(exist_ok=True)
        with Image.open(photographs[number % PHOTOGRAPHS]) as photograph:
            write_clip(
                folder / split / f"{number:02}.mp4", photograph.convert("RGB"), random.Random(f"{seed}/{number}")
            )


def write_clip(path: Path, photograph: Image.Image, dice: random.Random) -> None:
    """Pan and zoom over a photograph, from one window of it to another."""
    width, height = CLIP_SIZE
    largest = min(photograph.width / width, photograph.height / height)
    windows = []
    for _ in range(2):
        zoom = largest * dice.uniform(0.5, 0.9)
        left, top = (
            dice.uniform(0, whole - zoom * part) for whole, part in zip(photograph.size, CLIP_SIZE, strict=True)
        )
        windows.append(np.array([left, top, left + zoom * width, top + zoom * height]))
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=24, options={"crf": "16", "g": "12", "preset": "veryfast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(CLIP_FRAMES):
            along = (1 - math.cos(math.pi * number / (CLIP_FRAMES - 1))) / 2
            window = (1 - along) * windows[0] + along * windows[1]
            shown = photograph.resize(CLIP_SIZE, Image.Resampling.BICUBIC, box=tuple(window.tolist()))
            file.mux(stream.encode(av.VideoFrame.from_image(shown)))
        file.mux(stream.encode())


def split_frames(frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the network's input, [N, 3 * FRAMES, H / 2, W / 2], and its target, [N, 3, H, W]."""
    height, width = (extent // SCALE * SCALE for extent in frames.shape[-2:])
    frames = frames[..., :height, :width].transpose(1, 2) / 255  # NFCHW
    truth = frames[:, FRAMES // 2]
    small = (height // SCALE, width // SCALE)
    seen = nn.functional.interpolate(frames.flatten(0, 1), size=small, mode="bicubic", antialias=True)
    return seen.clamp(0, 1).unflatten(0, frames.shape[:2]).flatten(1, 2), truth


def bicubic(seen: torch.Tensor) -> torch.Tensor:
    """Enlarge the frame in the middle by bicubic interpolation."""
    middle = seen.unflatten(1, (FRAMES, 3))[:, FRAMES // 2]
    return nn.functional.interpolate(middle, scale_factor=SCALE, mode="bicubic").clamp(0, 1)


def train(options: argparse.Namespace, network: nn.Module, loader: dali_proxy.DALIGenericIterator) -> common.Meter:
    steps = options.epochs * len(loader)
    optimizer = torch.optim.Adam(network.parameters(), lr=options.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=options.learning_rate, total_steps=steps)
    meter = common.Meter(options.epochs, len(loader))
    for _ in range(options.epochs):
        for batch in meter.follow(loader):
            seen, truth = split_frames(batch[0]["frames"].to(options.device))
            plain = bicubic(seen)
            loss = nn.functional.l1_loss(plain + network(seen), truth)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            # Relative to the error of bicubic enlargement, because some sequences are harder than others.
            meter.add(loss / nn.functional.l1_loss(plain, truth).clamp(min=1e-6), len(seen))
    meter.close()
    return meter


@torch.no_grad()
def compare(
    options: argparse.Namespace, network: nn.Module, loader: Iterable[list[dict[str, torch.Tensor]]]
) -> tuple[float, float, list[np.ndarray]]:
    """Return the PSNR of the network and of bicubic enlargement over all frames, in dB, and images of a few frames.

    There are three images per frame: input, output, truth.
    """
    errors, tiles = [], []
    for batch in loader:
        seen, truth = split_frames(batch[0]["frames"].to(options.device))
        plain = bicubic(seen)
        made = (plain + network(seen)).clamp(0, 1)
        errors.append([float(nn.functional.mse_loss(guess, truth)) for guess in (made, plain)])
        if len(errors) % 32 == 1:
            small = seen.unflatten(1, (FRAMES, 3))[:, FRAMES // 2]
            shown = nn.functional.interpolate(small, scale_factor=SCALE), made, truth
            tiles += [(255 * each[0]).round().byte().permute(1, 2, 0).cpu().numpy() for each in shown]
    network_psnr, plain_psnr = (-10 * np.log10(np.mean(errors, axis=0))).tolist()
    return network_psnr, plain_psnr, tiles


def videos(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.iterdir()) if not path.name.startswith(".")]


def main() -> None:
    parser = common.make_parser(__doc__, epochs=16, batch_size=16, image_size=64, workers=False)
    options = common.parse(parser)
    place = {
        "device": "cpu" if options.device.type == "cpu" else "gpu",
        "device_id": options.device.index,
        "num_threads": options.num_threads,
        "seed": options.seed,
    }
    policy = dali_proxy.LastBatchPolicy.PARTIAL
    iterate: dict[str, Any] = {"reader_name": "Reader", "last_batch_policy": policy, "auto_reset": True}
    with ExitStack() as stack:
        folder = options.data or stack.enter_context(common.temporary_folder())
        if options.data is None:
            write_clips(folder, options.seed)
        pipe = training_pipe(
            files=videos(folder / "train"), size=options.image_size, batch_size=options.batch_size, **place
        )
        stack.callback(pipe.close)
        network = SuperResolution(3 * FRAMES, SCALE).to(options.device)
        meter = train(options, network, dali_proxy.DALIGenericIterator(pipe, ["frames"], **iterate))

        val_pipe = validation_pipe(files=videos(folder / "val"), batch_size=1, **place)  # their sizes may differ
        stack.callback(val_pipe.close)
        made, plain, tiles = compare(options, network, dali_proxy.DALIGenericIterator(val_pipe, ["frames"], **iterate))
    meter.report(None, PSNR=f"{made:.2f} dB, bicubic {plain:.2f} dB")
    if options.picture:
        common.save_picture(options.picture, tiles, columns=3)


if __name__ == "__main__":
    main()
