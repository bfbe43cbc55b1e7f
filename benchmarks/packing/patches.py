"""Patches per second from JPEG files or pixels: our operators and the image processors of transformers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import torch

from benchmarks.packing.samples import GRID, draw_images
from pipeline import Pipeline, fn, pipeline_def, types

__all__ = ["measure_patches"]

_MEAN, _STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
_BYTES = {"mean": [255 * value for value in _MEAN], "std": [255 * value for value in _STD]}


def measure_patches(device: str, threads: int, seconds: float, batch_size: int = 32) -> dict[str, Any]:
    """Return patches per second of each way, from files and from pixels; a way that can't run says why.

    Args:
        device: "cpu", or "cuda:0".
        threads: threads of the CPU.
        seconds: how long each is measured.
        batch_size: images of a batch.
    """
    torch.set_num_threads(threads)
    files = draw_images(4 * batch_size)
    batches = [files[begin : begin + batch_size] for begin in range(0, len(files), batch_size)]
    result: dict[str, Any] = {"device": device, "threads": threads, "batch_size": batch_size}
    for source in ("jpeg", "pixels"):
        ways: dict[str, Callable[[], Any]] = {
            "dali_proxy": lambda source=source: _ours(device, threads, batch_size, source)
        }
        for place in dict.fromkeys(("cpu", device)):
            ways[f"torch {place}"] = lambda source=source, place=place: _torch(place, source)
            ways[f"transformers {place}"] = lambda source=source, place=place: _theirs(place, source)
        for name, make in ways.items():
            try:
                result[f"{source}: {name}"] = _rate(make(), _inputs(batches, source), device, seconds)
            except Exception as error:  # noqa: BLE001  # a rival that isn't installed, or can't run here
                result[f"{source}: {name}"] = f"{type(error).__name__}: {error}"[:200]
        ours = result[f"{source}: dali_proxy"]
        for rival in ("torch", "transformers"):
            rates = [rate for key, rate in result.items() if key.startswith(f"{source}: {rival} ")]
            known = [rate for rate in rates if isinstance(rate, int)]
            if known and isinstance(ours, int):
                result[f"{source}: times the fastest of {rival}"] = round(ours / max(known), 2)
    return result


def _inputs(batches: Sequence[Sequence[bytes]], source: str) -> list[list[Any]]:
    if source == "jpeg":
        return [[np.frombuffer(file, np.uint8) for file in batch] for batch in batches]
    return [[_decoded(np.frombuffer(file, np.uint8)) for file in batch] for batch in batches]


def _decoded(file: np.ndarray) -> np.ndarray:
    image = cv2.imdecode(file, cv2.IMREAD_COLOR_RGB)
    assert image is not None
    return image


def _rate(run: Callable[[list[Any]], int], batches: list[list[Any]], device: str, seconds: float) -> int:
    for batch in batches:  # warms up
        run(batch)
    _wait(device)
    patches, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for batch in batches:
            patches += run(batch)
        _wait(device)
    return round(patches / (time.perf_counter() - begin))


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def _ours(device: str, threads: int, batch_size: int, source: str) -> Callable[[list[Any]], int]:
    gpu = device != "cpu"

    @pipeline_def(
        batch_size=batch_size, num_threads=threads, device_id=torch.device(device).index or 0 if gpu else None
    )
    def graph() -> Any:
        data = fn.external_source(name="images", layout="HWC" if source == "pixels" else None, no_copy=True)
        if source == "jpeg":
            data = fn.decoders.image(data, device="mixed" if gpu else "cpu")
        elif gpu:
            data = data.gpu()
        data = fn.smart_resize(data, interp_type=types.INTERP_CUBIC, **GRID.resizing)
        return fn.patchify(data, **GRID.patching, **_BYTES)

    pipe: Pipeline = graph()
    pipe.build()

    def run(batch: list[Any]) -> int:
        pipe.feed_input("images", batch)
        (patches,) = pipe.run()
        return sum([shape[0] for shape in patches.shape()])

    return run


def _torch(device: str, source: str) -> Callable[[list[Any]], int]:
    """Do what the processor does, in torch alone, for machines without transformers or torchvision."""
    mean, std = (torch.tensor(_BYTES[name], device=device)[:, None, None] for name in ("mean", "std"))
    size, merge, frames = GRID.patch_size, GRID.merge_size, GRID.temporal_patch_size

    def patches_of(image: torch.Tensor) -> torch.Tensor:
        _, rows, columns = GRID.thw(image.shape[1], image.shape[2])
        pixels = torch.nn.functional.interpolate(
            image[None].float(), (rows * size, columns * size), mode="bicubic", antialias=True
        )
        pixels = (pixels.round().clamp(0, 255) - mean) / std
        squares = pixels.expand(frames, -1, -1, -1).reshape(
            frames, 3, rows // merge, merge, size, columns // merge, merge, size
        )
        return squares.permute(2, 5, 3, 6, 1, 0, 4, 7).reshape(rows * columns, -1)

    def run(batch: list[Any]) -> int:
        images = [_decoded(file) for file in batch] if source == "jpeg" else batch
        tensors = [torch.from_numpy(image).to(device).permute(2, 0, 1) for image in images]
        return len(torch.cat([patches_of(image) for image in tensors]))

    return run


def _theirs(device: str, source: str) -> Callable[[list[Any]], int]:
    from torchvision.io import decode_jpeg
    from transformers import Qwen2VLImageProcessor

    processor = Qwen2VLImageProcessor(min_pixels=GRID.min_pixels, max_pixels=GRID.max_pixels)

    def run(batch: list[Any]) -> int:
        if source == "jpeg":
            images = [decode_jpeg(torch.from_numpy(file.copy())) for file in batch]
        else:
            images = [torch.from_numpy(image).permute(2, 0, 1) for image in batch]
        return len(processor(images, device=device, return_tensors="pt")["pixel_values"])

    return run
