"""Videos of several cameras through a server: workers send paths and times, and samples share decoded frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import Dataset

from dali_proxy import BatchError, DALIServer, DataLoader
from pipeline import dynamic
from tests.clips import COUNT, Clips, number_of

pytest.importorskip("av")

CAMERAS = ("h264.mp4", "h264_open_gop.mp4", "av1.mp4")


def cameras(front: Any, left: Any, wrist: Any, times: Any) -> Any:
    return {
        "front": dynamic.video(front, times=times),
        "left": dynamic.video(left, times=times),
        "wrist": dynamic.video(wrist, times=times),
    }


class Moments(Dataset[Any]):
    """Sample i has the frames i - 1 and i of each camera, at the start of the video the first one twice."""

    def __init__(self, server: DALIServer, paths: dict[str, Any]) -> None:
        self.server, self.paths = server, paths

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        times = np.array([max(index - 1, 0), index]) / 25
        return {**self.server.proxy(**self.paths, times=times, sample_name=f"moment {index}"), "index": index}


def check(batch: Any) -> int:
    """Check the frames of a batch, and return its size."""
    for position, index in enumerate(batch["index"].tolist()):
        for name in ("front", "left", "wrist"):
            shown = [number_of(frame.numpy()) for frame in batch[name][position]]
            assert shown == [max(index - 1, 0), index], (name, index)
    return len(batch["index"])


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_several_cameras_share_frames(
    serve: Callable[..., DALIServer], clips: Clips, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clips.folder)  # relative paths are those of the dataset
    paths = {"front": CAMERAS[0], "left": Path(CAMERAS[1]), "wrist": str(clips.path(CAMERAS[2])).encode()}
    assert [clips.path(name).exists() for name in CAMERAS] == [True] * 3
    server = serve(cameras, batch_size=4, num_threads=2)
    loader = DataLoader(server, Moments(server, paths), batch_size=4, shuffle=True, num_workers=workers)
    assert sum(check(batch) for batch in loader) == COUNT
    stats = server.stats()
    assert stats.video_used == 3 * 2 * COUNT
    assert 3 * COUNT <= stats.video_decoded <= 3 * COUNT * 1.3
    assert stats.video_hits > stats.video_used / 2
    assert 0 < stats.video_bytes <= stats.video_limit
    assert "6" in str(stats).partition("video  ")[2]


def test_damaged_video_fails_its_batch_and_names_file_and_sample(
    serve: Callable[..., DALIServer], clips: Clips, tmp_path: Path
) -> None:
    (tmp_path / "cut.mp4").write_bytes(clips.path(CAMERAS[0]).read_bytes()[:900])
    server = serve(cameras, batch_size=2, num_threads=2)
    paths = {"front": clips.path(CAMERAS[0]), "left": clips.path(CAMERAS[1]), "wrist": tmp_path / "cut.mp4"}
    with pytest.raises(BatchError, match=r"(?s)sample [01]: the file '.*cut\.mp4' can't be decoded: .*moment [01]"):
        list(DataLoader(server, Moments(server, paths), batch_size=2))
    missing = {**paths, "left": tmp_path / "missing.mp4", "wrist": clips.path(CAMERAS[2])}
    with pytest.raises(BatchError, match=r"can't read the file '.*missing\.mp4'") as caught:
        list(DataLoader(server, Moments(server, missing), batch_size=2))
    assert set(caught.value.paths) == {str(tmp_path / "missing.mp4")}
    assert "file:" not in str(caught.value)
    good = Moments(server, {**paths, "wrist": clips.path(CAMERAS[2])})
    assert sum(check(batch) for batch in DataLoader(server, good, batch_size=2)) == COUNT
