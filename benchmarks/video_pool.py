"""Compare random access to frames of robots' videos: ``python -m benchmarks.video_pool``.

Draw clips of three cameras as H.264 and AV1, with groups of 2, 30 and 250 pictures. A sample is a moment of an episode:
one frame of each camera. `fn.io.video` reads an epoch through a server, in the order of a `WindowedOrder`; torchcodec,
if it is installed, reads the same samples in the same order, and in random order, on one thread. The results are frames
for each second of processor time (of all processes together), decoded frames for each used one, and bytes that the
server read, relative to the files. torchcodec needs FFmpeg's libraries, which are found in PyAV's wheel.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import av
import numpy as np
import psutil
from PIL import Image
from torch.utils.data import Dataset

from benchmarks.ffmpeg import ffmpeg_found, usual_scheduling
from dali_proxy import DALIServer, DataLoader, WindowedOrder
from dali_proxy._demo.data import photograph_paths
from dali_proxy.distributed import DistributedBatchSampler
from pipeline import dynamic

CAMERAS = ("front", "left", "wrist")
SIZE = (640, 480)
RATE = 30
FRAMES = 250
CODECS = {
    "h264": ("libx264", {"preset": "veryfast", "crf": "23"}),
    "av1": ("libsvtav1", {"preset": "11", "crf": "30"}),
}
GROUPS = (2, 30, 250)


def write_clip(path: Path, codec: str, group: int, number: int) -> None:
    """Write a clip that pans over a photograph."""
    name, options = CODECS[codec]
    with Image.open(list(photograph_paths(4).values())[number % 4]) as opened:
        photograph = opened.convert("RGB").resize((1280, 960), Image.Resampling.BILINEAR)
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


def write_clips(folder: Path, codec: str, group: int, episodes: int) -> int:
    """Write the clips of all cameras that don't exist; return their size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(episodes):
        if (folder / f"{CAMERAS[-1]}{number}.mp4").exists():
            continue
        write_clip(folder / f"front{number}.mp4", codec, group, number)
        for camera in CAMERAS[1:]:
            shutil.copy(folder / f"front{number}.mp4", folder / f"{camera}{number}.mp4")
    return sum(path.stat().st_size for path in folder.glob("*.mp4"))


class Moments(Dataset[Any]):
    """The moments of all episodes: a frame of each camera."""

    def __init__(self, folder: Path, episodes: int, server: DALIServer) -> None:
        self.folder, self.episodes, self.server = str(folder), episodes, server

    def __len__(self) -> int:
        return self.episodes * FRAMES

    def __getitem__(self, index: int) -> Any:
        episode, frame = divmod(index, FRAMES)
        paths = {camera: f"{self.folder}/{camera}{episode}.mp4" for camera in CAMERAS}
        return self.server.proxy(**paths, times=np.array([frame / RATE]))


def cameras(front: Any, left: Any, wrist: Any, times: Any) -> Any:
    """Return a frame of each camera."""
    return [dynamic.video(each, times=times, tolerance=1e-3, pool_bytes=POOL_BYTES) for each in (front, left, wrist)]


POOL_BYTES = 2 << 30


