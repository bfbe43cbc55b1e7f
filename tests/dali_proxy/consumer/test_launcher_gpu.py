"""Batches that the server prepared, on a GPU: bit-identical to those of an executor."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from dali_proxy import BatchError, DALIServer, DataLoader
from dali_proxy._consumer import device_stage
from dali_proxy._server import placement
from pipeline import fn, pipeline_def, types
from tests.waiting import wait_until

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

BATCH = 16


@pipeline_def(batch_size=BATCH, num_threads=2, seed=3, device_id=0)
def job() -> Any:
    """Two chains over the same images, with one and several output sizes; numbers on the GPU and the CPU."""
    images = fn.external_source(name="x").gpu()
    number = fn.external_source(name="number")
    normal = fn.crop_mirror_normalize(
        fn.random_resized_crop(images, size=(112, 96)),
        mirror=fn.random.coin_flip(),
        mean=[120.0, 110.0, 100.0],
        std=[60.0, 61.0, 62.0],
    )
    narrow = fn.crop_mirror_normalize(
        fn.resize(images, resize_shorter=64, interp_type=types.INTERP_CUBIC), dtype=types.FLOAT16, output_layout="HWC"
    )
    return normal, narrow, images, number.gpu(), fn.random.uniform(), number


class Noise(torch.utils.data.Dataset[Any]):
    """Images of different sizes. Those of the batch `odd` have five channels; the image `low` is empty."""

    def __init__(self, transform: Any, length: int = 6 * BATCH, odd: int = -1, low: int = -1) -> None:
        self.transform, self.length, self.odd, self.low = transform, length, odd, low

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        rng = np.random.default_rng(index)
        height = 0 if index == self.low else 100 + index % 7 * 20
        x = rng.integers(0, 256, (height, 150 - index % 5, 5 if index // BATCH == self.odd else 3), np.uint8)
        return (*self.transform(x=x, number=np.int64(index)), index)


def on_cpu(value: Any) -> Any:
    return [on_cpu(each) for each in value] if isinstance(value, list | tuple) else value.cpu()


def epoch(server: DALIServer, dataset: Any, **options: Any) -> list[Any]:
    held = list(DataLoader(server, dataset, batch_size=BATCH, **{"num_workers": 2, **options}))
    for normal, narrow, images, number, drawn, same, _ in held:
        assert normal.is_cuda
        assert number.is_cuda
        assert all(each.is_cuda for each in (*narrow, *images))
        assert not drawn.is_cuda
        assert not same.is_cuda
    return [on_cpu(batch) for batch in held]  # all at once: memory that is reused too early shows as a wrong batch


@pytest.fixture
def by_executor(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let servers prepare nothing until `undo`: an executor in this process runs all batches."""
    for module in (placement, device_stage):
        monkeypatch.setattr(module, "simple_derivations", lambda graph: None)
    return monkeypatch


