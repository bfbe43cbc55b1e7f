"""Rivals that `benchmarks.gpu.video` compares: each runs in a separate process, which calls `answer`."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.gpu.video_clips import LENGTH, Videos

RIVALS = {
    "ours-by-hand": ("cupy", "read_frames of dali_proxy/pipeline/_video, one decoder per thread"),
    "ours-reader": ("cupy", "fn.readers.video, num_threads"),
    "torchcodec": ("torchcodec", "VideoDecoder.get_frames_in_range, one decoder and one stream per thread"),
    "pynvvideocodec": ("PyNvVideoCodec", "SimpleDecoder, one decoder and one stream per thread"),
    "dali": ("nvidia.dali", "fn.readers.video, num_threads, which its decoder doesn't use"),
    "ffmpeg-alone": ("av", "NVDEC by PyAV, frames discarded, in order only"),
    "ffmpeg-unsafe": ("av", "the same with hwaccel_flags=unsafe_output"),
    "ours-cpu": ("av", "read_frames on the CPU, one decoder per thread"),
}
"""The rivals: the module that each needs, and its description."""

PATIENCE = 20.0
"""Seconds in which all threads of a measurement must have read one sequence."""

Answer = dict[str, float]


def missing(rival: str) -> str | None:
    """Return why a rival can't take part here, or None if it can be tried."""
    module = RIVALS[rival][0]
    try:
        return None if importlib.util.find_spec(module) is not None else f"{module} isn't installed"
    except ImportError:
        return f"{module} isn't installed"


def answer(rival: str, device_id: int | None, question: str, *arguments: Any) -> Any:
    """Call a rival in this process.

    Args:
        rival: Name of the rival.
        device_id: The GPU, None to try the code on the CPU.
        question: "check" or "rate".
        arguments: Arguments of that method.
    """
    return getattr(_reader(rival, device_id), question)(*arguments)


class Reader(ABC):
    """One rival and its open resources.

    Args:
        device_id: The GPU, None for the CPU.
    """

    def __init__(self, device_id: int | None) -> None:
        self.device_id = device_id

    @abstractmethod
    def first(self, videos: Videos, sequence: int) -> Any:
        """Return a sequence of the first video, FHWC and uint8, in any memory; None if the rival returns no pixels."""

    @abstractmethod
    def run(self, videos: Videos, threads: int, shuffle: bool, seconds: float) -> Answer:
        """Read for the given time. Return frames, seconds, and the seconds until the rival was ready."""

    def check(self, videos: Videos) -> dict[str, float] | None:
        """Compare frames with those of the CPU; return the mean and the largest difference, of 255."""
        made = [self.first(videos, sequence) for sequence in (0, 2)]
        if any(one is None for one in made):
            return None
        differences = []
        for sequence, one in zip((0, 2), made, strict=True):
            theirs = _on_cpu(one)[:, ::8].astype(np.int16)
            truth = _truth(videos.paths[0], sequence)[:, ::8].astype(np.int16)
            if theirs.shape != truth.shape:
                raise ValueError(f"sequences are {theirs.shape}, not {truth.shape}")
            differences.append(np.abs(theirs - truth))
        return {"mean": float(np.mean(differences)), "max": float(np.max(differences))}

    def rate(self, videos: Videos, threads: int, shuffle: bool, seconds: float, beside: str = "") -> Answer:
        """Measure frames per second.

        Args:
            videos: Videos to read.
            threads: Number of reading threads.
            shuffle: Whether to read sequences in random order.
            seconds: Duration.
            beside: Stream of concurrent training, "default" or "its own"; empty for none.
        """
        with _training(beside) if beside else nullcontext(lambda: (0.0, 0.0)) as steps:
            begin = time.process_time()
            measured = self.run(videos, threads, shuffle, seconds)
            cores = (time.process_time() - begin) / (measured["seconds"] + measured["opening"])
            alone, along = steps()
            return {
                "rate": measured["frames"] / measured["seconds"],
                "opening": measured["opening"],
                "cores": cores,
                "steps": along,
                "steps_alone": alone,
            }


class ByHand(Reader):
    """Threads that each read sequences of one video."""

    def __init__(self, device_id: int | None) -> None:
        super().__init__(device_id)
        self._readers: dict[str, Callable[[int], Any]] = {}

    @abstractmethod
    def open(self, path: str) -> Callable[[int], Any]:
        """Return a function that reads a sequence of a video, on one thread at a time."""

    def finish(self) -> None:
        """Wait until all frames have arrived."""

    def first(self, videos: Videos, sequence: int) -> Any:
        made = self._of(videos.paths[0])(sequence)
        self.finish()
        return made

    def run(self, videos: Videos, threads: int, shuffle: bool, seconds: float) -> Answer:
        begun: list[float] = []
        barrier = threading.Barrier(threads, lambda: begun.append(time.perf_counter()), PATIENCE)
        frames = [0] * threads
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                read = self._of(videos.paths[number % len(videos.paths)])
                order = list(range(videos.sequences))
                if shuffle:
                    random.Random(number).shuffle(order)
                read(order[-1])
                barrier.wait()
                for sequence in itertools.cycle(order):
                    read(sequence)
                    frames[number] += LENGTH
                    if time.perf_counter() - begun[0] > seconds:
                        return
            except BaseException as error:  # noqa: BLE001  # the caller raises it again
                errors.append(error)
                barrier.abort()

        started = time.perf_counter()
        workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if errors:
            raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
        self.finish()
        return {
            "frames": sum(frames),
            "seconds": time.perf_counter() - begun[0],
            "opening": begun[0] - started,
        }

    def _of(self, path: str) -> Callable[[int], Any]:
        if path not in self._readers:
            self._readers[path] = self.open(path)
        return self._readers[path]


