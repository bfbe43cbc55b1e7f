"""The frames of videos that all batches of a process share: each group of pictures is decoded about once."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._remote.urls import is_url, local_path
from dali_proxy.pipeline._video.bursts import AT_ONCE, Burst, BurstDecoder
from dali_proxy.pipeline._video.clip import Clip, FileVersion
from dali_proxy.pipeline._video.frame_request import FrameRequest
from dali_proxy.pipeline._video.frames import Decoders, Target
from dali_proxy.pipeline._video.gpu_pixels import GpuPixels
from dali_proxy.pipeline._video.held_frames import HeldFrames
from dali_proxy.pipeline._video.nvdec import engines
from dali_proxy.pipeline._video.nvdec_queue import NvdecQueue
from dali_proxy.pipeline._video.pooled_video import Flight, PooledVideo
from dali_proxy.pipeline._video.selection import FILL
from dali_proxy.pipeline._video.targets import target_for
from dali_proxy.pipeline._video.uploaded_planes import UploadedPlanes
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.types import DALIImageType

_VIDEOS = 1024  # indexes of videos to keep
_DECODERS, _GPU_DECODERS = 32, 8  # open videos between two groups; on a GPU, each takes its memory
_LOOK_AHEAD = 256  # groups that known requests need, to look through for a burst
_SHARE = 4  # a group is decoded as a whole if it needs at most 1 / _SHARE of the pool

Frames = Mapping[tuple[PooledVideo, int], Any]
Run = Callable[[Callable[[int], None], int], Sequence[tuple[int, BaseException]]]
"""Calls a function for each index, on several threads; returns the exceptions."""


@dataclass
class PoolCounters:
    """Counters of pools.

    Attributes:
        video_decoded: frames that were decoded.
        video_used: frames that samples got.
        video_hits: those that were in the pool already.
        video_bytes: current size of the frames in the pool.
        video_limit: largest such size.
    """

    video_decoded: int = 0
    video_used: int = 0
    video_hits: int = 0
    video_bytes: int = 0
    video_limit: int = 0


@dataclass(eq=False)
class Ahead:
    """Requests that the pool knows of, until it is closed.

    Attributes:
        requests: the requests.
        closed: whether they were answered or dropped.
        counted: the videos and frames where they were counted, with their groups.
    """

    requests: Sequence[FrameRequest]
    announce_end: Callable[[Ahead], None]
    closed: bool = False
    counted: list[tuple[PooledVideo, Sequence[tuple[int, int]]]] = field(default_factory=list)

    def close(self) -> None:
        """Tell the pool that the requests were answered or dropped. Any thread may call this, several times."""
        if not self.closed:
            self.closed = True
            self.announce_end(self)


class VideoPool:
    """Decodes the frames that requests need, a group of pictures at a time, and holds them for later requests.

    A group is decoded completely if at least two known requests need frames of it; otherwise up to the last frame that
    the known request needs. Known requests are those of `announce`: those of the batch itself, and those that wait.
    NVDEC decodes several groups at once, also those that are needed next.
    """

    def __init__(self, device_id: int | None) -> None:
        self._device_id = device_id
        self._lock = new_lock(Level.VIDEO_POOL, "video pool")  # guards the fields below, and `PooledVideo`s
        self._videos: OrderedDict[tuple[str, DALIImageType], tuple[FileVersion | None, PooledVideo]] = OrderedDict()
        self._held = HeldFrames(0)
        self._decoders = Decoders(_DECODERS if device_id is None else _GPU_DECODERS)
        self._decoders_on_cores = Decoders(_DECODERS)  # of videos that NVDEC decodes, too
        self._bursts = BurstDecoder()
        self._queue = NvdecQueue()
        # Changes of the known requests, from any thread, without the lock.
        self._changes: deque[Ahead] = deque()
        #: Known requests for videos that no batch has needed yet, by source.
        self._waiting: dict[str, dict[FrameRequest, Ahead]] = {}
        #: Groups that known requests need, from those on that were known first.
        self._due: OrderedDict[tuple[PooledVideo, int], None] = OrderedDict()
        self._counters = PoolCounters()
        self._users = 0

    def open(self, limit: int) -> VideoPool:
        """Add a user, for which the pool may hold frames of at least so many bytes. Each user calls `close`."""
        with self._lock:
            self._users += 1
            self._held.limit = max(self._held.limit, limit)
        return self

    def counters(self) -> PoolCounters:
        """Return a copy of the counters."""
        with self._lock:
            return replace(self._counters, video_bytes=self._held.nbytes, video_limit=self._held.limit)

    def close(self) -> None:
        """Remove a user. With the last one, close the videos and drop the frames; the pool can be opened again."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            self._videos.clear()
            self._held, self._counters, self._queue = HeldFrames(0), PoolCounters(), NvdecQueue()
            self._waiting.clear()
            self._due.clear()
            self._changes.clear()
        self._decoders.close()
        self._decoders_on_cores.close()
        self._bursts.close()

    def announce(self, requests: Sequence[FrameRequest]) -> Ahead:
        """Let the pool know of requests. This takes no time; close the result when they were answered or dropped."""
        ahead = Ahead(requests, self._changes.append)
        self._changes.append(ahead)
        return ahead

    def video(self, source: str, output: DALIImageType) -> PooledVideo:
        """Return a video. A file that was replaced or changed is another video.

        Raises:
            PipelineError: the file can't be read.
        """
        version = None
        if not is_url(source):
            try:
                version = FileVersion.of(os.stat(local_path(source)))
            except (OSError, ValueError) as error:
                raise PipelineError(f"can't read the file {source!r}: {getattr(error, 'strerror', error)}") from error
        key = source, output
        with self._lock:
            known = self._videos.get(key)
            if known is not None and known[0] == version:
                self._videos.move_to_end(key)
                return known[1]
        video = PooledVideo(source, Clip(source, self._device_id, version, ranges=True), output)
        with self._lock:
            replaced = [self._videos.pop(key, None)]
            self._videos[key] = version, video
            while len(self._videos) > _VIDEOS:
                replaced.append(self._videos.popitem(last=False)[1])
            for each in replaced:
                if each is not None:
                    self._held.drop(partial(_is_of, each[1]))
        return video

    def frames(
        self, wants: Iterable[tuple[PooledVideo, Iterable[int]]], run: Run, kernels: KernelContext | None
    ) -> tuple[Frames, Mapping[tuple[PooledVideo, int], Exception]]:
        """Return frames, HWC each, and the errors of those that can't be decoded.

        Args:
            wants: videos whose indexes are made, and numbers of frames.
            run: runs the decoding, one call for each group.
            kernels: kernel context of the GPU; None for the CPU.
        """
        needed: dict[PooledVideo, Counter[int]] = {}
        for video, numbers in wants:
            needed.setdefault(video, Counter()).update(number for number in numbers if number != FILL)
        found: dict[tuple[PooledVideo, int], Any] = {}
        errors: dict[tuple[PooledVideo, int], Exception] = {}
        first = True
        while True:
            own: dict[tuple[PooledVideo, int], Flight] = {}
            try:
                others = self._claim(needed, found, errors, own, first)
                flights = list(own.values())
                self._decode_all(flights, run, kernels)
            finally:
                for flight in own.values():
                    self._end(flight)
            first = False
            if not flights and not others:
                return found, errors
            for flight in flights:
                errors.update({(flight.video, number): error for number, error in flight.errors.items()})
            for flight in (*flights, *others):
                flight.done.wait()
                numbers = flight.frames.keys() & needed.get(flight.video, Counter()).keys()
                found.update({(flight.video, number): flight.frames[number] for number in numbers})

    def _claim(
        self,
        needed: Mapping[PooledVideo, Counter[int]],
        found: dict[tuple[PooledVideo, int], Any],
        errors: Mapping[tuple[PooledVideo, int], Exception],
        own: dict[tuple[PooledVideo, int], Flight],
        first: bool,
    ) -> set[Flight]:
        """Add frames that are held to `found`, groups to decode to `own`; return those that other threads decode."""
        others: set[Flight] = set()
        with self._lock:
            if first:
                self._apply_changes()
                self._counters.video_used += sum(numbers.total() for numbers in needed.values())
            for video, numbers in needed.items():
                self._count(video)
                for number in sorted(numbers):
                    key = video, number
                    if key in found or key in errors:
                        continue
                    group = video.group_of(number)
                    pixels = self._held.take(key, video.is_wanted(number, group))
                    if pixels is not None:
                        found[key] = pixels
                        self._counters.video_hits += first * numbers[number]
                    elif (video, group) in own:
                        own[video, group].needed.add(number)
                    elif group in video.flights:
                        others.add(video.flights[group])
                    else:
                        flight = own[video, group] = video.flights[group] = Flight(video, group)
                        flight.needed.add(number)
            if first:
                self._fill_burst(own)
        return others

    def _fill_burst(self, own: dict[tuple[PooledVideo, int], Flight]) -> None:
        """Add groups that known requests need next, until NVDEC decodes as many groups as it can at once."""
        room = -sum(map(self._is_for_bursts, own.values())) % AT_ONCE
        if room:
            outputs = {video.output for video, _ in own}
            known = [self._videos.get((source, output)) for source in self._waiting for output in outputs]
            for _, video in filter(None, known):
                if video.clip.indexed:
                    self._count(video)
        for video, group in itertools.islice(self._due, _LOOK_AHEAD if room else 0):
            flight = Flight(video, group)
            lacking = any((video, number) not in self._held for number in video.wanted.get(group, ()))
            if not lacking or group in video.flights or not self._is_for_bursts(flight):
                continue
            encoding = video.clip.encoding
            nbytes = len(video.frames_of(group)) * encoding.height * encoding.width * 3
            if not room or self._held.wanted_nbytes + AT_ONCE * nbytes > self._held.limit:
                break
            own[video, group] = video.flights[group] = flight
            room -= 1

    def _decode_all(self, flights: Sequence[Flight], run: Run, kernels: KernelContext | None) -> None:
        alone: list[Flight] = []
        together: deque[Flight] = deque()
        for flight in flights:
            (together if self._is_for_bursts(flight) else alone).append(flight)
        tasks = [partial(self._decode, flight, kernels) for flight in alone]
        if kernels is not None and together:
            tasks.append(partial(self._decode_together, together, self._next_burst(together), kernels))
            tasks += [partial(self._help, together, kernels)] * len(together)
        failed = run(lambda number: tasks[number](), len(tasks))
        if failed:  # not an error of a video: out of memory, for example
            raise failed[0][1]

    def _is_for_bursts(self, flight: Flight) -> bool:
        video = flight.video
        return video.clip.decoded_by is not None and BurstDecoder.supports(video.clip, int(video.starts[flight.group]))

    def _next_burst(self, together: deque[Flight]) -> list[Flight]:
        with self._lock:
            taken = [together.popleft() for _ in range(min(AT_ONCE, len(together)))]
            for _ in taken:
                self._queue.enter_nvdec()
        return taken

    def _decode_together(self, together: deque[Flight], flights: list[Flight], kernels: KernelContext) -> None:
        """Decode groups with NVDEC, several at once; then those that it can't decode in this way, with FFmpeg."""
        while flights:
            bursts = []
            for flight in flights:
                video = flight.video
                with self._lock:
                    wanted = sorted(self._plan(flight))
                bursts.append(Burst(video.clip, wanted, int(video.starts[flight.group]), video.output))
            begin = time.perf_counter()
            try:
                self._bursts.decode(bursts, kernels)
            finally:
                seconds = time.perf_counter() - begin
                with self._lock:
                    for burst in bursts:
                        encoding = burst.clip.encoding
                        pixels = burst.decoded * encoding.height * encoding.width
                        self._queue.leave(encoding.codec, True, pixels, seconds)
            for flight, burst in zip(flights, bursts, strict=True):
                if burst.damaged and flight.needed:
                    self._decode_on(flight, kernels, by_nvdec=False)
                elif burst.failed and flight.needed:
                    self._decode(flight, kernels)
                elif not burst.failed:
                    self._keep(flight, burst.pixels, burst.decoded)
            flights = self._next_burst(together)

    def _help(self, together: deque[Flight], kernels: KernelContext) -> None:
        """Decode a group on this core, if that is sooner."""
        with self._lock:
            if not together:
                return
            encoding = together[-1].video.clip.encoding
            if not self._queue.prefers_cores(encoding.codec, engines(kernels.device_id, encoding)):
                return
            flight = together.pop()
        self._decode_on(flight, kernels, by_nvdec=False)

    def _decode(self, flight: Flight, kernels: KernelContext | None) -> None:
        """Decode the frames of a group that are needed now or later, with NVDEC if it decodes the video and is free."""
        clip = flight.video.clip
        device_id = clip.decoded_by
        if device_id is None:
            self._decode_with(self._decoders, clip, target_for(clip, flight.video.output, kernels), flight)
            return
        assert kernels is not None
        encoding = clip.encoding
        with self._lock:
            by_nvdec = self._queue.enter(encoding.codec, engines(device_id, encoding))
        self._decode_on(flight, kernels, by_nvdec)

    def _decode_on(self, flight: Flight, kernels: KernelContext, by_nvdec: bool) -> None:
        clip = flight.video.clip
        encoding = clip.encoding
        begin, decoded = time.perf_counter(), 0
        try:
            if by_nvdec:
                target = GpuPixels(flight.video.output, kernels, encoding)
                decoded = self._decode_with(self._decoders, clip, target, flight)
            else:
                target = UploadedPlanes(flight.video.output, kernels, encoding)
                decoded = self._decode_with(self._decoders_on_cores, flight.video.on_cores, target, flight)
        finally:
            seconds = time.perf_counter() - begin
            with self._lock:
                self._queue.leave(encoding.codec, by_nvdec, decoded * encoding.height * encoding.width, seconds)

    def _decode_with(self, decoders: Decoders, clip: Clip, target: Target, flight: Flight) -> int:
        """Decode the frames of a group that are needed now or later; return how many frames were decoded."""
        with self._lock:
            rest = deque(sorted(self._plan(flight)))
        made: list[tuple[int, Any]] = []
        decoded = 0
        while rest:
            try:
                with clip.errors(), decoders.lend(clip, rest[0], rest[-1]) as decoder:
                    before = decoder.decoded
                    for number, frame in decoder.decode(list(rest)):
                        shape = frame.height, frame.width, target.channels
                        pixels = target.empty(shape)
                        target.write(frame, pixels)
                        made.append((number, pixels))
                        rest.popleft()
                    decoded += decoder.decoded - before
            except PipelineError as error:  # it belongs to the samples that need the frame
                number = rest.popleft()
                if number in flight.needed:
                    flight.errors[number] = _of_frame(error, number)
                rest = deque(number for number in rest if number in flight.needed)
        self._keep(flight, {number: target.finish(pixels) for number, pixels in made}, decoded)
        return decoded

    def _keep(self, flight: Flight, frames: dict[int, Any], decoded: int) -> None:
        """Keep the decoded frames of a group, unless its file was changed meanwhile."""
        video, clip = flight.video, flight.video.clip
        try:
            with clip.errors():
                clip.check_version()
        except PipelineError as error:
            flight.errors, frames = {number: _of_frame(error, number) for number in flight.needed}, {}
        with self._lock:
            self._counters.video_decoded += decoded
            for number, pixels in frames.items():
                wanted, used = video.is_wanted(number, flight.group), number in flight.needed
                self._held.put((video, number), pixels, int(pixels.nbytes), wanted, used)
        flight.frames = frames

    def _plan(self, flight: Flight) -> set[int]:
        """Return the numbers of the frames to decode of a group."""
        video, group = flight.video, flight.group
        wanted = flight.needed | video.wanted.get(group, {}).keys()
        again, several = group in video.begun, video.requests[group] > 1
        video.begun.add(group)
        encoding = video.clip.encoding
        members = video.frames_of(group)
        if (again or several) and len(members) * encoding.height * encoding.width * 3 * _SHARE <= self._held.limit:
            wanted = wanted.union(members)
        return {number for number in wanted if number in flight.needed or (video, number) not in self._held}

    def _end(self, flight: Flight) -> None:
        with self._lock:
            if flight.video.flights.get(flight.group) is flight:
                del flight.video.flights[flight.group]
        flight.done.set()

    # Known requests -------------------------------------------------------------------------------------------------

    def _apply_changes(self) -> None:
        while self._changes:
            ahead = self._changes.popleft()
            if not ahead.closed:
                for request in ahead.requests:
                    self._waiting.setdefault(request.source, {})[request] = ahead
                continue
            for request in ahead.requests:
                waiting = self._waiting.get(request.source)
                if waiting is not None and waiting.pop(request, None) is not None and not waiting:
                    del self._waiting[request.source]
            for video, frames in ahead.counted:
                self._uncount(video, frames)
            ahead.counted = []

    def _count(self, video: PooledVideo) -> None:
        """Count the known requests for a video, whose index is made."""
        for request, ahead in self._waiting.pop(video.source, {}).items():
            try:
                numbers = set(request.numbers(video.clip.index)) - {FILL}
            except PipelineError:  # the batch of the request will raise it
                continue
            frames = [(number, video.group_of(number)) for number in numbers]
            ahead.counted.append((video, frames))
            for group in sorted({group for _, group in frames}):
                video.requests[group] += 1
                self._due.setdefault((video, group))
            for number, group in frames:
                wanted = video.wanted[group]
                wanted[number] = wanted.get(number, 0) + 1
                self._held.note((video, number), True)

    def _uncount(self, video: PooledVideo, frames: Iterable[tuple[int, int]]) -> None:
        for group in {group for _, group in frames}:
            video.requests[group] -= 1
            if not video.requests[group]:
                self._due.pop((video, group), None)
        for number, group in frames:
            wanted = video.wanted[group]
            wanted[number] -= 1
            if not wanted[number]:
                del wanted[number]
                self._held.note((video, number), False)


def _of_frame(error: PipelineError, number: int) -> PipelineError:
    """Return the error, with the number of the frame that is needed."""
    if f"frame {number}" in str(error):
        return error
    named = type(error)(f"{error} (for frame {number})")
    named.__cause__ = error
    return named


def _is_of(video: PooledVideo, key: tuple[PooledVideo, int]) -> bool:
    return key[0] is video


def shared_pool(device_id: int | None) -> VideoPool:
    """Return the pool of this process for a GPU, or for the CPU."""
    return _shared.setdefault(device_id, VideoPool(device_id))


def total_counters() -> dict[str, int]:
    """Return the sums of the counters of this process's pools, by name."""
    counters = [asdict(pool.counters()) for pool in list(_shared.values())]
    return {name: sum(each[name] for each in counters) for name in asdict(PoolCounters())}


_shared: dict[int | None, VideoPool] = {}
