"""`io.video` on a GPU that is a stand-in: the CPU decodes for NVDEC, and frames and pool are in "device" memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._operators.decoding import io_video
from dali_proxy.pipeline._video import bursts, clip, cuvid, nvdec, nvdec_session
from dali_proxy.pipeline._video.bursts import AT_ONCE, BurstDecoder
from dali_proxy.pipeline._video.clip import Clip, FileVersion
from dali_proxy.pipeline._video.frame_request import FrameRequest
from dali_proxy.pipeline._video.gpu_pixels import GpuPixels
from dali_proxy.pipeline._video.nvdec_queue import NvdecQueue
from dali_proxy.pipeline._video.uploaded_planes import UploadedPlanes
from dali_proxy.pipeline._video.video_pool import shared_pool, total_counters
from pipeline import Pipeline, fn
from pipeline.errors import OperatorError
from tests import host_cupy
from tests.clips import COUNT, KINDS, Clips, Kind, encode, number_of
from tests.pipeline.kernels import emulator
from tests.pipeline.video.fake_cuvid import FakeCuvid

av = pytest.importorskip("av")
pytestmark = pytest.mark.skipif(emulator.COMPILER is None, reason="needs a C++ compiler")


_write = GpuPixels.write


def write_as_nvdec(self: GpuPixels, frame: Any, out: Any) -> None:
    if isinstance(frame, av.VideoFrame):
        frame = frame.reformat(format="nv12" if frame.format.components[0].bits == 8 else "p010le")
    _write(self, frame, out)


@contextmanager
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuvid]:
    """Replace CuPy and NVDEC inside the block."""
    driver = FakeCuvid()
    monkeypatch.setattr(cuvid, "load_cuvid", lambda: driver)
    for module in (bursts, nvdec_session):
        monkeypatch.setattr(module, "cuda_current", lambda device_id: nullcontext())
    monkeypatch.setattr(clip, "cuda_current", lambda device_id: nullcontext())
    monkeypatch.setattr(nvdec, "cuda_current", lambda device_id: nullcontext())
    monkeypatch.setattr(clip, "acceleration", lambda device_id: None)
    monkeypatch.setattr(clip, "require_nvdec", lambda: av)
    monkeypatch.setattr(io_video, "require_nvdec", lambda: av)
    monkeypatch.setattr(GpuPixels, "write", write_as_nvdec)
    monkeypatch.setattr(clip, "_warned_reasons", set())
    nvdec._capabilities.cache_clear()
    with host_cupy.installed():
        yield driver
    nvdec._capabilities.cache_clear()


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuvid]:
    with stand_in(monkeypatch) as fake:
        yield fake


@contextmanager
def pipe_of(num_threads: int = 2, **arguments: Any) -> Iterator[Pipeline]:
    with Pipeline(batch_size=8, num_threads=num_threads, device_id=0) as pipe:
        source, frames = fn.external_source(name="source"), fn.external_source(name="frames")
        pipe.set_outputs(fn.io.video(source, frames=frames, device="mixed", **arguments))
    try:
        yield pipe
    finally:
        pipe.close()


def encoded(path: Path) -> Any:
    return np.frombuffer(str(path).encode(), np.uint8)


def read(pipe: Pipeline, sources: list[Any], frames: list[Any]) -> list[list[int]]:
    (made,) = pipe.run(source=sources, frames=[np.array(each) for each in frames])
    return [[number_of(frame) for frame in sample] for sample in made.as_cpu().samples]


@pytest.mark.parametrize("name", ["h264.mp4", "h264_open_gop.mp4", "hevc.mkv", "vp9.webm"])
@pytest.mark.filterwarnings("ignore:.*decoded on the CPU")
def test_frames_stay_right_while_the_pool_gives_them_up(name: str, clips: Clips) -> None:
    order = np.random.default_rng(3).permutation(COUNT)
    size = 48 * 64 * 3
    before = total_counters()["video_used"]
    with pipe_of(pool_bytes=12 * size) as pipe:
        for begin in range(0, COUNT, 8):
            wanted = [[each, (each + 3) % COUNT] for each in order[begin : begin + 8].tolist()]
            assert read(pipe, [encoded(clips.path(name))] * 8, wanted) == wanted
            counters = total_counters()
            assert 0 < counters["video_bytes"] <= 12 * size
        assert counters["video_used"] - before == 2 * COUNT


def test_paths_contents_and_codecs_in_one_batch(clips: Clips) -> None:
    with pipe_of(pad_mode="constant", fill_value=[1, 2, 3]) as pipe:
        paths = [clips.path(name) for name in ("h264.mp4", "vp9.webm", "h264_open_gop.mp4")]
        sources = [encoded(paths[0]), encoded(paths[1]), np.fromfile(paths[2], np.uint8)]
        with pytest.warns(RuntimeWarning, match="NVDEC of GPU 0 doesn't decode vp9"):
            (made,) = pipe.run(source=sources, frames=[np.array([30, COUNT, 2])] * 3)
        for sample in made.as_cpu().samples:
            assert [number_of(sample[0]), number_of(sample[2])] == [30, 2]
            assert (sample[1] == [1, 2, 3]).all()


@pytest.fixture
def _one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups aren't decoded together: FFmpeg decodes each, as those of other containers than MP4."""
    monkeypatch.setattr(BurstDecoder, "supports", lambda *arguments: False)


