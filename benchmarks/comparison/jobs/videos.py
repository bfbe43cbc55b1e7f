"""Videos: clips of following frames, and single frames at random."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from benchmarks.comparison.files import write_once
from benchmarks.comparison.job import DRAWN, Arrays, Job
from dali_proxy._demo.data import photograph_paths

WIDTH, HEIGHT = 320, 240
FRAMES = 240
FILES = 12
RATE = 24
SIZE = (112, 112)


class Videos(Job):
    """Frames of H.264 videos of ten seconds with a key frame each second, in 112 x 112 pixels.

    Args:
        name: Its name on the command line.
        title: Its name in tables.
        length: Frames of a sample.
        following: Whether they follow each other; otherwise they are drawn from the whole video.
    """

    batch_size = 8
    bounds = (4.0,)
    unit = "of 255"
    seconds = 1.5

    def __init__(self, name: str, title: str, length: int, following: bool) -> None:
        self.name, self.title, self.count, self.following = name, title, length, following

    def prepare(self) -> None:
        self.folder = write_once("videos", _write)

    @cached_property
    def files(self) -> list[str]:
        """The paths of all videos."""
        return sorted(str(path) for path in self.folder.iterdir())

    @cached_property
    def numbers(self) -> np.ndarray:
        """The frames of each of `DRAWN` samples, int32 ``[DRAWN, count]``."""
        rng = np.random.default_rng(4)
        if self.following:
            return (rng.integers(0, FRAMES - self.count, (DRAWN, 1)) + np.arange(self.count)).astype(np.int32)
        return np.stack([np.sort(rng.choice(FRAMES, self.count, replace=False)) for _ in range(DRAWN)]).astype(np.int32)

    def path(self, index: int) -> str:
        """Return the path of a sample's video."""
        return self.files[index % len(self.files)]

    def stored(self, index: int) -> Arrays:
        return (np.fromfile(self.path(index), np.uint8),)

    def drawn(self, index: int) -> Arrays:
        return (self.numbers[index % DRAWN],)

    def transform(self, *inputs: np.ndarray) -> Arrays:
        encoded, numbers = inputs
        return (np.stack([resized(frame) for frame in decode(encoded, numbers.tolist())]),)

    def graph(self, library: Any, *inputs: Any) -> Any:
        encoded, numbers = inputs
        frames = library.fn.decoders.video(encoded, frames=numbers)
        return library.fn.resize(frames, size=SIZE, antialias=False)

    def reference(self, *inputs: np.ndarray) -> Arrays:
        return self.transform(*inputs)


def decode(encoded: np.ndarray, numbers: list[int]) -> list[np.ndarray]:
    """Decode frames with PyAV: seek to the key frame before each run of frames, then decode in order."""
    import io

    import av

    found: dict[int, np.ndarray] = {}
    with av.open(io.BytesIO(encoded.tobytes())) as file:
        stream = file.streams.video[0]
        stream.codec_context.thread_count = 1
        wanted, position = set(numbers), -1
        for number in numbers:
            if number in found:
                continue
            if position < 0 or number - position > RATE:  # else going on is shorter
                file.seek(int(number / RATE / stream.time_base), stream=stream)
            for frame in file.decode(stream):
                position = round(frame.pts * stream.time_base * RATE)
                if position in wanted:
                    found[position] = frame.to_ndarray(format="rgb24")
                if position >= number:
                    break
    return [found[number] for number in numbers]


def resized(frame: np.ndarray) -> np.ndarray:
    """Resize a frame, without antialiasing."""
    return cv2.resize(frame, SIZE[::-1], interpolation=cv2.INTER_LINEAR)


def _write(folder: Path) -> None:
    import av

    photographs = list(photograph_paths(FILES).values())
    for number in range(FILES):
        with Image.open(photographs[number % len(photographs)]) as opened:
            photograph = opened.convert("RGB").resize((960, 720), Image.Resampling.LANCZOS)
        options = {"g": str(RATE), "bf": "2", "crf": "20"}
        with av.open(str(folder / f"{number:02}.mp4"), "w") as file:
            stream = file.add_stream("libx264", rate=RATE, options=options)
            (stream.width, stream.height), stream.pix_fmt = (WIDTH, HEIGHT), "yuv420p"
            for frame in range(FRAMES):
                left, top = 2 * frame, (frame * frame) % 400
                shown = photograph.crop((left, top, left + WIDTH, top + HEIGHT))
                file.mux(stream.encode(av.VideoFrame.from_image(shown)))
            file.mux(stream.encode())
