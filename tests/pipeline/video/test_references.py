"""Frames without dependants are skipped on the way to others; the returned frames are still exact."""

from __future__ import annotations

import numpy as np
import pytest

from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.decoder import Decoder
from dali_proxy.pipeline._video.references import Unreferenced
from tests.clips import COUNT, Clips, decode_from_start

PictureType = pytest.importorskip("av.video.frame").PictureType

CONFIGURATION = bytes([1, 100, 0, 31, 0xFF])  # lengths of 4 bytes


def packet(*units: tuple[int, int]) -> bytes:
    """Return a packet of units, each given by its importance and its kind."""
    made = [bytes([importance << 5 | kind, 1, 2, 3]) for importance, kind in units]
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in made)


@pytest.mark.parametrize(
    ("units", "unreferenced"),
    [
        ([(0, 1)], True),
        ([(0, 6), (0, 1), (0, 1)], True),  # 6: a unit that isn't a slice
        ([(3, 5)], False),
        ([(2, 1)], False),
        ([(0, 1), (1, 1)], False),  # the second field, or another slice
        ([(0, 6)], False),
        ([], False),
    ],
)
def test_packets(units: list[tuple[int, int]], unreferenced: bool) -> None:
    assert (packet(*units) in Unreferenced("h264", CONFIGURATION)) == unreferenced


def test_frames_not_known_to_be_unreferenced_are_needed() -> None:
    known = Unreferenced("h264", CONFIGURATION)
    good = packet((0, 1))
    assert good in known
    for wrong in (good[:-1], good + b"\0", b"\0\0\0\1" + good[4:], good[:4], good[:2]):
        assert wrong not in known
    for codec, configuration in (("hevc", CONFIGURATION), ("h264", None), ("h264", b"\0\0\0\1g"), ("h264", b"\1")):
        assert good not in Unreferenced(codec, configuration)


@pytest.mark.parametrize("name", ["h264.mp4", "h264_open_gop.mp4", "h264_varying.mkv", "h264_fragments.mp4"])
def test_unreferenced_frames_are_left_out(name: str, clips: Clips) -> None:
    expected = decode_from_start(clips.path(name))
    decoder = Decoder(Clip(str(clips.path(name))))
    left_out = set()
    for wanted in ([11], [5, 10, 15, 20, 25, 30, 35], [3, 22], [COUNT - 1]):
        for number, frame in decoder.decode(wanted):
            np.testing.assert_array_equal(frame.to_ndarray(), expected[number].to_ndarray())
        assert not decoder._skipped & set(wanted)
        left_out |= decoder._skipped
    assert len(left_out) > 5
    assert {expected[number].pict_type for number in left_out} == {int(PictureType.B)}
    decoder.close()


def test_frames_in_order_are_all_decoded(clips: Clips) -> None:
    decoder = Decoder(Clip(str(clips.path("h264.mp4"))))
    assert [number for number, _ in decoder.decode(range(COUNT))] == [*range(COUNT)]
    assert not decoder._skipped
    decoder.close()
