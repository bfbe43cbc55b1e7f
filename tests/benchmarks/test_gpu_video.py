"""The comparison of videos, on the CPU and very small: the code is the same on a GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gpu import video
from benchmarks.gpu.video_clips import Videos
from benchmarks.gpu.video_readers import OursReader


@pytest.mark.timeout(300)  # starting processes takes long on a busy machine
def test_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing rival is named, and the others continue."""
    small = ["--device", "cpu", "--size", "128", "96", "--frames", "48", "--threads", "2", "--codecs", "h264"]
    rivals = ["ours-reader", "no-module"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(video.RIVALS, "no-module", ("a_module_that_is_not_there", ""))
        patch.setattr(video, "GRACE", 150.0)
        options = video.parser().parse_args(
            [*small, "--seconds", "0.05", "--limit", "1000", "--rivals", *rivals, "--output", str(tmp_path)]
        )
        comparison = video.Comparison(options)
        comparison.run()
    assert comparison.right
    (path,) = tmp_path.glob("*-gpu-video.json")
    saved = json.loads(path.read_text())
    assert [(check["rival"], check["mean"]) for check in saved["checks"]] == [("ours-reader", 0.0)]
    assert [(rate["rival"], rate["threads"], rate["shuffle"]) for rate in saved["rates"]] == [
        ("ours-reader", 2, False),
        ("ours-reader", 2, True),
    ]
    assert all(rate["rate"] > 0 for rate in saved["rates"])
    assert saved["failures"]["no-module"] == "a_module_that_is_not_there isn't installed"
    assert len(saved["failures"]) == 1
    assert str(tmp_path) not in path.read_text()
    table = comparison.table()
    assert "| h264 in order, frames/s by threads | 2 | cores |" in table
    assert table.count("| ours-reader |") == 2
    assert "LEFT OUT: no-module" in capsys.readouterr().out


def test_wrong_pixels_are_detected(tmp_path: Path) -> None:
    videos = video.make_videos(str(tmp_path), "h264", 2, (96, 64), 48)
    assert len(videos.paths) == 2
    assert videos.sequences == 3

    class Late(OursReader):
        def first(self, videos: Videos, sequence: int) -> object:
            return super().first(videos, sequence)[[*range(1, 16), 15]]

    assert OursReader(None).check(videos) == {"mean": 0.0, "max": 0.0}
    wrong = Late(None).check(videos)
    assert wrong is not None
    assert wrong["mean"] > video.MEAN_BOUND
