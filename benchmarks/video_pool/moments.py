"""The data: clips of three cameras, and moments of their episodes at random."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image
from torch.utils.data import Dataset

from benchmarks.ffmpeg import usual_scheduling
from dali_proxy import DALIServer, DataLoader, WindowedOrder
from dali_proxy._demo.data import photograph_paths
from dali_proxy._demo.drawing import draw
from dali_proxy.distributed import DistributedBatchSampler
from pipeline import dynamic

CAMERAS = ("front", "left", "wrist")
SIZE = (640, 480)
RATE = 30
FRAMES = 250
POOL_BYTES = 2 << 30
CODECS = {
    "h264": ("libx264", {"preset": "veryfast", "crf": "23"}),
    "av1": ("libsvtav1", {"preset": "11", "crf": "30"}),
}


@cache
def _photograph(number: int) -> Image.Image:
    try:
        with Image.open(list(photograph_paths(4).values())[number]) as opened:
            shown = opened.convert("RGB")
    except FileNotFoundError:  # scikit-image has them
        shown = draw(number)
    return shown.resize((1280, 960), Image.Resampling.BILINEAR)


def write_clip(path: Path, codec: str, group: int, number: int) -> None:
    """Write a clip that pans over a photograph."""
    name, options = CODECS[codec]
    photograph = _photograph(number % 4)
    if codec == "h264":
        options = {**options, "x264-params": f"keyint={group}:min-keyint={group}:scenecut=0"}
    with usual_scheduling(), av.open(str(path), "w") as file:
        stream = file.add_stream(name, rate=RATE, options=options)
        (stream.width, stream.height), stream.pix_fmt, stream.gop_size = SIZE, "yuv420p", group
        for frame in range(FRAMES):
            left, top = 2 * frame + number, (frame * frame + 7 * number) % 400
            shown = photograph.crop((left, top, left + SIZE[0], top + SIZE[1]))
            file.mux(stream.encode(av.VideoFrame.from_image(shown)))
        file.mux(stream.encode())


def write_clips(folder: Path, codec: str, group: int, episodes: Sequence[int], threads: int = 1) -> int:
    """Write the clips of all cameras that don't exist; return their size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(number: int) -> None:
        if (folder / f"{CAMERAS[-1]}{number}.mp4").exists():
            return
        write_clip(folder / f"front{number}.mp4", codec, group, number)
        for camera in CAMERAS[1:]:
            shutil.copy(folder / f"front{number}.mp4", folder / f"{camera}{number}.mp4")

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write, episodes))
    return sum((folder / f"{camera}{number}.mp4").stat().st_size for camera in CAMERAS for number in episodes)


class Moments(Dataset[Any]):
    """The moments of all episodes: a frame of each camera."""

    def __init__(self, folder: Path, episodes: Sequence[int], server: DALIServer) -> None:
        self.folder, self.episodes, self.server = str(folder), episodes, server

    def __len__(self) -> int:
        return len(self.episodes) * FRAMES

    def __getitem__(self, index: int) -> Any:
        episode, frame = divmod(index, FRAMES)
        paths = {camera: f"{self.folder}/{camera}{self.episodes[episode]}.mp4" for camera in CAMERAS}
        return self.server.proxy(**paths, times=np.array([frame / RATE]))


def cameras(front: Any, left: Any, wrist: Any, times: Any) -> Any:
    """Return a frame of each camera."""
    return [_frames(each, times, "cpu") for each in (front, left, wrist)]


def cameras_on_gpu(front: Any, left: Any, wrist: Any, times: Any) -> Any:
    """Return a frame of each camera, decoded by NVDEC."""
    return [_frames(each, times, "gpu") for each in (front, left, wrist)]


def _frames(path: Any, times: Any, device: str) -> Any:
    return dynamic.video(path, times=times, tolerance=1e-3, pool_bytes=POOL_BYTES, device=device)


def order_of(episodes: int) -> WindowedOrder:
    """Return the order of the samples: a window of 1,000."""
    return WindowedOrder([FRAMES] * episodes, window=1000, seed=1)


def loader_of(server: DALIServer, folder: Path, episodes: Sequence[int], batch_size: int) -> DataLoader:
    """Return a loader of an epoch, with one worker."""
    order = order_of(len(episodes))
    sampler = DistributedBatchSampler(len(order), batch_size, order=order, rank=0, world_size=1)
    dataset = Moments(folder, episodes, server)
    return DataLoader(
        server, dataset, batch_sampler=sampler, num_workers=1, persistent_workers=True, prefetch_factor=32
    )
