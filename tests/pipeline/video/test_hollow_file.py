"""MP4 files are indexed without reading the data of their packets."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dali_proxy.pipeline._video.clip import Clip, FileVersion
from dali_proxy.pipeline._video.hollow_file import HollowFile
from pipeline.errors import DecodeError
from tests.clips import KINDS, Clips, Kind, encode, remux

pytest.importorskip("av")


def indexed(path: Path) -> Clip:
    clip = Clip(str(path), version=FileVersion.of(os.stat(path)))
    clip.make_index()
    return clip


def test_ranges_read_as_zeros(tmp_path: Path) -> None:
    content = bytes(range(1, 101))
    (tmp_path / "file").write_bytes(content)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        file = HollowFile(descriptor)
        assert file.read() == content
        file.leave_out([(40, 10), (10, 5), (15, 5), (42, 3), (95, 50)])
        expected = bytearray(content)
        for begin, end in ((10, 20), (40, 50), (95, 100)):
            expected[begin:end] = bytes(end - begin)
        for begin in range(0, 110, 7):
            for count in (1, 9, 40, 200):
                file.seek(begin)
                assert file.read(count) == expected[begin : begin + count]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", [name for name in KINDS if name.endswith(".mp4")])
@pytest.mark.parametrize("sound", [False, True])
def test_index_of_the_header_is_that_of_the_packets(name: str, sound: bool, clips: Clips, tmp_path: Path) -> None:
    path = clips.path(name)
    if sound:
        path = tmp_path / name
        encode(path, KINDS[name], sound=True)
    index, plain = indexed(path).index, Clip(str(path)).index
    assert np.array_equal(index.times, plain.times)
    assert np.array_equal(index.keys, plain.keys)
    assert index.time_base == plain.time_base


def test_data_of_packets_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.mp4"
    encode(path, Kind("libx264", "keyint=12:crf=1"), size=(480, 640))
    read: list[int] = []
    plain = os.pread

    def counted(descriptor: int, count: int, offset: int) -> bytes:
        read.append(count)
        return plain(descriptor, count, offset)

    monkeypatch.setattr(os, "pread", counted)
    indexed(path)
    assert sum(read) < 100_000 < path.stat().st_size / 2


def test_truncated_and_cut_files_are_like_before(clips: Clips, tmp_path: Path) -> None:
    path = tmp_path / "cut.mp4"
    path.write_bytes(clips.path("h264_faststart.mp4").read_bytes()[:-2000])
    with pytest.raises(DecodeError, match="it is truncated"):
        indexed(path)
    remux(clips.path("h264_open_gop.mp4"), path, first=5)
    assert np.array_equal(indexed(path).index.times, Clip(str(path)).index.times)
