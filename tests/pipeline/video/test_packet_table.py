"""Exactly the bytes of a group of pictures are read from local MP4 files."""

from __future__ import annotations

import ctypes
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._video.clip import Clip, FileVersion
from dali_proxy.pipeline._video.contexts import Contexts
from dali_proxy.pipeline._video.decoder import Decoder
from tests.clips import COUNT, KINDS, Clips, encode, number_of, remux

pytest.importorskip("av")

MP4 = [name for name in KINDS if name.endswith(".mp4")]


def versioned(path: Path) -> Clip:
    clip = Clip(str(path), version=FileVersion.of(os.stat(path)), ranges=True)
    clip.make_index()
    return clip


def shown(decoder: Decoder, wanted: list[int]) -> list[int]:
    return [number_of(frame.to_ndarray(format="rgb24")) for _, frame in decoder.decode(wanted)]


@pytest.mark.parametrize("name", MP4)
def test_only_packets_of_the_group_are_read(name: str, clips: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = versioned(clips.path(name))
    assert clip.table is not None
    contexts = Contexts(2)
    Decoder(clip, contexts).close(reuse=True)
    read: list[int] = []
    plain = clip.read

    def counted(count: int, offset: int) -> bytes:
        read.append(count)
        return plain(count, offset)

    monkeypatch.setattr(clip, "read", counted)
    decoder = Decoder(clip, contexts)
    keys = [*clip.index.keys.tolist(), COUNT]
    for first, end in pairwise(keys):
        read.clear()
        assert shown(decoder, [*range(first, end)]) == [*range(first, end)]
        assert sum(read) <= clip.table.sizes[: clip.table.ends[end - 1]].sum()
    assert shown(decoder, [30, 31]) == [30, 31]
    assert shown(decoder, [3]) == [3]
    decoder.close()


def test_sound_between_the_packets_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "sound.mp4"
    encode(path, KINDS["h264.mp4"], sound=True)
    clip = versioned(path)
    assert clip.table is not None
    decoder = Decoder(clip)
    for wanted in np.random.default_rng(2).permutation(COUNT).tolist():
        assert shown(decoder, [wanted]) == [wanted]
    decoder.close()


@pytest.mark.parametrize("made", ["edited", "cut", "mkv"])
def test_other_files_are_read_through_their_container(made: str, clips: Clips, tmp_path: Path) -> None:
    path: Any = tmp_path / "video.mp4"
    if made == "edited":
        encode(path, KINDS["h264.mp4"], first=-6)
    elif made == "cut":
        remux(clips.path("h264_open_gop.mp4"), path, first=5)
    else:
        path = clips.path("h264.mkv")
    clip, plain = versioned(path), Clip(str(path))
    assert clip.table is None
    assert len(clip.index) == len(plain.index)
    wanted = [*range(len(plain.index))]
    decoders = Decoder(clip), Decoder(plain)
    assert shown(decoders[0], wanted) == shown(decoders[1], wanted)
    for decoder in decoders:
        decoder.close()


def test_packets_are_followed_by_zeros(clips: Clips) -> None:
    clip = versioned(clips.path("mpeg4.mp4"))
    assert clip.table is not None
    packets = list(clip.table.packets(0, COUNT - 1, clip.read, clip.index.time_base))
    assert len(packets) == COUNT
    for packet in packets:  # FFmpeg's decoders read up to 64 bytes more, and take them for data
        assert ctypes.string_at(packet.buffer_ptr + packet.size, 64) == bytes(64)
