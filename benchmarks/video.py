"""Compare ways to read videos on the CPU: ``python -m benchmarks.video``.

Read sequences of 8 frames of 640 by 360 pixels as uint8 RGB, in order and at random. The rivals of `readers.video`
are plain PyAV (as decord and others read: seek to the key frame, decode up to the frame, convert with swscale),
torchcodec and NVIDIA DALI, each if installed. torchcodec's wheels on PyPI need a CUDA build of torch and FFmpeg's
libraries. `docs/performance.md` describes the results.
"""

from __future__ import annotations

import importlib.util
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from dali_proxy._demo.data import photograph_paths
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.targets import target_for
from pipeline import Pipeline, fn
from pipeline.types import RGB

SIZE = (640, 360)
FRAMES = 240
LENGTH = 8
SEQUENCES = FRAMES // LENGTH
ROUNDS = 4
CODECS = {
    "h264": ("libx264", "mp4", {"g": "24", "bf": "2", "crf": "20"}),
    "vp9": ("libvpx-vp9", "webm", {"g": "24", "crf": "30", "b": "0", "deadline": "realtime", "cpu-used": "8"}),
}

#: Read the sequences with these indices, and return when all have arrived.
Reader = Callable[[list[int]], None]


def write_clip(path: Path, codec: str, options: dict[str, str]) -> None:
    """Write a video that pans over a photograph."""
    with Image.open(next(iter(photograph_paths(1).values()))) as opened:
        photograph = opened.convert("RGB").resize((1280, 960), Image.Resampling.LANCZOS)
    with av.open(str(path), "w") as file:
        stream = file.add_stream(codec, rate=24, options=options)
        (stream.width, stream.height), stream.pix_fmt = SIZE, "yuv420p"
        for number in range(FRAMES):
            left, top = 2 * number, (number * number) % 400
            shown = photograph.crop((left, top, left + SIZE[0], top + SIZE[1]))
            file.mux(stream.encode(av.VideoFrame.from_image(shown)))
        file.mux(stream.encode())


def by_hand(path: Path) -> Reader:
    """Return a reader that uses PyAV and assumes a constant frame rate."""

    def read(sequences: list[int]) -> None:
        with av.open(str(path)) as file:
            stream = file.streams.video[0]
            stream.codec_context.thread_count = 1
            frames = file.decode(stream)
            following = 0
            for sequence in sequences:
                first = sequence * LENGTH
                if first != following:
                    file.seek(int(first / stream.average_rate / stream.time_base), stream=stream)
                    frames = file.decode(stream)
                made: list[Any] = []
                for frame in frames:
                    number = round(frame.pts * stream.time_base * stream.average_rate)
                    if first <= number < first + LENGTH:
                        made.append(frame.to_ndarray(format="rgb24"))
                        if len(made) == LENGTH:
                            break
                assert np.stack(made).shape == (LENGTH, *SIZE[::-1], 3)
                following = first + LENGTH

    return read


def torchcodec(path: Path) -> Reader:
    import torch  # noqa: F401  torchcodec needs its libraries
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=1)

    def read(sequences: list[int]) -> None:
        for sequence in sequences:
            made = decoder.get_frames_in_range(sequence * LENGTH, (sequence + 1) * LENGTH).data
            assert made.shape == (LENGTH, *SIZE[::-1], 3)

    return read


def primitive(path: Path) -> Reader:
    """Return a reader that uses the reader's primitive, on this thread."""
    clip, decoders = Clip(str(path)), Decoders(4)

    def read(sequences: list[int]) -> None:
        for sequence in sequences:
            frames = range(sequence * LENGTH, (sequence + 1) * LENGTH)
            made = read_frames(clip, frames, target_for(clip, RGB, None), decoders)
            assert made.shape == (LENGTH, *SIZE[::-1], 3)

    return read


def of_pipeline(pipe: Any) -> Reader:
    """Return a reader of a pipeline, which chooses its own order."""

    def read(sequences: list[int]) -> None:
        for _ in range(len(sequences) // 2):
            pipe.run()

    return read


def ours(path: Path, threads: int, shuffle: bool) -> Reader:
    with Pipeline(batch_size=2, num_threads=threads, device_id=None) as pipe:
        pipe.set_outputs(fn.readers.video(filenames=[str(path)], sequence_length=LENGTH, random_shuffle=shuffle))
    pipe.build()
    return of_pipeline(pipe)


def dali(path: Path, threads: int, shuffle: bool) -> Reader:
    import nvidia.dali

    pipe = nvidia.dali.Pipeline(batch_size=2, num_threads=threads, device_id=None)
    with pipe:
        pipe.set_outputs(
            nvidia.dali.fn.experimental.readers.video(
                filenames=[str(path)], sequence_length=LENGTH, random_shuffle=shuffle
            )
        )
    pipe.build()
    return of_pipeline(pipe)


def rates(readers: dict[str, Reader], sequences: list[int]) -> dict[str, float]:
    """Return frames per second of CPU time, of all threads together.

    It is the best of several rounds, in which readers take turns: other programs only ever slow them down.
    """
    best = dict.fromkeys(readers, 0.0)
    for read in readers.values():
        read(sequences[:4])
    for _ in range(ROUNDS):
        for label, read in readers.items():
            begin = time.process_time()
            read(sequences)
            best[label] = max(best[label], len(sequences) * LENGTH / (time.process_time() - begin))
    return best


def readers_of(path: Path, codec: str, shuffle: bool) -> dict[str, Reader]:
    made = {"a loop around PyAV, 1 thread": by_hand(path)}
    if importlib.util.find_spec("torchcodec") is not None:
        made["torchcodec, 1 thread"] = torchcodec(path)
    made["dali_proxy.pipeline._video, 1 thread"] = primitive(path)
    made["readers.video, num_threads=1"] = ours(path, 1, shuffle)
    made["readers.video, num_threads=2"] = ours(path, 2, shuffle)
    if importlib.util.find_spec("nvidia.dali") is not None and codec != "h264":  # it leaves H.264 to the GPU
        made["NVIDIA DALI, num_threads=2"] = dali(path, 2, shuffle)
    return made


def main() -> None:
    in_order = list(range(SEQUENCES))
    mixed = random.Random(1).sample(in_order, SEQUENCES)
    with tempfile.TemporaryDirectory() as folder:
        for name, (codec, container, options) in CODECS.items():
            path = Path(folder) / f"{name}.{container}"
            write_clip(path, codec, options)
            print(f"\n| {name}, frames per CPU second | in order | at random |\n| --- | --- | --- |")
            ordered = rates(readers_of(path, name, False), in_order)
            shuffled = rates(readers_of(path, name, True), mixed)
            for label in ordered:
                print(f"| {label} | {ordered[label]:,.0f} | {shuffled[label]:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
