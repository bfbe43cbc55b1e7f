"""The frames that a pool gives up, and those that it keeps."""

from __future__ import annotations

from dali_proxy.pipeline._video.held_frames import HeldFrames


def held(limit: int, frames: dict[str, bool]) -> HeldFrames:
    """Return a pool with frames of one byte: whether each is wanted, by key."""
    made = HeldFrames(limit)
    for key, wanted in frames.items():
        made.put(key, key, 1, wanted)
    return made


def test_used_frames_are_given_up_first() -> None:
    frames = held(3, {"a": False, "b": False, "c": True})
    assert frames.take("b", wanted=False) == "b"
    frames.put("d", "d", 1, wanted=False)
    assert [key for key in "abcd" if key in frames] == ["a", "c", "d"]


def test_unused_frames_are_given_up_before_wanted_ones() -> None:
    frames = held(2, {"a": True, "b": False})
    frames.put("c", "c", 1, wanted=True)
    assert [key for key in "abc" if key in frames] == ["a", "c"]


def test_newest_of_the_wanted_frames_is_given_up() -> None:
    frames = held(2, {"a": True, "b": True, "c": True})
    assert [key for key in "abc" if key in frames] == ["a", "b"]


def test_frame_that_is_no_longer_wanted_is_given_up() -> None:
    frames = held(2, {"a": True, "b": True})
    frames.note("a", wanted=False)
    frames.put("c", "c", 1, wanted=True)
    assert [key for key in "abc" if key in frames] == ["b", "c"]
    frames.note("b", wanted=True)
    assert frames.take("b", wanted=False) == "b"


def test_limit_is_kept() -> None:
    frames = HeldFrames(10)
    frames.put("large", b"", 11, wanted=True)
    assert "large" not in frames
    assert frames.nbytes == 0
    for number in range(9):
        frames.put(number, b"", 3, wanted=bool(number % 2))
        assert frames.nbytes <= 10
    frames.drop(lambda key: True)
    assert frames.nbytes == 0
