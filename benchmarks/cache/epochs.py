"""Processor time of epochs: without a cache, the first and the second epoch with one, and torch with a cache."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cv2
import numpy as np
import torch
from torch.nn import functional

from benchmarks.cache.files import Bytes, draw_files
from benchmarks.crop import random_window
from dali_proxy import Pipeline, fn, types

_BATCH = 32
SIZE = 224
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def _crops(encoded: Any) -> Any:
    return fn.random_resized_crop(fn.decoders.image(encoded), size=(SIZE, SIZE))


def _resized(encoded: Any) -> Any:
    return fn.resize(fn.decoders.image(encoded), resize_shorter=256)


# "pages" is the time in which another thread allocates the memory of an image, once. "first" doesn't contain it.
_TIMES = ("without", "first", "second", "torch first", "torch second", "pages")


def _files(paths: Any) -> Any:
    return _crops(fn.io.file.read(paths))


#: What comes before the crop, the flip and the normalisation: the cache holds whole images, or resized ones. "files"
#: reads whole images from files; the others get their contents.
PIPELINES: dict[str, Callable[[Any], Any]] = {"whole": _crops, "resized": _resized, "files": _files}
_AGE = 61  # seconds; the cache trusts the times of files that are older than a minute


def measure_epochs(kind: str, name: str, count: int, rounds: int) -> dict[str, Any]:
    """Return microseconds of processor time for an image, medians over rounds, and ratios of the same round.

    Args:
        kind: kind of the files; see `KINDS`.
        name: the pipeline; see `PIPELINES`.
        count: number of files.
        rounds: number of rounds. In each, all contestants take turns.
    """
    with tempfile.TemporaryDirectory() as folder:
        drawn = draw_files(kind, 2 * count)
        size = sum(map(len, drawn[:count])) / count
        if name == "files":
            drawn = [_written(content, f"{folder}/{number}") for number, content in enumerate(drawn)]
            time.sleep(_AGE)
        return {"kind": kind, "bytes of a file": round(size), **_measure(name, drawn[:count], drawn[count:], rounds)}


def _written(content: Bytes, path: str) -> Bytes:
    """Write a file. Return its path."""
    content.tofile(path)
    return np.frombuffer(path.encode(), np.uint8)


def _measure(name: str, files: Sequence[Bytes], others: Sequence[Bytes], rounds: int) -> dict[str, Any]:
    count = len(files)
    plain = make_pipeline(name, 0)
    epoch_cost(plain, others)
    times: dict[str, list[float]] = {key: [] for key in _TIMES}
    for _ in range(rounds):
        cached = make_pipeline(name, "4GB")
        epoch_cost(cached, others)  # its buffers, whose pages would cost as much as the cache
        times["without"].append(epoch_cost(plain, files))
        held = cached._internals.cache
        assert held is not None
        held.pages.wait()  # as when a server has started
        before = held.pages.seconds
        first = epoch_cost(cached, files)
        times["first"].append(first - (held.pages.seconds - before) / count * 1e6)
        times["second"].append(epoch_cost(cached, files))
        nbytes = held.report()["cache_bytes"] / (count + len(others))
        times["pages"].append(nbytes * held.pages.seconds / held.pages.done * 1e6)
        cached.close()
        known: dict[int, Any] = {}
        times["torch first"].append(_torch_cost(name, files, known))
        times["torch second"].append(_torch_cost(name, files, known))
    plain.close()
    rows = list(zip(*times.values(), strict=True))
    return {
        "pipeline": name,
        "bytes in the cache": round(nbytes),
        "microseconds": {key: round(statistics.median(each)) for key, each in times.items()},
        "speed of the second epoch": round(statistics.median(plain / second for plain, _, second, *_ in rows), 2),
        "beside torch with a cache": round(statistics.median(row[4] / row[2] for row in rows), 2),
    }


def make_pipeline(name: str, cache: Any) -> Pipeline:
    """Return a pipeline with a cache; see `PIPELINES`."""
    pipe = Pipeline(batch_size=_BATCH, num_threads=2, device_id=None, seed=1, cache=cache)
    with pipe:
        images = PIPELINES[name](fn.external_source(name="encoded"))
        draws: dict[str, Any] = {"mirror": fn.random.coin_flip(), "crop_pos_x": fn.random.uniform(range=(0, 1))}
        pipe.set_outputs(
            fn.crop_mirror_normalize(images, crop=(SIZE, SIZE), mean=MEAN, std=STD, dtype=types.FLOAT, **draws)
        )
    pipe.build()
    return pipe


def _orders(count: int) -> Iterator[list[int]]:
    order = torch.randperm(count).tolist()
    yield from (order[begin : begin + _BATCH] for begin in range(0, count, _BATCH))


def epoch_cost(pipe: Pipeline, files: Sequence[Bytes]) -> float:
    """Return the microseconds of processor time for an image in an epoch of shuffled files."""
    begin = time.process_time()
    for order in _orders(len(files)):
        pipe.run(encoded=[files[index] for index in order])
    return (time.process_time() - begin) / len(files) * 1e6


def _torch_cost(name: str, files: Sequence[Bytes], known: dict[int, Any]) -> float:
    """Return the cost of an epoch of torch with a dictionary of decoded images, on the training's process."""
    mean, scale = torch.tensor(MEAN).view(1, 3, 1, 1), 1 / torch.tensor(STD).view(1, 3, 1, 1)
    begin = time.process_time()
    for order in _orders(len(files)):
        batch = torch.empty((len(order), 3, SIZE, SIZE))
        for position, index in enumerate(order):
            if index not in known:
                content = np.fromfile(files[index].tobytes(), np.uint8) if name == "files" else files[index]
                decoded: Any = cv2.imdecode(content, cv2.IMREAD_COLOR)
                image = cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB)
                if name == "resized":
                    ratio = 256 / min(image.shape[:2])
                    image = cv2.resize(image, None, fx=ratio, fy=ratio, interpolation=cv2.INTER_AREA)
                known[index] = image
            batch[position] = cropped(known[index], name)
        batch.sub_(mean).mul_(scale)
    return (time.process_time() - begin) / len(files) * 1e6


def cropped(image: np.ndarray, name: str) -> torch.Tensor:
    """Return a random window of an image, CHW."""
    height, width = image.shape[:2]
    if name != "resized":
        x, y, width, height = random_window(width, height)
        window = torch.from_numpy(image[y : y + height, x : x + width]).permute(2, 0, 1)[None]
        return functional.interpolate(window, (SIZE, SIZE), mode="bilinear", antialias=True)[0]
    x, y = int(np.random.default_rng().integers(width - SIZE + 1)), (height - SIZE) // 2
    return torch.from_numpy(image[y : y + SIZE, x : x + SIZE]).permute(2, 0, 1)
