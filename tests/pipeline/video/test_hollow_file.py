"""MP4 files are indexed without reading the data of their packets."""

from __future__ import annotations

import io
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dali_proxy.pipeline._video.clip import Clip, FileVersion
from dali_proxy.pipeline._video.decoder import Decoder
from dali_proxy.pipeline._video.hollow_file import HollowFile
from pipeline.errors import DecodeError
from tests.clips import COUNT, KINDS, Clips, Kind, encode, remux

pytest.importorskip("av")


def indexed(path: Path) -> Clip:
    clip = Clip(str(path), version=FileVersion.of(os.stat(path)), ranges=True)
    clip.make_index()
    return clip


def test_ranges_read_as_zeros(tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(1, 256, 20_000).astype(np.uint8).tobytes()
    (tmp_path / "file").write_bytes(content)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        hollow = HollowFile(partial(os.pread, descriptor), len(content))
        file = io.BufferedReader(hollow, 1000)
        assert file.read() == content
        hollow.leave_out([])  # a damaged video may list no packets
        file.seek(0)
        assert file.read() == content
        hollow.leave_out([(40, 10), (10, 5), (15, 5), (42, 3), (4_000, 5_000), (19_995, 50)])
        expected = bytearray(content)
        for begin, end in ((10, 20), (40, 50), (4_000, 9_000), (19_995, 20_000)):
            expected[begin:end] = bytes(end - begin)
        for begin in (0, 7, 14, 20, 45, 95, 3_990, 4_096, 8_990, 9_000, 19_990, 19_999, 20_000, 30_000):
            for count in (1, 9, 40, 6_000):
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
    clip, other = indexed(path), Clip(str(path))
    index, plain = clip.index, other.index
    assert clip.encoding.key == other.encoding.key
    assert np.array_equal(index.times, plain.times)
    assert np.array_equal(index.keys, plain.keys)
    assert index.time_base == plain.time_base


def test_decoder_reads_each_byte_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the first packet, whose frame gives FFmpeg the decoder's parameters, and pages that it begins or ends."""
    path = tmp_path / "large.mp4"
    encode(path, Kind("libx264", "keyint=12:crf=1"), size=(480, 640))
    read: list[int] = []
    plain = os.pread

    def counted(descriptor: int, count: int, offset: int) -> bytes:
        content = plain(descriptor, count, offset)
        read.append(len(content))
        return content

    monkeypatch.setattr(os, "pread", counted)
    monkeypatch.setattr(Clip, "open", None)
    clip = indexed(path)
    assert clip.table is not None
    assert sum(read) < clip.table.sizes[0] + 20_000 < path.stat().st_size / 2
    read.clear()
    decoder = Decoder(clip)
    assert not read
    assert [number for number, _ in decoder.decode(range(COUNT))] == [*range(COUNT)]
    assert sum(read) == clip.table.sizes.sum()
    decoder.close()


def test_truncated_and_cut_files_are_like_before(clips: Clips, tmp_path: Path) -> None:
    path = tmp_path / "cut.mp4"
    path.write_bytes(clips.path("h264_faststart.mp4").read_bytes()[:-2000])
    with pytest.raises(DecodeError, match="it is truncated"):
        indexed(path)
    remux(clips.path("h264_open_gop.mp4"), path, first=5)
    assert np.array_equal(indexed(path).index.times, Clip(str(path)).index.times)
