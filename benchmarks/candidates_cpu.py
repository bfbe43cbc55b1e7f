"""Measure the libraries that the CPU primitives could use: ``python -m benchmarks.candidates_cpu``.

Use one core with the images and windows of the workload, then two threads on separate cores, which shows whether a
candidate holds the GIL. `benchmarks/results/2026-11-21-imaging-candidates.md` has the results.
"""

from __future__ import annotations

import io
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

# Set before NumPy is imported, so that each candidate uses one core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import cv2
import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image

from benchmarks.crop import random_window
from benchmarks.workload import IMAGE_SIZE, MEAN, STD, prepare_images
from dali_proxy.pipeline._imaging import crop_mirror_normalize, decode, resize

IMAGES = 200
ROUNDS = 3
SIDE = (IMAGE_SIZE, IMAGE_SIZE)
GAIN = np.array([1 / value for value in STD], np.float32)
BIAS = np.array([-mean / std for mean, std in zip(MEAN, STD, strict=True)], np.float32)

Array = npt.NDArray[Any]
Candidate = Callable[[int], Any]


class Workload:
    """Encoded images, their pixels, a random window of each, and the window resized to 224 by 224."""

    def __init__(self) -> None:
        random.seed(0)
        paths = sorted(prepare_images().glob("*.jpg"))[:IMAGES]
        self.encoded = [path.read_bytes() for path in paths]
        self.images = [simplejpeg.decode_jpeg(data) for data in self.encoded]
        self.windows = [random_window(image.shape[1], image.shape[0]) for image in self.images]
        self.crops = [
            image[y : y + h, x : x + w] for image, (x, y, w, h) in zip(self.images, self.windows, strict=True)
        ]
        self.small = [resize(crop, SIDE) for crop in self.crops]
        self.outputs = np.zeros((IMAGES, 3, *SIDE), np.float32)


def decoders(work: Workload) -> dict[str, Candidate]:
    arrays = [np.frombuffer(data, np.uint8) for data in work.encoded]
    found: dict[str, Candidate] = {
        "simplejpeg": lambda i: simplejpeg.decode_jpeg(work.encoded[i]),
        "simplejpeg, fast DCT": lambda i: simplejpeg.decode_jpeg(work.encoded[i], fastdct=True),
        "simplejpeg, fast DCT and upsampling": lambda i: simplejpeg.decode_jpeg(
            work.encoded[i], fastdct=True, fastupsample=True
        ),
        "simplejpeg at half size": lambda i: simplejpeg.decode_jpeg(work.encoded[i], min_factor=2, min_height=1),
        "cv2.imdecode": lambda i: cv2.imdecode(arrays[i], cv2.IMREAD_COLOR_RGB),
        "pillow": lambda i: np.asarray(Image.open(io.BytesIO(work.encoded[i]))),
        "pipeline: decode, a region": lambda i: decode(arrays[i], region=_region(work.windows[i])),
    }
    try:
        from nvidia import nvimgcodec
    except ImportError:
        return found
    local = threading.local()

    def decoder() -> Any:
        if not hasattr(local, "decoder"):
            local.decoder = nvimgcodec.Decoder(
                device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY,
                max_num_cpu_threads=1,
                backends=[nvimgcodec.Backend(nvimgcodec.CPU_ONLY)],
            )
        return local.decoder

    def region(i: int) -> Array:
        x, y, w, h = work.windows[i]
        part = nvimgcodec.Region(y, x, y + h, x + w)
        return np.asarray(decoder().decode(nvimgcodec.CodeStream(arrays[i]).get_sub_code_stream(0, part)))

    found["nvImageCodec on the CPU"] = lambda i: np.asarray(decoder().decode(nvimgcodec.CodeStream(arrays[i])))
    found["nvImageCodec on the CPU, a region"] = region
    return found


