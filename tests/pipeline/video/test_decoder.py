"""Every frame is the requested one, wherever decoding began, compared with FFmpeg's frames without any seek."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.decoder import Decoder
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.pixels import Pixels
from pipeline.errors import DecodeError, PipelineError
from pipeline.types import DALIImageType
from tests.clips import COUNT, KINDS, VARYING, Clips, decode_from_start, encode, number_of, remux

av = pytest.importorskip("av")

RANDOM = np.random.default_rng(6).permutation(COUNT).tolist()
#: Files without time stamps to identify frames.
COUNTED = {"h264.avi", "h264.h264"}


def numbers(frames: Any) -> list[int]:
    return [number_of(frame) for frame in frames]


def planes(frame: Any) -> Any:
    """Return all bytes of a frame as one row; PyAV creates no arrays from frames of odd sizes."""
    rows = [np.frombuffer(plane, np.uint8).reshape(plane.height, -1)[:, : plane.width] for plane in frame.planes]
    return np.concatenate([plane.ravel() for plane in rows])


@pytest.mark.parametrize("name", KINDS)
def test_frames_are_exact(name: str, clips: Clips) -> None:
    expected = [planes(frame) for frame in decode_from_start(clips.path(name))]
    clip = Clip(str(clips.path(name)))
    assert clip.count == len(clip.index) == len(expected) == COUNT
    assert clip.index.seekable == (name not in COUNTED)
    decoder = Decoder(clip)
    for wanted in [*RANDOM, 0, 0, *range(COUNT), COUNT - 1]:
        ((number, frame),) = decoder.decode([wanted])
        assert number == wanted
        np.testing.assert_array_equal(planes(frame), expected[wanted], f"frame {wanted}")
        assert number_of(frame.to_ndarray(format="rgb24")) == wanted
    decoder.close()


@pytest.mark.parametrize("name", ["h264.mp4", "hevc.mkv", "h264.ts", "mpeg4.avi"])
def test_sound_is_skipped(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    encode(path, KINDS[name], sound=True)
    with av.open(str(path)) as file:
        assert len(file.streams) == 2
    for clip in (Clip(str(path)), Clip(np.fromfile(path, np.uint8))):
        assert clip.count == len(clip.index) == COUNT
        decoder = Decoder(clip)
        for wanted in RANDOM:
            ((_, frame),) = decoder.decode([wanted])
            assert number_of(frame.to_ndarray(format="rgb24")) == wanted
        decoder.close()


@pytest.mark.parametrize("first", [-3, -12, -15])
@pytest.mark.parametrize("name", ["h264.mp4", "h264_open_gop.mp4", "hevc.mkv", "mpeg4.mp4"])
def test_edit_list_that_begins_behind_a_key_frame(name: str, first: int, tmp_path: Path) -> None:
    """A video trimmed without encoding it again has such a list: its first frames are decoded, but not shown."""
    path = tmp_path / "trimmed.mp4"
    encode(path, KINDS[name], first=first)
    expected = [planes(frame) for frame in decode_from_start(path)]
    clip = Clip(str(path))
    assert clip.count == len(clip.index) == len(expected) == COUNT + first
    assert clip.index.keys[0] == 0
    decoder = Decoder(clip)
    container = decoder._container
    for wanted in [*(number for number in RANDOM if number < len(expected)), *range(len(expected)), 0]:
        ((_, frame),) = decoder.decode([wanted])
        np.testing.assert_array_equal(planes(frame), expected[wanted], f"frame {wanted}")
        assert number_of(frame.to_ndarray(format="rgb24")) == wanted - first
    assert decoder._container is container, "a seek is enough"
    decoder.close()


def test_mp4_that_begins_without_a_key_frame(clips: Clips, tmp_path: Path) -> None:
    remux(clips.path("h264_no_b.avi"), tmp_path / "cut.mp4", first=5)
    clip = Clip(str(tmp_path / "cut.mp4"))
    assert clip.count == len(clip.index) == COUNT - 12
    assert [number_of(frame.to_ndarray(format="rgb24")) for _, frame in Decoder(clip).decode([0, 20])] == [12, 32]


def test_frames_before_the_first_key_frame_need_no_seek(
    clips: Clips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key frame leads there, and the search from a later one would continue to the end of the video."""
    remux(clips.path("mpeg4.mp4"), tmp_path / "cut.mp4", first=3)
    clip = Clip(str(tmp_path / "cut.mp4"))
    assert clip.index.keys[0] == 2
    decoder = Decoder(clip)
    seeks: list[int] = []
    seek = decoder._seek
    monkeypatch.setattr(decoder, "_seek", lambda key: seeks.append(key) or seek(key))  # type: ignore[func-returns-value]
    for wanted in (20, 0, 20, 1):
        ((_, frame),) = decoder.decode([wanted])
        assert number_of(frame.to_ndarray(format="rgb24")) == wanted + 10
    assert seeks == [1, 1]
    decoder.close()


