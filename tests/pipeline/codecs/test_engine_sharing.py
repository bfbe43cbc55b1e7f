"""Processes that share the JPEG engine of a GPU all finish: with libnvjpeg called carelessly, they deadlock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dali_proxy.pipeline._codecs import ImageBatchDecoder, missing_codec_reason
from tests.environment import ROOT, with_project

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(missing_codec_reason() is not None, reason=str(missing_codec_reason())),
]

PROCESSES = 15
BATCHES = 400
"""When calls began on streams with work, each process stopped before its 150th batch."""
OTHERS = 2
"""Processes that keep the GPU busy with kernels."""

DECODE = """
import itertools, pathlib, sys
import numpy as np
from pipeline import fn, pipeline_def

folder, batches = pathlib.Path(sys.argv[1]), int(sys.argv[2])
samples = itertools.cycle([np.fromfile(path, np.uint8) for path in sorted(folder.rglob("*.jpg"))])
sizes = itertools.cycle([8, 8, 8, 8, 5])

@pipeline_def(batch_size=8, num_threads=2, device_id=0, prefetch_queue_depth=4, seed=3)
def decoded():
    encoded = fn.external_source(lambda: list(itertools.islice(samples, next(sizes))), batch=True)
    images = fn.resize(fn.decoders.image_random_crop(encoded, device="mixed"), size=(96, 96))
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[120.0], std=[60.0])

pipe = decoded()
print(sum(len(pipe.run()[0]) for _ in range(batches)))
"""


MULTIPLY = """
import os
import cupy
numbers, parent = cupy.ones((64, 3, 96, 96), cupy.float32), os.getppid()
while os.getppid() == parent:
    for _ in range(200):
        numbers = numbers * 1.0
    cupy.cuda.get_current_stream().synchronize()
"""


@pytest.mark.timeout(280)
def test_processes_that_share_the_engine_all_finish(jpeg_folder: Path) -> None:
    with ImageBatchDecoder(0, num_threads=1) as decoder:
        if decoder._engine is None:
            pytest.skip("needs a JPEG engine")
    command = [sys.executable, "-c", DECODE, str(jpeg_folder), str(BATCHES)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    others: list[Any] = []
    processes: list[Any] = []
    try:
        others += [subprocess.Popen([sys.executable, "-c", MULTIPLY]) for _ in range(OTHERS)]
        processes += [subprocess.Popen(command, cwd=ROOT, env=with_project(), **pipes) for _ in range(PROCESSES)]
        for process in processes:
            output, errors = process.communicate(timeout=240)
            assert process.returncode == 0, errors
            assert int(output) == BATCHES // 5 * (4 * 8 + 5)
        assert all(process.poll() is None for process in others)
    finally:
        for process in [*processes, *others]:
            process.kill()
            process.communicate()
