"""Videos share decoder contexts: tested on the CPU, where they decode the same frames as on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.contexts import Contexts
from dali_proxy.pipeline._video.decoder import Decoder
from dali_proxy.pipeline._video.frames import Decoders
from tests.clips import KINDS, Kind, decode_from_start, encode

BEGIN = 61  # number of the second clip's first frame
SOME = [0, 1, 17, 3, 4, 39, 0, 25]  # begins without a seek, and ends with frames that no request takes


def decoded(decoder: Decoder) -> list[Any]:
    """Return the luma of a few frames."""
    return [
        np.asarray(frame.reformat(format="gray").to_ndarray())
        for wanted in SOME
        for _, frame in decoder.decode([wanted])
    ]


@pytest.mark.parametrize(
    "name",
    [
        "h264.mp4",
        "h264_open_gop.mp4",
        "hevc_open_gop.mp4",
        "vp9.webm",
        "av1.mp4",
        "mpeg4.avi",
    ],
)
def test_frames_are_those_of_the_other_video(name: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}-{name}" for number in range(2)]
    for path, begin in zip(paths, (0, BEGIN), strict=True):
        encode(path, KINDS[name], begin=begin)
    contexts = Contexts(1)
    used = []
    for path in [paths[0], paths[1], paths[0]]:
        decoder = Decoder(Clip(str(path)), contexts)
        used.append(decoder._context)
        frames = decode_from_start(path)
        expected = [frames[number].reformat(format="gray").to_ndarray() for number in SOME]
        np.testing.assert_array_equal(decoded(decoder), expected)
        decoder.close(reuse=True)
    assert used[0] is used[1] is used[2]


def test_decoders_are_shared_by_videos_of_one_encoding(tmp_path: Path) -> None:
    kinds = {"a.mp4": KINDS["h264.mp4"], "b.mp4": Kind("libx264", "keyint=5:ref=1"), "c.mkv": KINDS["h264.mkv"]}
    for name, kind in kinds.items():
        encode(tmp_path / name, kind, 5)
    encode(tmp_path / "d.mp4", kinds["a.mp4"], 5, size=(50, 64))
    first, *others = (Clip(str(tmp_path / name)) for name in (*kinds, "d.mp4"))
    contexts = Contexts(4)
    Decoder(first, contexts).close(reuse=True)
    assert all(contexts.take(other.encoding) is None for other in others)
    assert contexts.take(first.encoding) is not None
    assert contexts.take(first.encoding) is None


def test_decoders_stay_within_the_limit(tmp_path: Path) -> None:
    for number in range(3):
        encode(tmp_path / f"{number}.mp4", KINDS["h264.mp4"], 3, size=(48 + 16 * number, 64))
    videos = [Clip(str(tmp_path / f"{number}.mp4")) for number in range(3)]
    contexts = Contexts(2)
    for clip in videos:
        Decoder(clip, contexts).close(reuse=True)
    assert [contexts.take(clip.encoding) is not None for clip in videos] == [False, True, True]
    Decoder(videos[0], contexts).close(reuse=True)
    contexts.close()
    assert contexts.take(videos[0].encoding) is None


def test_decoders_are_not_shared_after_errors(tmp_path: Path) -> None:
    path = tmp_path / "damaged.mp4"
    encode(path, KINDS["mjpeg.mp4"])
    clip = Clip(str(path))
    contexts = Contexts(1)
    decoder = Decoder(clip, contexts)
    decoder._error = ValueError("an error of FFmpeg's")
    decoder.close(reuse=True)
    assert contexts.take(clip.encoding) is None
    Decoder(clip, contexts).close()
    assert contexts.take(clip.encoding) is None


def test_unused_decoders_make_room_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU is a fake: the CPU decodes for it."""
    monkeypatch.setattr(Clip, "decoded_by", 0)
    monkeypatch.setattr(Clip, "open", lambda self, contexts=None: _open(self, contexts))
    made = []

    def _open(clip: Clip, contexts: Contexts | None) -> Any:
        container, stream = clip._open()
        context = contexts.take(clip.encoding) if contexts is not None else None
        made.append(context is None)
        return container, stream, context or stream.codec_context

    videos = []
    for number in range(5):
        encode(tmp_path / f"{number}.mp4", KINDS["h264.mp4"], 10, begin=number)
        videos.append(Clip(str(tmp_path / f"{number}.mp4")))
    decoders = Decoders(2)
    for clip in [*videos, *videos]:
        with decoders.lend(clip, 0, 3) as decoder:
            assert [number for number, _ in decoder.decode(range(4))] == [0, 1, 2, 3]
    assert sum(made) == 2
    decoders.close()