def _region(window: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    x, y, width, height = window
    return y, x, height, width


def resizers(work: Workload) -> dict[str, Candidate]:
    def opencv(interpolation: int) -> Candidate:
        return lambda i: cv2.resize(work.crops[i], SIDE, interpolation=interpolation)

    def banded(i: int) -> Array:
        """Sum gathered rows, one tap at a time: the usual way to write separable resampling in NumPy."""
        pixels = work.crops[i].astype(np.float32)
        for extent in pixels.shape[:2]:
            scale = extent / IMAGE_SIZE
            reach = max(1.0, scale)
            centers = (np.arange(IMAGE_SIZE) + 0.5) * scale
            taps = np.floor(centers - reach - 0.5).astype(int)[:, None] + np.arange(int(np.ceil(2 * reach)) + 2)
            weights = np.maximum(0, 1 - np.abs(taps + 0.5 - centers[:, None]) / reach).astype(np.float32)
            weights /= weights.sum(axis=1, keepdims=True)
            np.clip(taps, 0, extent - 1, out=taps)
            rows = pixels.reshape(extent, -1)
            total = rows[taps[:, 0]] * weights[:, :1]
            for tap in range(1, taps.shape[1]):
                total += rows[taps[:, tap]] * weights[:, tap, None]
            pixels = np.ascontiguousarray(total.reshape(IMAGE_SIZE, *pixels.shape[1:]).transpose(1, 0, 2))
        return cv2.convertScaleAbs(pixels)

    return {
        "pillow, BILINEAR (antialiased)": lambda i: np.asarray(
            Image.fromarray(work.crops[i]).resize(SIDE, Image.Resampling.BILINEAR)
        ),
        "NumPy, tap by tap (antialiased)": banded,
        "pipeline: resize (antialiased)": lambda i: resize(work.crops[i], SIDE),
        "cv2.INTER_LINEAR (not antialiased)": opencv(cv2.INTER_LINEAR),
        "cv2.INTER_AREA (another filter)": opencv(cv2.INTER_AREA),
        "cv2.INTER_CUBIC (not antialiased)": opencv(cv2.INTER_CUBIC),
    }


def normalizers(work: Workload) -> dict[str, Candidate]:
    tables = np.ascontiguousarray((np.arange(256, dtype=np.float32)[:, None] * GAIN + BIAS).reshape(1, 256, 3))
    local = threading.local()
    gains, offsets = [float(value) for value in GAIN], [float(value) for value in BIAS]

    def split(i: int) -> Array:
        if not hasattr(local, "planes"):
            local.planes = np.empty((3, *SIDE), np.uint8)
            local.floats = np.empty((*SIDE, 3), np.float32)
        cv2.split(work.small[i], list(local.planes))
        planes: Array = local.planes
        return planes

    def broadcast(i: int) -> None:
        work.outputs[i] = (work.small[i].astype(np.float32) * GAIN + BIAS).transpose(2, 0, 1)

    def by_planes(i: int) -> None:
        for channel in range(3):
            out = work.outputs[i, channel]
            np.multiply(work.small[i][:, :, channel], GAIN[channel], out=out, dtype=np.float32)
            out += BIAS[channel]

    def split_numpy(i: int) -> None:
        for channel, plane in enumerate(split(i)):
            out = work.outputs[i, channel]
            np.copyto(out, plane)
            out *= GAIN[channel]
            out += BIAS[channel]

    def split_weighted(i: int) -> None:
        for channel, plane in enumerate(split(i)):
            out = work.outputs[i, channel]
            cv2.addWeighted(plane, gains[channel], plane, 0.0, offsets[channel], dst=out, dtype=cv2.CV_32F)

    def split_table(i: int) -> None:
        for channel, plane in enumerate(split(i)):
            cv2.LUT(plane, np.ascontiguousarray(tables[:, :, channel]), dst=work.outputs[i, channel])

    def table_split(i: int) -> None:
        split(i)
        cv2.LUT(work.small[i], tables, dst=local.floats)
        cv2.split(local.floats, list(work.outputs[i]))

    def blob(i: int) -> None:
        work.outputs[i] = cv2.dnn.blobFromImage(work.small[i], gains[0], SIDE, MEAN)[0]

    def ours(i: int, mirror: bool = False) -> None:
        crop_mirror_normalize(work.small[i], work.outputs[i], scale=gains, bias=offsets, mirror=mirror)

    return {
        "NumPy, broadcast and transpose": broadcast,
        "NumPy, plane by plane": by_planes,
        "cv2.split, NumPy": split_numpy,
        "cv2.split, cv2.addWeighted": split_weighted,
        "cv2.split, cv2.LUT": split_table,
        "cv2.LUT, cv2.split": table_split,
        "cv2.dnn.blobFromImage (one std)": blob,
        "pipeline: crop_mirror_normalize": ours,
        "pipeline: the same, mirrored": lambda i: ours(i, True),
    }


def chains(work: Workload) -> dict[str, Candidate]:
    arrays = [np.frombuffer(data, np.uint8) for data in work.encoded]

    def ours(i: int) -> None:
        pixels = resize(decode(arrays[i], region=_region(work.windows[i])), SIDE)
        crop_mirror_normalize(pixels, work.outputs[i], scale=GAIN.tolist(), bias=BIAS.tolist(), mirror=i % 2 == 1)

    def pillow(i: int) -> None:
        x, y, w, h = work.windows[i]
        image = Image.open(io.BytesIO(work.encoded[i])).resize(SIDE, Image.Resampling.BILINEAR, (x, y, x + w, y + h))
        pixels = np.asarray(image)[:, :: -1 if i % 2 else 1].astype(np.float32)
        work.outputs[i] = (pixels * GAIN + BIAS).transpose(2, 0, 1)

    return {"pipeline: decode, resize, normalise": ours, "pillow and NumPy": pillow}


def seconds_alone(candidate: Candidate) -> float:
    os.sched_setaffinity(0, {min(CORES)})
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for index in range(IMAGES):
            candidate(index)
        best = min(best, time.perf_counter() - start)
    os.sched_setaffinity(0, CORES)
    return best / IMAGES


def seconds_on_two_threads(candidate: Candidate) -> float:
    def work(core: int, half: int) -> None:
        os.sched_setaffinity(0, {core})
        candidate(half)
        ready.wait()
        for index in range(half * IMAGES // 2, (half + 1) * IMAGES // 2):
            candidate(index)

    best = float("inf")
    for _ in range(ROUNDS):
        ready = threading.Barrier(3)
        threads = [threading.Thread(target=work, args=pair) for pair in zip(sorted(CORES)[:2], (0, 1), strict=True)]
        for thread in threads:
            thread.start()
        ready.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        best = min(best, time.perf_counter() - start)
    return best / IMAGES


CORES = os.sched_getaffinity(0)


def main() -> None:
    cv2.setNumThreads(1)
    work = Workload()
    tables = {"Decode": decoders, "Resize": resizers, "Normalise": normalizers, "All three": chains}
    for title, family in tables.items():
        print(f"\n| {title} | µs per image | images/s | gain of a second thread |\n| --- | --- | --- | --- |")
        for name, candidate in family(work).items():
            alone = seconds_alone(candidate)
            gain = f"{alone / seconds_on_two_threads(candidate):.2f}" if len(CORES) > 1 else "-"
            print(f"| {name} | {alone * 1e6:.0f} | {1 / alone:.0f} | {gain} |")


if __name__ == "__main__":
    main()