@pytest.mark.usefixtures("_one_by_one")
def test_decoders_are_shared_by_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of NVDEC take long to create."""
    made: list[int] = []
    monkeypatch.setattr(clip, "acceleration", lambda device_id: made.append(device_id))
    read_several_files(tmp_path)
    assert 0 < len(made) <= 10


def test_sessions_are_shared_by_files(tmp_path: Path, driver: FakeCuvid) -> None:
    read_several_files(tmp_path)
    assert 0 < driver.created <= AT_ONCE


def read_several_files(folder: Path) -> None:
    for number in range(20):
        encode(folder / f"{number}.mp4", KINDS["h264.mp4"], 6, begin=number)
    with pipe_of() as pipe:
        for numbers in ([*range(8)], [*range(8, 16)], [*range(12, 20)]):
            shown = read(pipe, [encoded(folder / f"{number}.mp4") for number in numbers], [[4]] * 8)
            assert shown == [[number + 4] for number in numbers]


TEN_BITS = Kind("libx265", "keyint=12:min-keyint=12:scenecut=0:bframes=3", pixels="yuv420p10le")


@pytest.mark.parametrize(
    "name", ["h264.mp4", "h264_open_gop.mp4", "h264_varying.mp4", "hevc_open_gop.mp4", "ten_bits.mp4"]
)
def test_all_ways_decode_the_same_bits(
    name: str, clips: Clips, tmp_path: Path, driver: FakeCuvid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVDEC decodes several groups together, or FFmpeg one at a time, with NVDEC or on a core."""
    path = tmp_path / name if name == "ten_bits.mp4" else clips.path(name)
    if name == "ten_bits.mp4":
        encode(path, TEN_BITS)
    frames = np.random.default_rng(1).permutation(COUNT)[:32].reshape(8, 4)
    made = []
    for together, by_nvdec in ((True, True), (False, True), (False, False)):
        if not together:
            monkeypatch.setattr(BurstDecoder, "supports", lambda *arguments: False)
        monkeypatch.setattr(NvdecQueue, "enter", lambda self, codec, engines, answer=by_nvdec: answer)
        monkeypatch.setattr(NvdecQueue, "leave", lambda *arguments, **names: None)
        monkeypatch.setattr(GpuPixels, "write", write_as_nvdec if by_nvdec else _write)  # of `av.VideoFrame`s
        with pipe_of() as pipe:
            (batch,) = pipe.run(source=[encoded(path)] * 8, frames=[*frames])
            made.append(np.stack(batch.as_cpu().samples))
        assert driver.created == 2
    assert [[number_of(frame) for frame in sample] for sample in made[2]] == frames.tolist()
    np.testing.assert_array_equal(made[1], made[2])
    np.testing.assert_array_equal(made[0], made[2])
    assert not driver.mapped