@pytest.mark.parametrize("name", ["h264_open_gop.mp4", "hevc_open_gop.mp4", "h264_refresh.mkv", "vp9.webm"])
def test_sequences_from_memory(name: str, clips: Clips) -> None:
    expected = [planes(frame) for frame in decode_from_start(clips.path(name))]
    clip = Clip(clips.bytes(name))
    for first in range(0, COUNT - 8, 3):
        decoder = Decoder(clip)
        for number, frame in decoder.decode(range(first, first + 8)):
            np.testing.assert_array_equal(planes(frame), expected[number])
        decoder.close()


def test_open_gop_is_one(clips: Clips) -> None:
    """The test above would prove nothing if no frame depended on the group of frames before its own."""
    for name in ("h264_open_gop.mp4", "hevc_open_gop.mp4"):
        with av.open(str(clips.path(name))) as file:
            packets = [packet for packet in file.demux(video=0) if packet.size]
        keys = [place for place, packet in enumerate(packets) if packet.is_keyframe]
        assert len(keys) == 4
        assert any(packets[key + 1].pts < packets[key].pts for key in keys[1:])


def test_times_of_a_varying_frame_rate(clips: Clips) -> None:
    for name in [name for name in KINDS if "varying" in name]:
        seconds = Clip(str(clips.path(name))).index.seconds
        np.testing.assert_allclose(np.diff(seconds), np.diff(VARYING) / 1000, atol=1e-9)


def test_frames_without_their_references_are_dropped(clips: Clips, tmp_path: Path) -> None:
    """The index omits the frames that FFmpeg omits at the start of a video that was cut from a longer one."""
    for name, kind in (("h264_open_gop.mp4", "mkv"), ("hevc_open_gop.mp4", "mkv"), ("h264.ts", "ts")):
        path = tmp_path / f"{name}.{kind}"
        with av.open(str(clips.path(name))) as source, av.open(str(path), "w") as cut:
            stream = cut.add_stream_from_template(source.streams.video[0])
            packets = [packet for packet in source.demux(video=0) if packet.size]
            second = [place for place, packet in enumerate(packets) if packet.is_keyframe][1]
            for packet in packets[second - 2 if kind == "ts" else second :]:
                packet.stream = stream
                cut.mux(packet)
        expected = decode_from_start(path)
        clip = Clip(str(path))
        assert len(clip.index) == len(expected)
        decoder = Decoder(clip)
        for number in (len(expected) - 1, 0, 3):
            ((_, frame),) = decoder.decode([number])
            np.testing.assert_array_equal(planes(frame), planes(expected[number]))
        decoder.close()


def test_next_sequence_needs_no_seek(clips: Clips) -> None:
    clip, decoders = Clip(str(clips.path("h264.mp4"))), Decoders(2)
    read_frames(clip, range(8), Pixels(DALIImageType.RGB), decoders)
    with decoders.lend(clip, 8, 15) as first, decoders.lend(clip, 8, 20) as second:
        assert first.next == 8
        assert first.reaches(8)
        assert not first.reaches(7)
        assert not first.reaches(12), "a key frame is nearer"
        assert second.next == 0
        next(iter(second.decode([20])))
    for wanted, expected in ((9, 8), (22, 21), (9, 8)):
        with decoders.lend(clip, wanted, wanted) as nearest:
            assert nearest.next == expected
    decoders.close()


