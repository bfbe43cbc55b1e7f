"""Who decodes a group of pictures: NVDEC, or a core."""

from __future__ import annotations

import pytest

from dali_proxy.pipeline._video.nvdec_queue import _AGE, NvdecQueue


def full_queue(codec: str = "h264") -> NvdecQueue:
    """Return a queue of one decoder that is full, and takes 1 ms for each pixel."""
    queue = NvdecQueue()
    assert queue.enter(codec, 1)
    queue.leave(codec, True, 1000, 1.0)
    assert queue.enter(codec, 1)
    assert queue.enter(codec, 1)
    return queue


def test_first_groups_measure_nvdec() -> None:
    queue = NvdecQueue()
    assert all(queue.enter("h264", 1) for _ in range(10))


def test_one_core_at_a_time_measures() -> None:
    queue = full_queue()
    assert not queue.enter("h264", 1)
    assert queue.enter("h264", 1)
    queue.leave("h264", False, 0, 1.0)  # an error: nothing was measured
    assert not queue.enter("h264", 1)


def test_cores_that_are_fast_decode_while_the_queue_is_full() -> None:
    queue = full_queue()
    assert not queue.enter("h264", 1)
    queue.leave("h264", False, 1000, 0.9)
    assert not any(queue.enter("h264", 1) for _ in range(10))
    queue.leave("h264", True, 1000, 1.0)
    assert queue.enter("h264", 1)


def test_slow_cores_are_measured_again_after_a_while() -> None:
    queue = full_queue()
    assert not queue.enter("h264", 1)
    queue.leave("h264", False, 1000, 1.1)
    assert sum(not queue.enter("h264", 1) for _ in range(_AGE)) == 1


def test_more_decoders_have_more_room() -> None:
    queue = full_queue()
    assert all(queue.enter("h264", 3) for _ in range(4))
    assert not queue.enter("h264", 3)


@pytest.mark.parametrize("codec", ["mpeg2video", "mpeg4", "vc1"])
def test_codecs_without_exact_bits_stay_with_nvdec(codec: str) -> None:
    queue = full_queue(codec)
    assert all(queue.enter(codec, 1) for _ in range(2 * _AGE))
