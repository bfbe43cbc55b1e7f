"""Jobs that share a cache: jobs that decode with other arguments, and jobs that are killed while others wait."""

from __future__ import annotations

import io
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dali_proxy import DALIServer, DataLoader, attach
from pipeline import fn, pipeline_def, types
from tests.dali_proxy.host.test_jobs import job
from tests.dali_proxy.indexed import IndexDataset
from tests.waiting import PATIENCE_S, wait_until

COUNT = 8
Epoch = list[tuple[list[Any], list[int]]]

#: Arguments of the decoder, and of the resize behind it.
VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"size": (8, 8)}),
    ({"output_type": types.GRAY}, {"size": (8, 8)}),
    ({"output_type": types.BGR}, {"size": (8, 8)}),
    ({"output_type": types.YCbCr}, {"size": (8, 8)}),
    ({"adjust_orientation": False}, {"size": (8, 8)}),
    ({}, {"size": (9, 7)}),
    ({}, {"size": (8, 8), "interp_type": types.INTERP_NN}),
    ({}, {"size": (8, 8), "dtype": types.FLOAT}),
]


@pytest.fixture(autouse=True)
def _runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


class Photos(IndexDataset):
    """JPEGs of noise, all different, which are shown upside down."""

    def __getitem__(self, index: int) -> Any:
        pixels = np.random.default_rng(index).integers(0, 256, (16, 16, 3), np.uint8)
        exif, file = Image.Exif(), io.BytesIO()
        exif[0x0112] = 3  # orientation
        Image.fromarray(pixels).save(file, "JPEG", exif=exif)
        return self.transform(file.getvalue()), index


def epoch(server: DALIServer) -> Epoch:
    loader = DataLoader(server, Photos(COUNT, server.proxy), batch_size=COUNT, num_workers=0)
    return [(images.tolist(), indices.tolist()) for images, indices in loader]


@pipeline_def(batch_size=COUNT, num_threads=1, device_id=None, seed=1)
def decoded(decoding: Any, resizing: Any) -> Any:
    return fn.resize(fn.decoders.image(fn.external_source(name="x"), **decoding), **resizing)


@pipeline_def(batch_size=COUNT, num_threads=1, device_id=None, seed=1)
def gated(folder: Path) -> Any:
    images = fn.decoders.image(fn.external_source(name="x"))
    return fn.python_function(images, function=partial(through_gate, folder), parallel=True, deterministic=True)


def through_gate(folder: Path, image: Any) -> Any:
    """Return an inverted image. The first call waits for the file "open"."""
    try:
        (folder / "claimed").touch(exist_ok=False)
    except FileExistsError:
        return 255 - image
    while not (folder / "open").exists():  # without a time limit: the batch must not end by an error
        time.sleep(0.005)
    return 255 - image


def attach_and_loop(results: Connection) -> None:
    with attach("shared", seed=2) as server:
        epoch(server)


def test_jobs_that_decode_with_other_arguments_get_their_own_data() -> None:
    alone = []
    for variant in VARIANTS:
        with DALIServer(decoded(*variant), mode="thread") as server:
            alone.append(epoch(server))
    assert len(set(map(str, alone))) == len(VARIANTS)
    with ExitStack() as jobs:
        first = jobs.enter_context(DALIServer(decoded(*VARIANTS[0]), name="shared", cache="10MB"))
        servers = [first, *[jobs.enter_context(attach("shared", decoded(*variant))) for variant in VARIANTS[1:]]]
        for _ in range(2):
            assert list(map(epoch, servers)) == alone
        misses = COUNT * len(VARIANTS)
        assert (first.stats().cache_misses, first.stats().cache_hits) == (misses, misses)


def test_job_that_is_killed_before_it_stores_its_samples_lets_others_compute_them(tmp_path: Path) -> None:
    with DALIServer(gated(tmp_path), name="shared", cache="4MB") as server, ThreadPoolExecutor(1) as threads:
        with job(attach_and_loop) as other:
            wait_until((tmp_path / "claimed").exists, "the claim")
            waiting = threads.submit(epoch, server)
            wait_until(lambda: server.stats().cache_misses == 2 * COUNT, "the other job's look-up")
            other.process.kill()
        try:
            found = waiting.result(PATIENCE_S)
        finally:
            (tmp_path / "open").touch()
        assert epoch(server) == found
    with DALIServer(gated(tmp_path), mode="thread") as server:
        assert epoch(server) == found
