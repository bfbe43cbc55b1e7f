"""`decoders.video` on a GPU with a cache in its memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._operators.decoding import video
from pipeline import Pipeline, fn
from tests.clips import Clips
from tests.pipeline.kernels import emulator
from tests.pipeline.operators.decoding.test_io_video_gpu import stand_in

av = pytest.importorskip("av")


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "gpu":
        yield
        return
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    monkeypatch.setattr(video, "require_nvdec", lambda: av)
    with stand_in(monkeypatch):
        yield


@pytest.mark.filterwarnings("ignore:.*decoded on the CPU")
def test_frames_are_those_without_a_cache(clips: Clips) -> None:
    names = ("h264.mp4", "h264_open_gop.mp4", "hevc.mkv", "vp9.webm")
    results: dict[int, list[Any]] = {}
    for size in (0, 8):
        with Pipeline(batch_size=4, num_threads=2, device_id=0) as pipe:
            frames = fn.decoders.video(
                fn.external_source(name="data"),
                start_frame=fn.external_source(name="start"),
                sequence_length=5,
                device="mixed",
                cache_size=size,
            )
            pipe.set_outputs(frames)
        results[size] = []
        for start in (0, 3, 0, 3):
            given = {"data": [clips.bytes(name) for name in names], "start": np.full((4, 1), start, np.int64)}
            results[size] += [np.array(sample) for sample in pipe.run(**given)[0].as_cpu()]
        executor = pipe._internals.executor
        assert executor is not None
        assert [cache.report()["cache_hits"] for cache in executor.caches] == ([8] if size else [])
        pipe.close()
    for one, other in zip(*results.values(), strict=True):
        np.testing.assert_array_equal(one, other)
