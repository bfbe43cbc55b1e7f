"""Decodes groups of pictures of several videos with NVDEC, and converts their frames together."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.streams import new_stream
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.contexts import Contexts
from dali_proxy.pipeline._video.elementary_stream import ElementaryStream, stream_of
from dali_proxy.pipeline._video.gpu_pixels import plan_pixels
from dali_proxy.pipeline._video.nvdec import cuda_current
from dali_proxy.pipeline._video.nvdec_session import DamageError, MappedFrame, NvdecError, NvdecSession
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.types import DALIImageType

AT_ONCE = 12
"""Groups that are decoded together: each has a session of NVDEC, and its surfaces."""

_STREAMS = 8  # frames of one stream are mapped one after another
_log = logging.getLogger("dali_proxy")


class Burst:
    """A group of pictures that is decoded together with others.

    Args:
        clip: its video, for which `supports` holds.
        wanted: numbers of the frames, in ascending order.
        first: the frame where decoding begins.
        output: color space of the pixels.

    Attributes:
        pixels: the decoded frames by number, HWC each.
        decoded: number of frames that NVDEC decoded.
        failed: whether NVDEC couldn't decode the group in this way.
        damaged: whether its data seems to be damaged.
    """

    def __init__(self, clip: Clip, wanted: Sequence[int], first: int, output: DALIImageType) -> None:
        self.clip, self.wanted, self.first, self.output = clip, wanted, first, output
        self.pixels: dict[int, Any] = {}
        self.decoded = 0
        self.failed = self.damaged = False


class BurstDecoder:
    """Decodes bursts. Any thread may use it.

    NVDEC works beside the GPU's other work, but copying a frame from its surface, and converting it, doesn't: the GPU
    divides its time between processes, and each time that a server's process has work costs a training in another
    process about 0.35 ms. With a few, large bursts this is rare.
    """

    def __init__(self) -> None:
        self._sessions = Contexts(AT_ONCE, NvdecSession.close)
        self._streams: list[Any] = []

    @staticmethod
    def supports(clip: Clip, first: int) -> bool:
        """Return whether a group that begins with a frame can be decoded in this way."""
        return _stream(clip) is not None and clip.table is not None and clip.table.start(first) is not None

    def decode(self, bursts: Sequence[Burst], kernels: KernelContext) -> None:
        """Decode up to `AT_ONCE` bursts into their attributes."""
        with cuda_current(kernels.device_id):
            runs = [_Run(burst, self._sessions, kernels.device_id) for burst in bursts]
            rest = runs
            try:
                while rest:
                    feeding = rest
                    while feeding:  # in turn, so that all decoders of the GPU have work
                        feeding = [run for run in feeding if run.feed()]
                    self._convert(rest, kernels)
                    rest = [run for run in rest if not run.ended]
            finally:
                for run in runs:
                    run.close(self._sessions)

    def close(self) -> None:
        """End idle sessions."""
        self._sessions.close()
        self._streams = []

    def _convert(self, runs: Sequence[_Run], kernels: KernelContext) -> None:
        """Map the frames that wait, and convert them to pixels."""
        import cupy

        if not self._streams:
            self._streams = [new_stream() for _ in range(_STREAMS)]
        main, *others = self._streams
        kinds: dict[tuple[Any, ...], list[tuple[_Run, MappedFrame, Any]]] = {}
        for number, run in enumerate(runs):
            for frame in run.map(self._streams[number % _STREAMS]):
                encoding = run.burst.clip.encoding
                channels = 1 if run.burst.output is DALIImageType.GRAY else 3
                with cupy.cuda.Stream.null:  # whose memory the pool's frames have
                    out = cupy.empty((encoding.height, encoding.width, channels), np.uint8)
                kind = encoding.codec, encoding.bits > 8, run.burst.output
                kinds.setdefault(kind, []).append((run, frame, out))
        for stream in others:
            main.wait_event(stream.record())
        for (codec, deep, output), frames in kinds.items():
            luma, chroma = _planes(frames, np.dtype(np.uint16 if deep else np.uint8))
            colors = [run.colors for run, _, _ in frames]
            kernels.run(plan_pixels(luma, chroma, [out for _, _, out in frames], output, colors, codec), main)
        main.synchronize()
        for run in runs:
            run.unmap()
        for frames in kinds.values():
            for run, frame, out in frames:
                run.keep(frame, out)


class _Run:
    """A burst that is being decoded."""

    def __init__(self, burst: Burst, sessions: Contexts, device_id: int) -> None:
        self.burst, self.ended = burst, False
        self._session: Any = None
        clip, index = burst.clip, burst.clip.index
        self._packets: Iterator[Any] = iter(())
        self._numbers = {int(index.times[number]): number for number in burst.wanted}
        stream, table = _stream(clip), clip.table
        assert stream is not None  # see `BurstDecoder.supports`
        assert table is not None
        start = table.start(burst.first)
        assert start is not None
        self._stream = stream
        with self._failing():
            self._session = sessions.take(clip.encoding) or NvdecSession(device_id, clip.encoding)
            self._session.begin(stream.header, self._numbers)
            self._packets = table.packets(start, burst.wanted[-1], clip.read, index.time_base)

    def feed(self) -> bool:
        """Decode the next packet; return whether there is room for more."""
        with self._failing():
            packet = None if self.ended else next(self._packets, None)
            if packet is not None:
                self._session.feed(self._stream.part(bytes(packet)), packet.pts)
                return not self._session.is_full
            if not self.ended:
                self._session.end()
                self.ended = True
                self._check_shown()
        return False

    def map(self, stream: Any) -> list[MappedFrame]:
        """Return the frames that wait."""
        made: list[MappedFrame] = []
        if not self.burst.failed:
            with self._failing():
                made = self._session.map(stream)
        return made

    def unmap(self) -> None:
        """Let NVDEC use the surfaces again."""
        if self._session is not None:
            self._session.unmap()

    def keep(self, frame: MappedFrame, pixels: Any) -> None:
        """Keep the pixels of a frame."""
        self.burst.pixels[self._numbers[frame.time]] = pixels

    @property
    def colors(self) -> tuple[int, int]:
        """FFmpeg's numbers of the color space and the range."""
        colors: tuple[int, int] = self._session.colors
        return colors

    def close(self, sessions: Contexts) -> None:
        """Return the session for other videos, unless it failed."""
        session, self._session = self._session, None
        if self.burst.failed or not self.ended:
            self.burst.failed, self.burst.pixels = True, {}
            if session is not None:
                session.close()
        elif session is not None:
            self.burst.decoded = len(session.shown)
            sessions.give(self.burst.clip.encoding, session)

    def _check_shown(self) -> None:
        """Check that NVDEC showed each frame of the group once, in order: after a gap, pixels may be wrong."""
        times = self.burst.clip.index.times[self.burst.first : self.burst.wanted[-1] + 1].tolist()
        shown = [time for time in self._session.shown if times[0] <= time <= times[-1]]
        if shown != times:
            raise DamageError("it has other frames than its container says")

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Let the burst fail. FFmpeg decodes it then, or raises the error of a frame."""
        errors: tuple[type[Exception], ...] = (
            NvdecError, PipelineError, ValueError, OSError, *self.burst.clip.decoding_errors,
        )  # fmt: skip
        try:
            yield
        except errors as error:
            self.burst.failed = self.ended = True
            self.burst.damaged = isinstance(error, DamageError)
            _log.debug("%s isn't decoded together with others: %s", self.burst.clip.name, error)


def _planes(frames: Sequence[tuple[_Run, MappedFrame, Any]], dtype: np.dtype[Any]) -> tuple[Samples, Samples]:
    """Return the luma and chroma of mapped frames."""
    sizes = np.array([out.shape[:2] for _, _, out in frames], np.int64)
    halves = np.column_stack([sizes // 2, np.full(len(frames), 2)])
    addresses = np.array([frame.address for _, frame, _ in frames], np.int64)
    pitches = np.array([frame.pitch for _, frame, _ in frames], np.int64)
    steps = np.full((len(frames), 2), dtype.itemsize) * [2, 1]
    luma = Samples(addresses, sizes, np.column_stack([pitches, steps[:, 1]]), dtype)
    return luma, Samples(addresses + pitches * sizes[:, 0], halves, np.column_stack([pitches, steps]), dtype)


def _stream(clip: Clip) -> ElementaryStream | None:
    codec, details = clip.encoding.codec, clip.encoding.details
    return stream_of(codec, bytes(details[0])) if details and isinstance(details[0], bytes) else None