def processor_time(process: psutil.Process) -> float:
    """Return the processor time of a process and all its children, in seconds."""
    times = [each.cpu_times() for each in [process, *process.children(recursive=True)]]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def bytes_read(pid: int) -> int:
    """Return how many bytes a process has read from files, also from the page cache."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def ours(folder: Path, episodes: int, order: WindowedOrder, threads: int) -> dict[str, float]:
    """Read an epoch through a server."""
    with DALIServer(cameras, batch_size=32, num_threads=threads) as server:
        sampler = DistributedBatchSampler(len(order), 32, order=order, rank=0, world_size=1)
        dataset = Moments(folder, episodes, server)
        loader = DataLoader(server, dataset, batch_sampler=sampler, num_workers=1, prefetch_factor=32)
        pid = server.stats().pid
        process = psutil.Process()
        batches = iter(loader)
        begin, spent, read = time.perf_counter(), processor_time(process), bytes_read(pid)
        for batch in batches:
            assert batch[0].shape[1:] == (1, *SIZE[::-1], 3)
        wall, cpu = time.perf_counter() - begin, processor_time(process) - spent
        stats = server.stats()
        frames = len(order) * len(CAMERAS)
        assert stats.video_used == frames
        return {
            "frames_per_cpu_second": frames / cpu,
            "frames_per_second": frames / wall,
            "decoded_per_used": stats.video_decoded / stats.video_used,
            "bytes_read": float(bytes_read(pid) - read),
            "pool_bytes": float(stats.video_bytes),
        }


def torchcodec(folder: Path, indices: Iterable[int]) -> float:
    """Return the frames per second of processor time with torchcodec, on one thread."""
    import torch
    from torchcodec.decoders import VideoDecoder

    torch.set_num_threads(1)
    decoders: dict[str, Any] = {}
    begin, count = time.process_time(), 0
    for index in indices:
        episode, frame = divmod(int(index), FRAMES)
        for camera in CAMERAS:
            path = f"{folder}/{camera}{episode}.mp4"
            if path not in decoders:
                decoders[path] = VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact")
            made = decoders[path].get_frames_played_at([frame / RATE + 1e-4]).data
            assert made.shape == (1, *SIZE[::-1], 3)
            count += 1
    return count / (time.process_time() - begin)


def rival(folder: Path, episodes: int, samples: int, windowed: bool) -> float | None:
    """Run `torchcodec` in a process of its own that finds FFmpeg's libraries; None if it isn't installed."""
    if importlib.util.find_spec("torchcodec") is None:
        return None
    kind = "windowed" if windowed else "random"
    command = [sys.executable, "-m", "benchmarks.video_pool", "--rival", str(folder), kind, str(episodes), str(samples)]
    with tempfile.TemporaryDirectory() as links, ffmpeg_found(links):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    return float(done.stdout)


def order_of(episodes: int) -> WindowedOrder:
    """Return the order of the samples: a window of 1,000."""
    return WindowedOrder([FRAMES] * episodes, window=1000, seed=1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.video_pool", description=__doc__)
    parser.add_argument("--episodes", type=int, default=12, help="number of episodes of 250 frames (default: 12)")
    parser.add_argument("--codecs", nargs="*", default=[*CODECS])
    parser.add_argument("--groups", nargs="*", type=int, default=[*GROUPS])
    parser.add_argument("--threads", type=int, default=2, help="threads of the server (default: 2)")
    parser.add_argument("--samples", type=int, default=300, help="samples that torchcodec reads (default: 300)")
    parser.add_argument("--folder", type=Path, help="keep the clips there, for further runs")
    parser.add_argument("--rival", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rival:
        folder, kind, episodes, samples = options.rival
        order = order_of(int(episodes))(0)
        if kind == "random":
            order = np.random.default_rng(1).permutation(len(order))
        print(torchcodec(Path(folder), order[: int(samples)]))
        return
    print("| codec | group | frames per CPU second | frames per second | decoded per used | read / size | pool, MB "
          "| torchcodec at random | in the same order | ratio |")  # fmt: skip
    print("|" + " --- |" * 10)
    for codec in options.codecs:
        for group in options.groups:
            with tempfile.TemporaryDirectory() as name:
                folder = (options.folder or Path(name)) / f"{codec}-{group}"
                size = write_clips(folder, codec, group, options.episodes)
                random, same = (rival(folder, options.episodes, options.samples, each) for each in (False, True))
                made = ours(folder, options.episodes, order_of(options.episodes), options.threads)
            shown = [
                f"{made['frames_per_cpu_second']:,.0f}", f"{made['frames_per_second']:,.0f}",
                f"{made['decoded_per_used']:.2f}", f"{made['bytes_read'] / size:.2f}",
                f"{made['pool_bytes'] / 1e6:,.0f}",
                *("" if each is None else f"{each:,.0f}" for each in (random, same)),
                "" if random is None else f"{made['frames_per_cpu_second'] / random:.1f}",
            ]  # fmt: skip
            print(f"| {codec} | {group} | " + " | ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