def test_frames_of_several_videos_are_converted_together(
    clips: Clips, driver: FakeCuvid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU of a training gets work rarely."""
    launches: list[int] = []
    run = KernelContext.run
    monkeypatch.setattr(KernelContext, "run", lambda self, *rest: (launches.append(1), run(self, *rest))[1])
    sources = [encoded(clips.path(name)) for name in ("h264.mp4", "h264_open_gop.mp4", "h264_varying.mp4")]
    frames = [[3, 8], [2, 9], [1]]
    with pipe_of() as pipe:
        assert read(pipe, sources, frames) == frames
    assert driver.largest == 5
    assert len(launches) == 2  # the conversion, and the copy of the frames to the batch


def test_groups_that_are_needed_next_are_decoded_in_the_same_burst(clips: Clips, driver: FakeCuvid) -> None:
    names = ("h264.mp4", "h264_open_gop.mp4", "h264_varying.mp4")
    paths = [str(clips.path(name)) for name in names]
    with pipe_of() as pipe:
        read(pipe, [encoded(clips.path(name)) for name in names], [[39], [39], [39]])  # the pool knows the videos
        pool = shared_pool(0)
        before = pool.counters()
        ahead = [pool.announce([FrameRequest(path, np.array([1, 2]), None, 0.0, "none")]) for path in paths]
        assert read(pipe, [encoded(clips.path(names[0]))], [[1, 2]]) == [[1, 2]]
        after = pool.counters()
        assert after.video_decoded - before.video_decoded >= 6
        assert read(pipe, [encoded(clips.path(name)) for name in names[1:]], [[1], [2]]) == [[1], [2]]
        assert pool.counters().video_decoded == after.video_decoded
        for each in ahead:
            each.close()


def test_group_with_more_frames_than_surfaces(clips: Clips, driver: FakeCuvid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvdec_session, "_SURFACES", 5 + 2 + 3)
    frames = [[*range(20)], [*range(20, COUNT)]]
    with pipe_of() as pipe:
        assert read(pipe, [encoded(clips.path("h264.mp4"))] * 2, frames) == frames
    assert 3 <= driver.largest <= 3 * (3 + 5)  # the parser's own surfaces are full, too, when a group ends


@pytest.mark.parametrize("fault", ["damaged", "hidden", "greedy"])
def test_ffmpeg_decodes_what_fails_together(
    fault: str, clips: Clips, driver: FakeCuvid, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may refer to a damaged frame. A core decodes what seems to be damaged, because it can tell."""
    path = clips.path("h264.mp4")
    if fault == "greedy":
        driver.greedy = True
    else:
        getattr(driver, fault).add(int(Clip(str(path)).index.times[28]))
    on_core: list[int] = []
    finish = UploadedPlanes.finish
    monkeypatch.setattr(UploadedPlanes, "finish", lambda self, pixels: (on_core.append(1), finish(self, pixels))[1])
    caplog.set_level("DEBUG", "dali_proxy")
    frames = [[30, 31]]
    with pipe_of() as pipe:
        assert read(pipe, [encoded(path)], frames) == frames
    assert "isn't decoded together with others" in caplog.text
    assert bool(on_core) == (fault != "greedy")
    assert not driver.mapped


def test_damaged_picture_is_an_error(tmp_path: Path, clips: Clips, driver: FakeCuvid) -> None:
    """NVDEC reports it, and a core says which frame it is."""
    path, good = tmp_path / "damaged.mp4", clips.path("h264.mp4")
    content = bytearray(good.read_bytes())
    video = Clip(str(good), version=FileVersion.of(good.stat()), ranges=True)
    index, table = video.index, video.table
    assert table is not None
    packet = int(table.order[24])
    begin, size = int(table.positions[packet]), int(table.sizes[packet])
    content[begin + size // 3 : begin + size] = bytes(size - size // 3)
    path.write_bytes(content)
    driver.damaged.add(int(index.times[24]))
    with pipe_of() as pipe, pytest.raises(OperatorError, match=r"damaged.mp4.*frame 24"):
        read(pipe, [encoded(path)], [[24]])


@pytest.mark.usefixtures("_one_by_one")
def test_core_decodes_while_the_queue_of_nvdec_is_full(clips: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVDEC, whose queue has room for two groups, continues when a core has decoded a third one."""
    names = ["h264.mp4", "h264_open_gop.mp4", "h264_varying.mp4"]
    sources = [encoded(clips.path(name)) for name in names]
    decoded = threading.Event()
    slow: list[int] = []
    finish = UploadedPlanes.finish

    def finish_on_core(self: UploadedPlanes, pixels: Any) -> Any:
        decoded.set()
        return finish(self, pixels)

    def write(self: GpuPixels, frame: Any, out: Any) -> None:
        if slow and type(self) is GpuPixels:
            assert decoded.wait(30)
        write_as_nvdec(self, frame, out)

    monkeypatch.setattr(UploadedPlanes, "finish", finish_on_core)
    monkeypatch.setattr(GpuPixels, "write", write)
    with pipe_of(num_threads=3) as pipe:
        assert read(pipe, sources[:1], [[1]]) == [[1]]
        assert not decoded.is_set()
        slow.append(1)
        assert read(pipe, sources, [[30], [30], [30]]) == [[30], [30], [30]]
    assert decoded.is_set()


def test_frames_that_were_not_converted_are_not_used(clips: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch converts several frames. If it fails, none of them may get into the pool."""
    path, run = encoded(clips.path("h264.mp4")), KernelContext.run
    failures = [MemoryError("out of memory")]

    def fail_once(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        run(*arguments)

    with pipe_of() as pipe:
        monkeypatch.setattr(KernelContext, "run", fail_once)
        with pytest.raises(OperatorError, match="out of memory"):
            read(pipe, [path] * 8, [[each] for each in range(16, 24)])
        assert read(pipe, [path] * 8, [[each] for each in range(20, 28)]) == [[each] for each in range(20, 28)]


@pytest.mark.usefixtures("_one_by_one")
@pytest.mark.parametrize("form", ["gray", "p010le"])
def test_frame_of_another_format_is_an_error_of_its_sample(
    form: str, clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = encoded(clips.path("h264.mp4")), GpuPixels.write

    def changed(self: GpuPixels, frame: Any, out: Any) -> None:
        # The fixture's function converts frames to NV12.
        _write(self, frame.reformat(format="nv12" if number_of(frame.to_ndarray(format="rgb24")) != 3 else form), out)

    monkeypatch.setattr(GpuPixels, "write", changed)
    with pipe_of() as pipe:
        with pytest.raises(OperatorError, match=r"sample 2: .*h264\.mp4.* aren't 4:2:0") as caught:
            read(pipe, [path] * 3, [[0], [2], [3]])
        assert [failure.sample for failure in caught.value.failures] == [2]
        monkeypatch.setattr(GpuPixels, "write", write)
        assert read(pipe, [path] * 4, [[0], [1], [2], [3]]) == [[0], [1], [2], [3]]
