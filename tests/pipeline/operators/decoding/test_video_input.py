"""`inputs.video`, compared with NVIDIA DALI."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from dali_proxy import DALIServer
from dali_proxy.pipeline._operators.decoding.inputs_video import VideoInput
from pipeline import Pipeline, errors, fn
from tests import host_cupy
from tests.clips import COUNT, Clips, number_of
from tests.pipeline.kernels import emulator


def ours(batch_size: int = 3, **arguments: Any) -> Pipeline:
    with Pipeline(batch_size=batch_size, num_threads=2, device_id=None) as pipe:
        pipe.set_outputs(fn.experimental.inputs.video(name="video", **arguments))
    return pipe


def shown(batch: Any) -> list[list[int]]:
    return [[number_of(frame) for frame in np.array(batch.at(sample))] for sample in range(len(batch))]


@pytest.mark.parity
@pytest.mark.parametrize("policy", ["partial", "pad"])
@pytest.mark.parametrize(("length", "batch_size"), [(6, 3), (8, 5), (16, 2), (50, 1)])
def test_batches_are_those_of_dali(length: int, batch_size: int, policy: str, clips: Clips) -> None:
    dali = pytest.importorskip("nvidia.dali")
    oracle = dali.Pipeline(batch_size=batch_size, num_threads=1, device_id=None, prefetch_queue_depth=1)
    arguments = {"sequence_length": length, "last_sequence_policy": policy}
    with oracle:
        oracle.set_outputs(dali.fn.experimental.inputs.video(name="video", **arguments))
    oracle.build()
    pipe = ours(batch_size, **arguments)
    sequences = -(-COUNT // length)
    for _ in range(2):
        for each in (pipe, oracle):
            each.feed_input("video", [clips.bytes("vp9.webm")])
        for _ in range(-(-sequences // batch_size)):
            (mine,), (theirs,) = pipe.run(), oracle.run()
            assert mine.layout() == theirs.layout()
            assert shown(mine) == shown(theirs)
            for sample in range(len(theirs)):
                assert np.abs(mine.at(sample).astype(int) - np.array(theirs.at(sample))).max() <= 2
    for each in (pipe, oracle):
        with pytest.raises(RuntimeError):
            each.run()
    pipe.close()


def test_videos_come_one_after_the_other(clips: Clips) -> None:
    pipe = ours(batch_size=4, sequence_length=10)
    for name in ("h264.mp4", "hevc.mkv"):
        pipe.feed_input("video", clips.bytes(name)[None])
    for _ in range(2):
        assert shown(pipe.run()[0]) == [[*range(first, first + 10)] for first in (0, 10, 20, 30)]
    pipe.close()


def test_other_operators_continue_from_there(clips: Clips) -> None:
    with Pipeline(batch_size=2, num_threads=2, device_id=None) as pipe:
        frames = fn.inputs.video(name="video", sequence_length=16)
        pipe.set_outputs(fn.resize(frames, resize_x=32), fn.random.uniform(range=(0, 1)))
    (first, numbers), (last, number) = pipe.run(video=[clips.bytes("h264.mp4")]), pipe.run()
    assert first.shape() == [(16, 24, 32, 3)] * 2
    assert last.shape() == [(8, 24, 32, 3)]
    assert (len(numbers), len(number)) == (2, 1)
    pipe.close()


def test_caller_does_not_decode(clips: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    run = VideoInput.run

    def noted(operator: VideoInput, *arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return run(operator, *arguments)

    monkeypatch.setattr(VideoInput, "run", noted)
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed():
        pipe = Pipeline(batch_size=2, num_threads=2, device_id=0)
        with pipe:
            pipe.set_outputs(fn.inputs.video(name="video", sequence_length=16).gpu())
        try:
            pipe.run(video=[clips.bytes("h264.mp4")])
        finally:
            pipe.close()
    assert threads
    assert all(name.startswith("dali-cpu-stage") for name in threads)


def test_input_waits_for_a_video(clips: Clips) -> None:
    pipe = ours(batch_size=4, sequence_length=10, blocking=True)
    pipe.build()
    feeding = threading.Timer(0.05, pipe.feed_input, ("video", [clips.bytes("h264.mp4")]))
    feeding.start()
    assert len(pipe.run()[0]) == 4
    feeding.join()
    pipe.close()


def test_data_that_cannot_be_fed_is_refused(clips: Clips) -> None:
    pipe = ours(sequence_length=10)
    with pytest.raises(errors.DecodeError, match="3000 encoded bytes can't be decoded"):
        pipe.feed_input("video", [np.arange(3000).astype(np.uint8)])
    with pytest.raises(errors.InputError, match="input 'video': expected a batch of one video"):
        pipe.feed_input("video", [clips.bytes("h264.mp4")] * 2)
    with pytest.raises(errors.MissingInputError, match="the input 'video' has no data"):
        pipe.run()
    pipe.close()
    with pytest.raises(errors.PipelineError, match="'sequence_length' must be 1 or more"):
        ours(sequence_length=0).build()


def test_video_input_is_refused_by_a_proxy() -> None:
    with pytest.raises(errors.GraphError, match=r"use fn\.decoders\.video of an fn\.external_source"):
        DALIServer(ours(sequence_length=10))
