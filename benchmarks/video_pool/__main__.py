"""Compare random access to frames of robots' videos: ``python -m benchmarks.video_pool``.

Draw clips of three cameras as H.264 and AV1, with groups of 2, 30 and 250 pictures. A sample is a moment of an episode:
one frame of each camera. `fn.io.video` reads an epoch through a server, in the order of a `WindowedOrder`; torchcodec,
if it is installed, reads the same samples in the same order, and in random order, on one thread. The results are frames
for each second of processor time (of all processes together), decoded frames for each used one, and bytes that the
server read, relative to the files. torchcodec needs FFmpeg's libraries, which are found in PyAV's wheel.

With ``--device cuda:0``, NVDEC decodes for a training on that GPU instead, with at most ``--cores`` cores for all
processes; the figures are samples per second, and the training's share of its speed without a loader.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.ffmpeg import ffmpeg_found
from benchmarks.video_pool.moments import CAMERAS, CODECS, FRAMES, RATE, SIZE, cameras, loader_of, order_of, write_clips
from benchmarks.video_pool.training import print_training
from dali_proxy import DALIServer

GROUPS = (2, 30, 250)


def processor_time(process: psutil.Process) -> float:
    """Return the processor time of a process and all its children, in seconds."""
    times = [each.cpu_times() for each in [process, *process.children(recursive=True)]]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def bytes_read(pid: int) -> int:
    """Return how many bytes a process has read from files, also from the page cache."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def ours(folder: Path, episodes: int, threads: int) -> dict[str, float]:
    """Read an epoch through a server."""
    with DALIServer(cameras, batch_size=32, num_threads=threads) as server:
        write_clips(folder / "first", "h264", 30, [0])
        list(loader_of(server, folder / "first", [0], 32))  # the server imports what it needs
        loader = loader_of(server, folder, range(episodes), 32)
        pid = server.stats().pid
        process = psutil.Process()
        batches, before = iter(loader), server.stats()
        begin, spent, read = time.perf_counter(), processor_time(process), bytes_read(pid)
        for batch in batches:
            assert batch[0].shape[1:] == (1, *SIZE[::-1], 3)
        wall, cpu = time.perf_counter() - begin, processor_time(process) - spent
        stats = server.stats()
        frames = episodes * FRAMES * len(CAMERAS)
        assert stats.video_used - before.video_used == frames
        return {
            "frames_per_cpu_second": frames / cpu,
            "frames_per_second": frames / wall,
            "decoded_per_used": (stats.video_decoded - before.video_decoded) / frames,
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.video_pool", description=__doc__)
    parser.add_argument("--episodes", type=int, default=12, help="number of episodes of 250 frames (default: 12)")
    parser.add_argument("--codecs", nargs="*", default=[*CODECS])
    parser.add_argument("--groups", nargs="*", type=int, default=[*GROUPS])
    parser.add_argument("--threads", type=int, help="threads of the server (default: 2; training: one for each core)")
    parser.add_argument("--samples", type=int, default=300, help="samples that torchcodec reads (default: 300)")
    parser.add_argument("--folder", type=Path, help="keep the clips there, for further runs")
    parser.add_argument("--device", help='train beside the decoding: "cuda:0", or "cpu" to try it')
    parser.add_argument("--cores", type=int, default=4, help="training: cores for all processes (default: 4)")
    parser.add_argument("--batch-size", type=int, default=64, help="training: samples of a batch (default: 64)")
    parser.add_argument("--rate", type=float, default=500, help="training: its own samples per second (default: 500)")
    parser.add_argument("--seconds", type=float, default=4, help="training: seconds of each measurement (default: 4)")
    parser.add_argument("--mode", default="process", help="training: mode of the server (default: process)")
    parser.add_argument("--placement", default="server", help="training: placement of the pipeline (default: server)")
    parser.add_argument("--own-stream", action="store_true", help="training: don't train on CUDA's default stream")
    parser.add_argument("--rounds", type=int, default=3, help="training: blocks with the loader (default: 3)")
    parser.add_argument("--rival", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.device:
        names = ("device", "cores", "batch_size", "rate", "seconds", "mode", "placement", "own_stream")
        print_training(**{name: getattr(options, name) for name in (*names, "threads", "rounds", "folder")})
        return
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
                size = write_clips(folder, codec, group, range(options.episodes))
                random, same = (rival(folder, options.episodes, options.samples, each) for each in (False, True))
                made = ours(folder, options.episodes, options.threads or 2)
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