class ByPipeline(Reader):
    """A pipeline, which has its own threads and its own order."""

    @abstractmethod
    def make(self, videos: Videos, threads: int, shuffle: bool) -> Any:
        """Return a built pipeline, whose batches have one sequence per thread."""

    def first(self, videos: Videos, sequence: int) -> Any:
        with _closed(self.make(videos, 1, False)) as pipe:
            for _ in range(sequence + 1):
                (made,) = pipe.run()
            return np.array(made.as_cpu().at(0))

    def run(self, videos: Videos, threads: int, shuffle: bool, seconds: float) -> Answer:
        started = time.perf_counter()
        with _closed(self.make(videos, threads, shuffle)) as pipe:
            for _ in range(4):  # more than the pipeline prefetches
                pipe.run()
            begun, frames = time.perf_counter(), 0
            while not frames or time.perf_counter() - begun < seconds:
                (made,) = pipe.run()
                frames += len(made) * LENGTH
            return {"frames": frames, "seconds": time.perf_counter() - begun, "opening": begun - started}


class OursByHand(ByHand):
    """`read_frames` with cached decoders."""

    def __init__(self, device_id: int | None) -> None:
        from dali_proxy.pipeline._cuda.context import KernelContext
        from dali_proxy.pipeline._video.frames import Decoders

        super().__init__(device_id)
        self._kernels = None if device_id is None else KernelContext(device_id)
        self._decoders = Decoders(64)

    def open(self, path: str) -> Callable[[int], Any]:
        from dali_proxy.pipeline._video.clip import Clip
        from dali_proxy.pipeline._video.frames import read_frames
        from dali_proxy.pipeline._video.targets import target_for
        from pipeline.types import RGB

        clip = Clip(path, self.device_id)

        def read(sequence: int) -> Any:
            frames = range(sequence * LENGTH, (sequence + 1) * LENGTH)
            return read_frames(clip, frames, target_for(clip, RGB, self._kernels), self._decoders)

        return read


class OursOnCpu(OursByHand):
    """`read_frames` without a GPU."""

    def __init__(self, device_id: int | None) -> None:
        super().__init__(None)


class OursReader(ByPipeline):
    """`fn.readers.video`."""

    def make(self, videos: Videos, threads: int, shuffle: bool) -> Any:
        from pipeline import Pipeline, fn

        device = "cpu" if self.device_id is None else "gpu"
        with Pipeline(batch_size=threads, num_threads=threads, device_id=self.device_id, seed=1) as pipe:
            pipe.set_outputs(_video_reader(fn, videos, device, shuffle))
        pipe.build()
        return pipe


class Dali(ByPipeline):
    """NVIDIA DALI's `fn.readers.video`."""

    def make(self, videos: Videos, threads: int, shuffle: bool) -> Any:
        from nvidia.dali import Pipeline, fn

        pipe = Pipeline(batch_size=threads, num_threads=threads, device_id=self.device_id or 0, seed=1)
        with pipe:
            pipe.set_outputs(_video_reader(fn, videos, "gpu", shuffle))
        pipe.build()
        return pipe


class TorchCodec(ByHand):
    """torchcodec's decoder on the GPU."""

    def open(self, path: str) -> Callable[[int], Any]:
        _load_nvrtc()
        from torchcodec.decoders import VideoDecoder

        device = "cpu" if self.device_id is None else f"cuda:{self.device_id}"
        stream = _torch_stream(self.device_id)
        decoder = VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=1, device=device)

        def read(sequence: int) -> Any:
            with stream():
                return decoder.get_frames_in_range(sequence * LENGTH, (sequence + 1) * LENGTH).data

        return read

    def finish(self) -> None:
        _synchronize(self.device_id)


class PyNvVideoCodec(ByHand):
    """NVIDIA's Python binding of its decoder."""

    def open(self, path: str) -> Callable[[int], Any]:
        import PyNvVideoCodec as nvc
        import torch

        stream = torch.cuda.Stream(self.device_id)
        decoder = nvc.SimpleDecoder(
            path,
            gpu_id=self.device_id,
            cuda_stream=stream.cuda_stream,
            use_device_memory=True,
            output_color_type=nvc.OutputColorType.RGB,
        )

        def read(sequence: int) -> Any:
            frames = decoder.get_batch_frames_by_index(list(range(sequence * LENGTH, (sequence + 1) * LENGTH)))
            with torch.cuda.stream(stream):
                return torch.stack([torch.from_dlpack(frame) for frame in frames])

        return read

    def finish(self) -> None:
        _synchronize(self.device_id)


