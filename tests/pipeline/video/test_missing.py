"""Errors name the missing component: the library, the driver, the GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.pixels import Pixels
from pipeline.errors import DeviceError
from pipeline.types import DALIImageType
from tests.clips import Clips

ROOT = Path(__file__).resolve().parents[3]

WITHOUT_AV = """
import sys
sys.modules["av"] = None  # what an import of it finds
from pipeline import Pipeline, fn

for operator, arguments in (
    (fn.readers.video, {"filenames": ["a.mp4"], "sequence_length": 1}),
    (fn.inputs.video, {"sequence_length": 1}),
    (lambda: fn.decoders.video(fn.external_source(name="x")), {}),
):
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(operator(**arguments))
    try:
        pipe.build()
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""


def test_missing_library_is_an_error() -> None:
    """Everything else works; operators on videos fail to build with an error that names the package to install."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_AV], cwd=ROOT, capture_output=True, text=True, timeout=150, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line, name in zip(lines, ("readers", "inputs", "decoders"), strict=True):
        assert line.startswith(f"DeviceError fn.{name}.video")
        assert "pip install 'dali-proxy[video]'" in line


def test_missing_nvdec_is_an_error(clips: Clips) -> None:
    """On this machine, the driver's library is missing, or the GPU with that index."""
    with pytest.raises(DeviceError, match=r"libnvcuvid .*NVIDIA_DRIVER_CAPABILITIES|'.*h264.mp4' .*device_id=99"):
        read_frames(Clip(str(clips.path("h264.mp4")), device_id=99), [0], Pixels(DALIImageType.RGB), Decoders(0))
