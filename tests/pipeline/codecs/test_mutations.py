"""A thousand damaged JPEGs: every decoder decodes them or names them, and decodes others as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from torch.utils.data import Dataset

from dali_proxy import DALIServer, DataLoader
from dali_proxy.pipeline._codecs import images
from pipeline import fn, pipeline_def
from pipeline.errors import OperatorError, SampleFailure

COUNT, BATCH = 1000, 50
SEED = 27

Bytes = npt.NDArray[np.uint8]

on_gpu = pytest.mark.gpu


def mutated(data: Bytes, rng: np.random.Generator) -> Bytes:
    """Return a copy of a file with a few random changes."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(2, max(len(changed), 3)))  # the first two bytes say that it is a JPEG
        if rng.random() < 0.5:
            at = min(at, int(rng.integers(2, 700)))  # the headers
        kind = rng.integers(6)
        if kind == 0:
            changed[at : at + 1] = rng.bytes(1)
        elif kind == 1:
            changed[at : at + 1] = bytes([changed[at] ^ (1 << int(rng.integers(8)))]) if at < len(changed) else b""
        elif kind == 2:
            del changed[at:]
        elif kind == 3:
            del changed[at : at + int(rng.integers(1, 40))]
        elif kind == 4:
            changed[at:at] = rng.bytes(int(rng.integers(1, 40)))
        else:
            changed[at : at + 16] = bytes([int(rng.choice([0, 255]))]) * 16
    return np.frombuffer(bytes(changed), np.uint8)


@pytest.fixture(scope="module")
def clean(jpeg_folder: Path) -> list[Bytes]:
    return [np.fromfile(path, np.uint8) for path in sorted(jpeg_folder.rglob("*.jpg"))]


@pytest.fixture(scope="module")
def damaged(clean: list[Bytes]) -> list[Bytes]:
    rng = np.random.default_rng(SEED)
    return [mutated(clean[number % len(clean)], rng) for number in range(COUNT)]


@pipeline_def(batch_size=BATCH, num_threads=4, seed=1, py_num_workers=0)
def decoded(device: str, windows: bool) -> Any:
    encoded = fn.external_source(name="encoded")
    if windows:
        return fn.decoders.image_crop(encoded, device=device, crop=(16, 16))
    return fn.decoders.image(encoded, device=device)


@pytest.mark.timeout(400)  # 16 s alone on an H200, 130 s beside 13 such processes: the engine's states are made in turn
@pytest.mark.parametrize("windows", [False, True], ids=["images", "windows"])
@pytest.mark.parametrize(
    ("device", "engine"),
    [
        ("cpu", False),
        pytest.param("mixed", True, marks=on_gpu, id="engine"),
        pytest.param("mixed", False, marks=on_gpu, id="nvimgcodec"),
    ],
)
def test_decoder_names_the_images_that_it_cannot_decode(
    device: str, engine: bool, windows: bool, clean: list[Bytes], damaged: list[Bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not engine:
        monkeypatch.setattr(images, "_open_engine", lambda *_: None)
    pipe = decoded(device, windows, device_id=None if device == "cpu" else 0)
    pipe.build()
    expected = arrays(pipe, clean)
    count = 0
    for start in range(0, COUNT, BATCH):
        batch = damaged[start : start + BATCH]
        failures = failures_of(pipe, batch)
        assert all(str(failure.error) for failure in failures)
        bad = {failure.sample for failure in failures}
        batch = [data for number, data in enumerate(batch) if number not in bad]
        made = arrays(pipe, batch) if batch else []
        assert all(image.ndim == 3 and image.shape[2] == 3 for image in made)
        assert not windows or all(image.shape[:2] == (16, 16) for image in made)
        count += len(made)
    assert COUNT / 10 < count < COUNT * 0.95
    assert all(map(np.array_equal, arrays(pipe, clean), expected))
    pipe.close()


def failures_of(pipe: Any, encoded: list[Bytes]) -> tuple[SampleFailure, ...]:
    try:
        arrays(pipe, encoded)
    except OperatorError as error:
        if not error.failures:
            raise
        return error.failures
    return ()


def arrays(pipe: Any, encoded: list[Bytes]) -> list[Any]:
    (output,) = pipe.run(encoded=encoded)
    return [np.asarray(image) for image in output.as_cpu()]


class Encoded(Dataset[Any]):
    def __init__(self, images: list[Bytes], transform: Any) -> None:
        self.images, self.transform = images, transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.images[index]), index


@pipeline_def(batch_size=BATCH, num_threads=4, seed=1, py_num_workers=0)
def resized(device: str) -> Any:
    whole = fn.decoders.image(fn.external_source(name="encoded"), device=device)
    return fn.crop_mirror_normalize(fn.resize(whole, size=(32, 32)), mean=[120.0], std=[60.0])


@pytest.mark.timeout(150)
@pytest.mark.filterwarnings("ignore:on_error:RuntimeWarning")
@pytest.mark.parametrize(
    ("device", "placement"),
    [
        ("cpu", "server"),
        pytest.param("mixed", "server", marks=on_gpu),
        pytest.param("mixed", "consumer", marks=on_gpu),
    ],
)
def test_loader_skips_the_images_that_cannot_be_decoded(device: str, placement: Any, damaged: list[Bytes]) -> None:
    damaged = damaged[: COUNT if device == "mixed" else COUNT // 5]
    pipe = resized(device, device_id=None if device == "cpu" else 0)
    with DALIServer(pipe, placement=placement, timeout=60.0) as server:
        loader = DataLoader(server, Encoded(damaged, server.proxy), BATCH, num_workers=1, on_error="skip")
        pid, found = server.pid, []
        for made, indices in loader:
            assert made.shape == (len(indices), 3, 32, 32)
            assert bool(made.isfinite().all())
            found += indices.tolist()
        assert server.pid == pid
        assert found == sorted(found)
        assert len(found) + server.losses.skipped == len(damaged)
        assert len(found) > len(damaged) / 10