class FfmpegAlone(ByHand):
    """FFmpeg's frames in order, for any requested sequence."""

    options: ClassVar[dict[str, str]] = {}

    def open(self, path: str) -> Callable[[int], Any]:
        import av

        from dali_proxy.pipeline._video.nvdec import acceleration, cuda_current

        hardware = None if self.device_id is None else acceleration(self.device_id)
        with nullcontext() if self.device_id is None else cuda_current(self.device_id):
            container = av.open(path, hwaccel=hardware)
        stream = container.streams.video[0]
        stream.codec_context.options = self.options
        stream.codec_context.thread_count = 1

        def forever() -> Iterator[Any]:
            while True:
                container.seek(0, stream=stream)
                yield from container.decode(stream)

        frames = forever()

        def read(sequence: int) -> None:
            for _ in range(LENGTH):
                next(frames)

        return read

    def first(self, videos: Videos, sequence: int) -> None:
        return None


class FfmpegWithoutCopies(FfmpegAlone):
    """Frames that stay in NVDEC's memory."""

    options: ClassVar[dict[str, str]] = {"hwaccel_flags": "+unsafe_output"}


_READERS: dict[str, type[Reader]] = {
    "ours-by-hand": OursByHand,
    "ours-reader": OursReader,
    "torchcodec": TorchCodec,
    "pynvvideocodec": PyNvVideoCodec,
    "dali": Dali,
    "ffmpeg-alone": FfmpegAlone,
    "ffmpeg-unsafe": FfmpegWithoutCopies,
    "ours-cpu": OursOnCpu,
}


@cache
def _reader(rival: str, device_id: int | None) -> Reader:
    if device_id is not None:
        import torch

        torch.cuda.init()
    return _READERS[rival](device_id)


def _video_reader(fn: Any, videos: Videos, device: str, shuffle: bool) -> Any:
    """Call our reader or NVIDIA's with the same arguments."""
    return fn.readers.video(
        device=device,
        filenames=list(videos.paths),
        sequence_length=LENGTH,
        random_shuffle=shuffle,
        initial_fill=16,
        name="Reader",
    )


@contextmanager
def _closed(pipe: Any) -> Iterator[Any]:
    """Close a pipeline if it has `close`; NVIDIA's doesn't."""
    try:
        yield pipe
    finally:
        if hasattr(pipe, "close"):
            pipe.close()


def _truth(path: str, sequence: int) -> Any:
    """Return a sequence from our decoder on the CPU, which the tests compare with FFmpeg's frames."""
    from dali_proxy.pipeline._video.clip import Clip
    from dali_proxy.pipeline._video.frames import Decoders, read_frames
    from dali_proxy.pipeline._video.targets import target_for
    from pipeline.types import RGB

    clip = Clip(path)
    frames = range(sequence * LENGTH, (sequence + 1) * LENGTH)
    return read_frames(clip, frames, target_for(clip, RGB, None), Decoders(0))


def _on_cpu(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        return array
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


def _load_nvrtc() -> None:
    """Load the library that torchcodec needs and that PyTorch loads only when it compiles something."""
    import torch  # noqa: F401  torchcodec needs its libraries, too

    found = [str(path) for entry in sys.path for path in Path(entry or ".").glob("nvidia/*/lib/libnvrtc.so.1[0-9]")]
    for name in [*found, "libnvrtc.so.13", "libnvrtc.so.12"]:
        try:
            ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
            return
        except OSError:
            continue


def _torch_stream(device_id: int | None) -> Callable[[], Any]:
    if device_id is None:
        return nullcontext
    import torch

    stream = torch.cuda.Stream(device_id)
    return lambda: torch.cuda.stream(stream)


def _synchronize(device_id: int | None) -> None:
    if device_id is not None:
        import torch

        torch.cuda.synchronize(device_id)


@contextmanager
def _training(stream: str) -> Iterator[Callable[[], tuple[float, float]]]:
    """Keep the GPU busy on a stream with steps of about 10 ms, two in flight.

    Yield a function that returns steps per second: alone, and since then.
    """
    import torch

    weights = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    on = torch.cuda.default_stream() if stream == "default" else torch.cuda.Stream()
    stopped = threading.Event()
    steps = [0]

    def train() -> None:
        flying = []
        with torch.cuda.stream(on):
            while not stopped.is_set():
                for _ in range(7):
                    torch.matmul(weights, weights)
                flying.append(torch.cuda.Event(blocking=True))
                flying[-1].record()
                if len(flying) > 2:
                    flying.pop(0).synchronize()
                    steps[0] += 1

    thread = threading.Thread(target=train, daemon=True)
    thread.start()
    try:
        time.sleep(0.2)  # the first steps build plans
        before, begin = steps[0], time.perf_counter()
        time.sleep(0.3)
        alone, second, after = (steps[0] - before) / (time.perf_counter() - begin), time.perf_counter(), steps[0]
        yield lambda: (alone, (steps[0] - after) / (time.perf_counter() - second))
    finally:
        stopped.set()
        thread.join()
        torch.cuda.synchronize()
