"""Epochs of decoders on a GPU: without a cache, the first and second epoch with one, and torch with a cache."""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import av
import cv2
import numpy as np
import torch
import xxhash
from torch.nn import functional

from benchmarks.cache.epochs import MEAN, SIZE, STD
from benchmarks.cache.files import Bytes, draw_files, draw_image
from benchmarks.crop import random_window
from benchmarks.ffmpeg import usual_scheduling
from dali_proxy import Pipeline, fn, types

ON_GPU = ("png", "jpeg2000", "video", "jpeg")
_FRAMES, _FRAME = 32, (270, 480)
_THREADS = 8
_MEGABYTES = 8192
#: Arguments of the decoder and of the pipeline, by the place of the cache.
_CACHES: dict[str, tuple[dict[str, Any], int | str]] = {
    "without": ({}, 0),
    "GPU": ({"cache_size": _MEGABYTES}, 0),
    "host": ({}, "8GB"),
}


def measure_on_gpu(kind: str, count: int, rounds: int) -> dict[str, Any]:
    """Return samples per second, medians over rounds, and ratios of the same round.

    Args:
        kind: kind of the files; see `ON_GPU`.
        count: number of files; an eighth of it for videos.
        rounds: number of rounds. In each, all contestants take turns.
    """
    is_video = kind == "video"
    count = max(count // (8 if is_video else 1), 8)
    files = _draw_videos(2 * count) if is_video else draw_files(kind, 2 * count)
    files, others = files[:count], files[count:]
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for place, (arguments, cache) in _CACHES.items():
            if place == "host" and kind != "png":  # only cores' images are kept there
                continue
            pipe = _make(is_video, cache, arguments)
            _epoch(pipe, others, is_video)  # its memory
            for epoch in ("",) if place == "without" else (" first", " second"):
                times.setdefault(place + epoch, []).append(_epoch(pipe, files, is_video))
            pipe.close()
        known: dict[int, torch.Tensor] = {}
        for epoch in ("first", "second"):
            times.setdefault(f"torch {epoch}", []).append(_torch_epoch(files, known, is_video))
    second = {name: values for name, values in times.items() if name.endswith("second") and "torch" not in name}
    return {
        "kind": kind,
        "files": count,
        "bytes of a file": round(sum(map(len, files)) / count),
        "samples/s": {name: round(count / statistics.median(values), 1) for name, values in times.items()},
        "speed of the second epoch": {name: _ratio(times["without"], values) for name, values in second.items()},
        "cost of the first epoch": _ratio(times["GPU first"], times["without"]),
        "beside torch with a cache": {name: _ratio(times["torch second"], values) for name, values in second.items()},
        "bits are equal": len({_bits(is_video, *_CACHES[place], files) for place in _CACHES}) == 1,
    }


def _ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return round(statistics.median(first / second for first, second in zip(one, other, strict=True)), 2)


def _make(is_video: bool, cache: int | str, arguments: dict[str, Any]) -> Pipeline:
    pipe = Pipeline(batch_size=_batch(is_video), num_threads=_THREADS, device_id=0, seed=1, cache=cache)
    draws: dict[str, Any] = {"mean": MEAN, "std": STD, "dtype": types.FLOAT, "crop": (SIZE, SIZE)}
    with pipe:
        encoded = fn.external_source(name="encoded")
        if is_video:
            frames = fn.decoders.video(encoded, device="mixed", **arguments)
            where = fn.random.uniform(range=(0, 1))
            pipe.set_outputs(fn.crop_mirror_normalize(frames, crop_pos_x=where, output_layout="FCHW", **draws))
        else:
            images = fn.random_resized_crop(fn.decoders.image(encoded, device="mixed", **arguments), size=(SIZE, SIZE))
            pipe.set_outputs(fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), **draws))
    pipe.build()
    return pipe


def _batch(is_video: bool) -> int:
    return 4 if is_video else 32


def _orders(count: int, batch: int) -> Iterator[list[int]]:
    order = torch.randperm(count).tolist()
    yield from (order[begin : begin + batch] for begin in range(0, count, batch))


def _epoch(pipe: Pipeline, files: Sequence[Bytes], is_video: bool) -> float:
    """Return the seconds of an epoch, until the GPU has computed it."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for order in _orders(len(files), _batch(is_video)):
        pipe.run(encoded=[files[index] for index in order])
    torch.cuda.synchronize()  # torch's batches stay on the GPU, too
    return time.perf_counter() - begin


def _bits(is_video: bool, arguments: dict[str, Any], cache: int | str, files: Sequence[Bytes]) -> str:
    """Return a hash of two shuffled epochs."""
    torch.manual_seed(1)
    pipe, state = _make(is_video, cache, arguments), xxhash.xxh3_64()
    for _ in range(2):
        for order in _orders(len(files), _batch(is_video)):
            for sample in pipe.run(encoded=[files[index] for index in order])[0].as_cpu():
                state.update(np.asarray(sample).tobytes())
    pipe.close()
    return state.hexdigest()


def _torch_epoch(files: Sequence[Bytes], known: dict[int, torch.Tensor], is_video: bool) -> float:
    """Return the seconds of an epoch of torch with a dictionary of decoded samples; the rest is computed on the GPU."""
    mean, scale = (torch.tensor(each, device="cuda").view(1, 3, 1, 1) for each in (MEAN, STD))
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for order in _orders(len(files), _batch(is_video)):
        batch = []
        for index in order:
            if index not in known:
                known[index] = _decoded(files[index], is_video)
            batch.append(_window(known[index], is_video))
        pixels = torch.cat(batch)
        (pixels - mean) / scale
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def _decoded(file: Bytes, is_video: bool) -> torch.Tensor:
    if is_video:
        with av.open(io.BytesIO(file.tobytes())) as container:
            return torch.from_numpy(np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]))
    image: Any = cv2.imdecode(file, cv2.IMREAD_COLOR)
    return torch.from_numpy(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))


def _window(sample: torch.Tensor, is_video: bool) -> torch.Tensor:
    """Return a random window, which is cut on the host and resized on the GPU."""
    if is_video:
        x = int(np.random.default_rng().integers(sample.shape[2] - SIZE + 1))
        y = (sample.shape[1] - SIZE) // 2
        return sample[:, y : y + SIZE, x : x + SIZE].to("cuda").permute(0, 3, 1, 2).float()
    x, y, width, height = random_window(sample.shape[1], sample.shape[0])
    window = sample[y : y + height, x : x + width].to("cuda").permute(2, 0, 1)[None].float()
    return functional.interpolate(window, (SIZE, SIZE), mode="bilinear", antialias=True)


def _draw_videos(count: int) -> list[Bytes]:
    """Return the contents of H.264 files, all different."""
    height, width = _FRAME
    numbers = np.random.default_rng(1)
    found = []
    for _ in range(count):
        large, file = draw_image((2 * height, 2 * width), numbers), io.BytesIO()
        with usual_scheduling(), av.open(file, "w", "mp4") as container:
            stream: Any = container.add_stream("libx264", rate=25, options={"preset": "veryfast", "g": "24"})
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            for number in range(_FRAMES):
                shown = np.ascontiguousarray(large[4 * number :][:height, 6 * number :][:, :width])
                container.mux(stream.encode(av.VideoFrame.from_ndarray(shown, format="rgb24")))
            container.mux(stream.encode())
        found.append(np.frombuffer(file.getvalue(), np.uint8))
    return found