def test_reader_of_the_next_sequence_waits_for_its_decoder(clips: Clips) -> None:
    """Sequences 1 to 3 are requested at once, in any order, while sequence 0 is being decoded."""
    clip, decoders = Clip(str(clips.path("h264.mp4"))), Decoders(4)
    with ThreadPoolExecutor(3) as threads:
        with decoders.lend(clip, 0, 3) as busy:
            waiting = [
                threads.submit(read_frames, clip, range(4 * part, 4 * part + 4), Pixels(DALIImageType.RGB), decoders)
                for part in (1, 2, 3)  # frame 12 is a key frame: that sequence need not wait
            ]
            assert numbers(waiting[2].result(timeout=60)) == [12, 13, 14, 15]
            assert not waiting[0].done()
            assert len(list(busy.decode(range(4)))) == 4
        for part in (0, 1):
            assert numbers(waiting[part].result(timeout=60)) == [*range(4 * part + 4, 4 * part + 8)]
    assert busy.next == 12, "the same decoder gave sequences 0, 1 and 2"
    assert len(decoders._idle) == 2
    decoders.close()


def test_failure_wakes_waiting_readers(clips: Clips) -> None:
    clip, decoders = Clip(str(clips.path("h264.mp4"))), Decoders(4)
    with ThreadPoolExecutor(1) as threads:
        with suppress(KeyError), decoders.lend(clip, 0, 3):
            waiting = threads.submit(read_frames, clip, range(4, 8), Pixels(DALIImageType.RGB), decoders)
            raise KeyError
        assert numbers(waiting.result(timeout=60)) == [4, 5, 6, 7]
    decoders.close()


@pytest.mark.parametrize(
    "name", ["h264_open_gop.mp4", "hevc_open_gop.mp4", "vp9.webm", "mpeg4.avi", "h264_varying.mkv"]
)
def test_decoder_finds_frames_by_seeking_alone(name: str, clips: Clips) -> None:
    """The start of the video is the last resort, if a seek didn't lead to a frame."""
    decoder = Decoder(Clip(str(clips.path(name))))
    container = decoder._container
    for wanted in (35, 12, 30, 39, 1, 20):
        assert len(list(decoder.decode([wanted]))) == 1
        assert decoder._container is container
    decoder.close()


def test_decoders_stay_within_the_limit(clips: Clips) -> None:
    decoders = Decoders(2)
    for name in ("h264.mp4", "mpeg4.mp4", "mjpeg.avi", "h264.mkv"):
        read_frames(Clip(str(clips.path(name))), [3], Pixels(DALIImageType.RGB), decoders)
        assert len(decoders._idle) <= 2
    assert [Path(decoder.clip._source).name for decoder in decoders._idle] == ["mjpeg.avi", "h264.mkv"]
    decoders.close()


@pytest.mark.parametrize(
    ("name", "kept", "message"),
    [
        ("h264.mp4", 0.7, "Invalid data"),  # the index of its frames is at its end
        ("h264_faststart.mp4", 0.7, "truncated within the data of its frame 2"),
        # The content at 0.6, between two fragments or in a frame, depends on the machine that encoded the file.
        ("h264_fragments.mp4", 0.6, "truncated(: its header declares 24 frames| within the data of its frame 2)"),
        ("h264.mkv", 0.5, r"truncated: its header declares 1.600 seconds, but its last frame is shown at 0\."),
        ("vp9.webm", 0.7, r"truncated: its header declares 1.600 seconds, but its last frame is shown at 1\."),
        ("mpeg4.avi", 0.5, "truncated within the data of its frame 1"),
    ],
)
def test_file_that_is_cut_off(name: str, kept: float, message: str, clips: Clips, tmp_path: Path) -> None:
    path = tmp_path / name
    data = clips.path(name).read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(DecodeError, match=f"the file '{path}' can't be decoded: .*{message}"):
        assert Clip(str(path)).index