def check(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check(one, other)
    else:
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


def prepared(server: DALIServer) -> int:
    """Return how many batches the server has prepared: with all operators on the GPU, which aren't only copies."""
    return sum(
        times.batches
        for name, times in server.stats().operators.items()
        if "copy" in name and len(set(name.split(" → "))) > 1
    )


@pytest.mark.parametrize(
    ("mode", "start", "pin"),
    [("process", "fork", "1"), ("process", "spawn", "1"), ("thread", "fork", "1"), ("process", "fork", "0")],
)
def test_launcher_computes_the_bits_of_an_executor(
    by_executor: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch, mode: Any, start: str, pin: str
) -> None:
    with DALIServer(job(), mode=mode, placement="consumer") as server:
        expected = epoch(server, Noise(server.proxy))
        assert not prepared(server)
    by_executor.undo()
    monkeypatch.setenv("DALI_PROXY_PIN", pin)
    with DALIServer(job(), mode=mode, placement="consumer") as server:
        check(epoch(server, Noise(server.proxy), multiprocessing_context=start), expected)
        assert prepared(server) == 6
        view = server.consumer._opener.cpu
        assert any(each is not None for each in view._pinned.values()) == (pin == "1")


def test_images_that_the_kernel_does_not_accept_use_separate_operators(by_executor: pytest.MonkeyPatch) -> None:
    with DALIServer(mixed(), placement="consumer") as server:
        expected = [on_cpu(batch) for batch in DataLoader(server, Noise(server.proxy, odd=1), BATCH)]
    by_executor.undo()
    with DALIServer(mixed(), placement="consumer") as server:
        found = [on_cpu(batch) for batch in DataLoader(server, Noise(server.proxy, odd=1), BATCH)]
        assert prepared(server) == 5
    check(found, expected)


@pipeline_def(batch_size=BATCH, num_threads=2, seed=3, device_id=0)
def mixed() -> Any:
    images = fn.resize(fn.external_source(name="x").gpu(), size=(32, 48))
    return fn.crop_mirror_normalize(images, mean=[100.0], std=[50.0]), fn.external_source(name="number")


def test_error_names_operator_line_and_dataset_index() -> None:
    with DALIServer(mixed(), placement="consumer") as server:
        iterator = iter(DataLoader(server, Noise(server.proxy, low=BATCH + 3), BATCH))
        assert next(iterator)[-1].tolist() == list(range(BATCH))
        with pytest.raises(BatchError) as caught:
            next(iterator)
        assert caught.value.dataset_index == BATCH + 3
        assert "resize" in caught.value.operator
        assert "test_launcher_gpu.py" in caught.value.source_line
        assert next(iterator)[-1].tolist() == list(range(2 * BATCH, 3 * BATCH))


def test_memory_is_bounded_and_slots_come_back() -> None:
    with DALIServer(mixed(), mode="thread", placement="consumer") as server:
        dataset = Noise(server.proxy, length=60 * BATCH)
        torch.cuda.synchronize()
        before = torch.cuda.memory_reserved()
        total = torch.zeros((), device="cuda")
        for images, *_ in DataLoader(server, dataset, BATCH, num_workers=2):
            total += images.sum()
        most = torch.cuda.memory_reserved() - before
        assert most < 64 << 20, "a batch is 3 MB, and a result 0.3"
        del images, _
        gc.collect()
        publisher = server._life.host._host._publisher  # type: ignore[union-attr]
        # Any request to the server also returns the slots that the GPU has read.
        wait_until(lambda: prepared(server) == 60 and publisher.pool.stats().lent == 0)
        assert publisher.pool.stats().nbytes < 64 << 20


def test_batches_from_inference_mode_can_be_trained_on() -> None:
    with DALIServer(mixed(), placement="consumer") as server:
        iterator = iter(DataLoader(server, Noise(server.proxy), BATCH))
        with torch.inference_mode():
            for _ in range(3):
                next(iterator)
        images = next(iterator)[0]
        assert not images.is_inference()
        weight = torch.ones(images.shape[1:], device="cuda", requires_grad=True)
        (images * weight).sum().backward()
        assert torch.allclose(weight.grad, images.sum(0), atol=1e-3)


def test_stream_of_the_user_waits_for_the_data() -> None:
    with DALIServer(mixed(), placement="consumer") as server:
        expected = [on_cpu(batch) for batch in DataLoader(server, Noise(server.proxy), BATCH)]
        found = []
        with torch.cuda.stream(torch.cuda.Stream()):
            for images, *rest in DataLoader(server, Noise(server.proxy), BATCH):
                busy = torch.ones(2048, 2048, device="cuda")
                for _ in range(20):
                    busy = busy @ busy * 1e-4  # so that later work is delayed
                doubled = images * 2
                found.append((doubled, rest))
                del images  # its memory may be reused, but not before `doubled` was computed
            torch.cuda.synchronize()
        for (doubled, rest), (images, *others) in zip(found, expected, strict=True):
            assert torch.equal(doubled.cpu(), images * 2)
            check(on_cpu(rest), others)
