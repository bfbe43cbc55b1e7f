"""Decoders that a driver reports for its GPU, and our messages about them. The driver is a fake."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dali_proxy.pipeline._video import clip, cuvid, nvdec
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.nvdec import Encoding, refusal
from dali_proxy.pipeline._video.pixels import Pixels
from pipeline.errors import DeviceError
from pipeline.types import DALIImageType
from tests.clips import Clips, Kind, encode, number_of

av = pytest.importorskip("av")


class Driver:
    """A fake driver that decodes H.264 of 8 bits, and HEVC of 8 or 10."""

    def cuvidGetDecoderCaps(self, pointer: Any) -> int:
        asked = pointer._obj
        asked.supported = (asked.codec, asked.bits_above_8) in ((4, 0), (8, 0), (8, 2)) and asked.chroma == 1
        asked.min_width, asked.min_height, asked.max_width, asked.max_height = 144, 144, 4096, 2304
        asked.max_blocks = 4096 * 2304 // 256
        return 100 if asked.codec == 11 else 0


@pytest.fixture(autouse=True)
def _driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(cuvid, "load_cuvid", Driver)
    monkeypatch.setattr(nvdec, "cuda_current", lambda device_id: nullcontext())
    monkeypatch.setattr(clip, "require_nvdec", lambda: av)
    monkeypatch.setattr(clip, "_warned_reasons", set())
    nvdec._capabilities.cache_clear()
    yield
    nvdec._capabilities.cache_clear()


def encoding(codec: str, pixels: str | None = "yuv420p", width: int = 640, height: int = 480) -> Encoding:
    return Encoding(codec, pixels and av.VideoFormat(pixels, width, height), width, height)


@pytest.mark.parametrize(
    "given",
    [
        encoding("h264"),
        encoding("h264", "yuvj420p", 642, 478),
        encoding("hevc", "yuv420p10le"),
        encoding("hevc", None),
        encoding("h264", width=140, height=130),  # a decoder rounds up to blocks, here to 144
        encoding("h264", width=4096, height=2304),
    ],
)
def test_nvdec_decodes_supported_videos(given: Encoding) -> None:
    assert refusal(0, given) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (encoding("h264", "yuv420p10le"), "NVDEC of GPU 3 doesn't decode h264 of 10 bits"),
        (encoding("h264", "yuv422p"), "doesn't decode yuv422p, only 4:2:0"),
        (encoding("h264", "yuv444p"), "doesn't decode yuv444p, only 4:2:0"),
        (encoding("h264", "gray"), "doesn't decode gray, only 4:2:0"),
        (encoding("hevc", "gbrp"), "doesn't decode gbrp, only 4:2:0"),
        (encoding("vp9"), "doesn't decode vp9 of 8 bits"),
        (encoding("prores"), "doesn't decode prores of 8 bits"),
        (encoding("h264", width=128), "doesn't decode h264 of 128x480 pixels, only 144x144 to 4096x2304"),
        (encoding("h264", height=2320), "doesn't decode h264 of 640x2320 pixels"),
        (encoding("h264", width=639), "doesn't decode 639x480 pixels correctly, only even sizes"),
        (encoding("hevc", height=479), "doesn't decode 640x479 pixels correctly, only even sizes"),
    ],
)
def test_nvdec_refuses_unsupported_videos(given: Encoding, message: str) -> None:
    reason = refusal(3, given)
    assert reason is not None
    assert message in reason


def test_driver_without_an_answer() -> None:
    with pytest.raises(DeviceError, match="NVDEC of GPU 3 can't be used: cuvidGetDecoderCaps failed with error 100"):
        refusal(3, encoding("av1"))


def test_videos_that_nvdec_refuses_go_to_the_cpu(tmp_path: Path) -> None:
    """Each reason is reported once, not once per file."""
    for name in ("a.webm", "b.webm"):
        encode(tmp_path / name, Kind("libvpx-vp9"), 5)
    video = Clip(str(tmp_path / "a.webm"), device_id=0)
    with pytest.warns(RuntimeWarning, match="a.webm' and .* decoded on the CPU.* NVDEC of GPU 0 doesn't decode vp9"):
        assert video.decoded_by is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        video = Clip(str(tmp_path / "b.webm"), device_id=0)
        frames = read_frames(video, [3, 0], Pixels(DALIImageType.RGB), Decoders(0))
    assert [number_of(frame) for frame in frames] == [3, 0]


def test_videos_that_nvdec_decodes_go_to_the_gpu(clips: Clips, recwarn: pytest.WarningsRecorder) -> None:
    encode(clips.folder / "large.mp4", Kind("libx264"), 2, (144, 160))
    assert Clip(str(clips.folder / "large.mp4"), device_id=0).decoded_by == 0
    assert Clip(str(clips.folder / "large.mp4")).decoded_by is None
    assert not recwarn