@pytest.mark.parametrize("name", ["a:b.mp4", "frame%03d.mp4", "https:__x.mp4", "ünï cödé.mp4", "concat:x|y.mp4"])
def test_file_names_of_all_kinds(name: str, clips: Clips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(clips.path("mjpeg.avi").read_bytes())
    for path in (name, str(tmp_path / name)):
        assert len(Clip(path).index) == COUNT


SESSION = b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 0.0.0.0\nt=0 0\nm=video 0 RTP/AVP 96\na=rtpmap:96 H264/90000\n"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("notes.txt", b"Of the clips in this folder\n" * 30),
        ("notes.nfo", b"Of the clips in this folder\n" * 30),
        ("list.ffconcat", b"ffconcat version 1.0\nfile clip.avi\n"),
        ("list.m3u8", b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:2.4,\nclip.avi\n#EXT-X-ENDLIST\n"),
        ("session.mp4", SESSION),
        ("image.png", b""),
        ("image.jpg", b""),
    ],
)
def test_texts_images_and_playlists_are_refused(
    name: str, data: bytes, clips: Clips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clip.avi").write_bytes(clips.path("mjpeg.avi").read_bytes())
    if not data:
        Image.new("RGB", (40, 30)).save(tmp_path / name)
        data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data)
    for source in (str(tmp_path / name), np.frombuffer(data, np.uint8)):
        with pytest.raises(DecodeError, match=r"can't be decoded: (it isn't a video container|Invalid data)"):
            assert Clip(source).index


def test_files_that_are_not_videos_are_refused(tmp_path: Path) -> None:
    (tmp_path / "noise.mp4").write_bytes(np.random.default_rng(1).bytes(5000))
    (tmp_path / "empty.mp4").write_bytes(b"")
    with av.open(str(tmp_path / "sound.mkv"), "w") as file:
        stream = file.add_stream("pcm_s16le", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 1000), np.int16), "s16", "mono")
        sound.sample_rate = 8000
        file.mux(stream.encode(sound))
    for name, message in (
        ("noise.mp4", "Invalid data"),
        ("empty.mp4", "Invalid data"),
        ("sound.mkv", "it has no video"),
        (".", "it is a folder"),
    ):
        with pytest.raises(DecodeError, match=f"the file '{tmp_path / name}' can't be decoded: .*{message}"):
            assert Clip(str(tmp_path / name)).index
    with pytest.raises(PipelineError, match="can't read the file '/none': No such file"):
        assert Clip("/none").index
    with pytest.raises(DecodeError, match="0 encoded bytes can't be decoded: the data is empty"):
        assert Clip(np.empty(0, np.uint8)).index


@pytest.mark.parametrize("name", ["titled.mp4", "titled.mkv", "titled.avi"])
def test_title_in_any_encoding(name: str, clips: Clips, tmp_path: Path) -> None:
    remux(clips.path("mpeg4.mp4"), tmp_path / name, title="Cafe")
    data = (tmp_path / name).read_bytes()
    assert b"Cafe" in data
    (tmp_path / name).write_bytes(data.replace(b"Cafe", "Café".encode("latin-1")))
    assert len(Clip(str(tmp_path / name)).index) == COUNT


def test_unknown_codec_is_an_error(clips: Clips, tmp_path: Path) -> None:
    (tmp_path / "secret.mp4").write_bytes(clips.bytes("h264.mp4").tobytes().replace(b"avc1", b"what"))
    clip = Clip(str(tmp_path / "secret.mp4"))
    for look in (lambda: clip.count, lambda: clip.index):
        with pytest.raises(DecodeError, match=r"secret.mp4' can't be decoded: FFmpeg has no decoder for it"):
            look()


@pytest.mark.parametrize("name", ["h264.mp4", "av1.mp4", "vp9.webm"])
def test_frames_behind_a_damaged_one_are_not_guessed(name: str, clips: Clips) -> None:
    """Up to the next key frame, FFmpeg guesses frames from the data that it has; they look like their neighbours."""
    data = clips.bytes(name)
    with av.open(str(clips.path(name))) as file:
        packet = [packet for packet in file.demux(video=0) if packet.size][17]
        data[packet.pos + 8 : packet.pos + packet.size] = 0
    decoder = Decoder(Clip(data))
    given, refused = [], []
    for wanted in range(COUNT):
        try:
            ((_, frame),) = decoder.decode([wanted])
        except DecodeError as error:
            assert str(error) == f"frame {wanted} of {COUNT} is damaged"  # noqa: PT017
            refused.append(wanted)
        else:
            assert number_of(frame.to_ndarray(format="rgb24")) == wanted
            given.append(wanted)
    decoder.close()
    assert refused
    assert set(refused) <= set(range(12, 24))
    with pytest.raises(DecodeError, match=f"{data.size} encoded bytes can't be decoded: frame {refused[0]} of 40 is"):
        read_frames(Clip(data), [refused[0]], Pixels(DALIImageType.RGB), Decoders(0))
