"""What is kept about videos in memory."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dali_proxy.pipeline._video import clip as module
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.decoder import Decoder
from dali_proxy.pipeline._video.index import count_frames
from dali_proxy.pipeline._video.known import Known, KnownVideos
from dali_proxy.pipeline._video.nvdec import Encoding
from tests.clips import KINDS, Clips, number_of

pytest.importorskip("av")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> KnownVideos:
    fresh = KnownVideos(limit=100)
    monkeypatch.setattr(module, "_known", fresh)
    return fresh


def described(frames: int) -> Known:
    return Known(count_frames(frames, Fraction(25)), Encoding("h264", None, 8, 8, ()), None, True)


def shown(clip: Clip, wanted: list[int]) -> list[int]:
    return [number_of(frame.to_ndarray(format="rgb24")) for _, frame in Decoder(clip).decode(wanted)]


@pytest.mark.parametrize("name", KINDS)
def test_known_video_is_not_indexed_again(
    name: str, clips: Clips, known: KnownVideos, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Clip(clips.bytes(name), ranges=True)
    wanted = [0, len(first.index) // 2, len(first.index) - 1]
    expected = shown(first, wanted)
    monkeypatch.setattr(Clip, "_make_index", lambda self: pytest.fail("indexed again"))
    again = Clip(clips.bytes(name).copy(), ranges=True)
    assert again.index is first.index
    assert again.encoding is first.encoding
    assert shown(again, wanted) == expected


def test_changed_bytes_are_indexed(clips: Clips, known: KnownVideos) -> None:
    encoded = clips.bytes("h264.mp4").copy()
    before = Clip(encoded).index
    encoded[-1] ^= 1
    assert Clip(encoded).index is not before


def test_known_videos_are_bounded_by_their_frames() -> None:
    videos = KnownVideos(limit=100)
    keys = [videos.key(np.full(9, value, np.uint8)) for value in range(3)]
    for key, frames in zip(keys, (50, 40, 30), strict=True):
        videos.add(key, described(frames))
        videos.find(keys[0])
    assert [videos.find(key) is not None for key in keys] == [True, False, True]
    videos.add(b"long", described(101))
    assert videos.find(b"long") is None


def test_keys_of_two_processes_differ() -> None:
    encoded = np.zeros(100, np.uint8)
    assert KnownVideos().key(encoded) != KnownVideos().key(encoded)
