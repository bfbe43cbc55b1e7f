"""The main job on a GPU gives the same results as on the CPU, within the rounding of the decoder."""

from __future__ import annotations

import io
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import dali_proxy
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._operator_api.joined_batches import MergedBatch
from pipeline import errors, fn, pipeline_def

pytestmark = pytest.mark.gpu

BATCH = 8
PLACEMENTS = ["server", "engine", "cores", "consumer"]
PLACED = [("thread", "server"), *(("process", placement) for placement in PLACEMENTS)]


@pytest.fixture(scope="module")
def sample_images(jpeg_folder: Any) -> list[np.ndarray[Any, Any]]:
    """Return encoded images without chroma subsampling: for these, decoders differ only by rounding."""
    encoded = []
    for path in sorted(jpeg_folder.rglob("*.jpg")):
        buffer = io.BytesIO()
        Image.open(path).convert("RGB").save(buffer, "jpeg", quality=92, subsampling=0)
        encoded.append(np.frombuffer(buffer.getvalue(), np.uint8))
    return encoded


class Encoded(torch.utils.data.Dataset[Any]):
    def __init__(self, sample_images: Any, transform: Any, repeat: int = 3) -> None:
        self.images, self.transform, self.repeat = sample_images, transform, repeat

    def __len__(self) -> int:
        return len(self.images) * self.repeat

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.images[index % len(self.images)]), index


@pipeline_def(batch_size=BATCH, num_threads=2, seed=3)
def image_pipe(device: str, random: bool = True) -> Any:
    encoded = fn.external_source(name="images", no_copy=True)
    if random:
        images = fn.decoders.image_random_crop(encoded, device=device, random_area=(0.5, 1.0))
    else:
        images = fn.decoders.image(encoded, device=device)
    images = fn.resize(images, size=(96, 96))
    mirror = fn.random.coin_flip()
    return fn.crop_mirror_normalize(images, mirror=mirror, mean=[120.0], std=[60.0])


def epoch(sample_images: Any, device: str, mode: str, placement: Any = "server", **arguments: Any) -> list[Any]:
    pipe = image_pipe(device, device_id=None if device == "cpu" else 0, **arguments)
    with dali_proxy.DALIServer(pipe, mode=mode, placement=placement) as server:
        dataset = Encoded(sample_images, server.proxy)
        loader = dali_proxy.DataLoader(server, dataset, batch_size=BATCH, num_workers=2)
        held = list(loader)  # holds all batches at once, so that a slot that is reused too early gives a wrong batch
        return [(images.cpu(), indices, images.device.type) for images, indices in held]


def which_images(found: list[Any], expected: list[Any]) -> str:
    """Describe each wrong image by the expected image that is nearest to it: is it another sample, or none of them?"""
    images, others = (torch.cat([batch for batch, *_ in epoch]) for epoch in (expected, found))
    lines = []
    for position, image in enumerate(others):
        differences = (images - image).abs().mean(dim=(1, 2, 3)) * 60
        if differences[position] > 1:
            nearest = int(differences.argmin())
            lines.append(
                f"image {position % BATCH} of batch {position // BATCH}: mean {image.mean():.2f}, differs by "
                f"{differences[position]:.1f}, from image {nearest % BATCH} of batch {nearest // BATCH} by "
                f"{differences[nearest]:.1f}"
            )
    return "\n".join(lines)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["process", "thread"])
@pytest.mark.parametrize("random", [False, True])
def test_gpu_equals_cpu(sample_images: Any, mode: str, random: bool) -> None:
    expected = epoch(sample_images, "cpu", "process", random=random)
    found = epoch(sample_images, "mixed", mode, random=random)
    assert len(expected) == len(found)
    worst = mean = 0.0
    for (images, indices, _), (other, other_indices, kind) in zip(expected, found, strict=True):
        assert kind == "cuda"
        assert indices.tolist() == other_indices.tolist()
        difference = (images - other).abs() * 60  # in levels of 255
        worst, mean = max(worst, float(difference.max())), max(mean, float(difference.mean()))
    print(f"\n{mode}, random={random}: largest difference {worst:.2f} of 255, largest mean of a batch {mean:.4f}")
    assert worst <= 4, which_images(found, expected)
    assert mean < 0.5


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["process", "thread"])
@pytest.mark.parametrize("placement", PLACEMENTS[1:])
@pytest.mark.parametrize("random", [False, True])
def test_placements_give_the_same_batches(sample_images: Any, mode: str, placement: Any, random: bool) -> None:
    expected = epoch(sample_images, "mixed", mode, random=random)
    found = epoch(sample_images, "mixed", mode, placement=placement, random=random)
    assert len(expected) == len(found)
    worst = 0.0
    for (images, indices, _), (other, other_indices, kind) in zip(expected, found, strict=True):
        assert kind == "cuda"
        assert indices.tolist() == other_indices.tolist()
        worst = max(worst, float((images - other).abs().max()) * 60)  # in levels of 255
    print(f"\n{mode}, random={random}: largest difference of the placements {worst:.2f} of 255")
    assert worst <= 2


@pytest.mark.gpu_alone
@pytest.mark.timeout(300)
@pytest.mark.parametrize("placement", ["engine", "consumer"])
def test_server_uses_no_memory_of_the_gpu(sample_images: Any, placement: Any) -> None:
    with dali_proxy.DALIServer(image_pipe("mixed", device_id=0), placement=placement) as server:
        loader = dali_proxy.DataLoader(server, Encoded(sample_images, server.proxy), batch_size=BATCH, num_workers=2)
        assert sum(len(indices) for _, indices in loader) == len(loader.dataset)
        mapped = {line.split()[-1] for line in Path(f"/proc/{server.pid}/maps").read_text().splitlines()}
        assert any("numpy" in each for each in mapped)
        assert not [each for each in mapped if "cupy" in each]
        steps = server.stats().operators
        assert any(name in step for step in steps for name in ("copy_to_gpu", "decoders"))
        with_server = _free_bytes()
    # A context takes more than half a gigabyte.
    assert _free_bytes() - with_server < 200 << 20


def _free_bytes() -> int:
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("placement", ["engine", "consumer"])
def test_images_are_read_from_pinned_memory_of_the_server(sample_images: Any, placement: Any) -> None:
    with dali_proxy.DALIServer(image_pipe("mixed", device_id=0, random=False), placement=placement) as server:
        batches = list(
            dali_proxy.DataLoader(server, Encoded(sample_images, server.proxy), batch_size=BATCH, num_workers=1)
        )
        assert len(batches) > 3
        pinned = [each for each in server.consumer._opener.cpu._pinned.values() if each is not None]
        assert pinned, "slots for images are pinned"
        del batches


@pytest.mark.timeout(300)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_batches_continue_after_the_server_was_killed(sample_images: Any, placement: Any) -> None:
    pipe = image_pipe("mixed", device_id=0)
    expected = [images for images, _, _ in epoch(sample_images, "mixed", "process", placement=placement)]
    with dali_proxy.DALIServer(pipe, placement=placement, restart="on-failure") as server:
        loader = dali_proxy.DataLoader(server, Encoded(sample_images, server.proxy), batch_size=BATCH, num_workers=2)
        iterator = iter(loader)
        found = [next(iterator)[0].cpu()]
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        found += [images.cpu() for images, _ in iterator]
        assert server.losses.restarts >= 1
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pipeline_def(batch_size=BATCH, num_threads=2)
def cropped() -> Any:
    return fn.crop(fn.decoders.image(fn.external_source(name="images"), device="mixed"), crop=(90, 90), name="cut")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("placement", ["engine", "consumer"])
def test_gpu_error_names_operator_line_and_dataset_index(sample_images: Any, placement: Any) -> None:
    low = io.BytesIO()
    Image.new("RGB", (120, 60)).save(low, "jpeg")
    mixed = list(sample_images)
    mixed[BATCH + 3] = np.frombuffer(low.getvalue(), np.uint8)
    with dali_proxy.DALIServer(cropped(device_id=0), placement=placement) as server:
        iterator = iter(dali_proxy.DataLoader(server, Encoded(mixed, server.proxy, 1), batch_size=BATCH))
        assert next(iterator)[1].tolist() == list(range(BATCH))
        with pytest.raises(dali_proxy.BatchError) as caught:
            next(iterator)
        assert caught.value.dataset_index == BATCH + 3
        assert "cut" in caught.value.operator
        assert 'name="cut"' in caught.value.source_line
        assert next(iterator)[1].tolist() == list(range(2 * BATCH, 3 * BATCH))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_damaged_image_is_named_and_other_formats_are_decoded(sample_images: Any, placement: Any) -> None:
    progressive = io.BytesIO()
    Image.new("RGB", (120, 100), (200, 40, 90)).save(progressive, "jpeg", progressive=True)
    mixed = list(sample_images)
    mixed[2] = np.frombuffer(progressive.getvalue(), np.uint8)
    mixed[BATCH + 3] = mixed[BATCH + 3][:200]
    with dali_proxy.DALIServer(cropped(device_id=0), placement=placement) as server:
        iterator = iter(dali_proxy.DataLoader(server, Encoded(mixed, server.proxy, 1), batch_size=BATCH, num_workers=1))
        first, _ = next(iterator)
        assert (first[2].float().mean((0, 1)).cpu() - torch.tensor([200.0, 40, 90])).abs().max() < 3
        with pytest.raises(dali_proxy.BatchError) as caught:
            next(iterator)
        assert caught.value.dataset_index == BATCH + 3
        assert "decoders.image" in caught.value.operator
        assert next(iterator)[1].tolist() == list(range(2 * BATCH, 3 * BATCH))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("capture", ["thread_local", "global"])
@pytest.mark.parametrize(("mode", "placement"), [("thread", "server"), ("process", "engine")])
def test_graph_is_captured_while_images_are_decoded(
    sample_images: Any, mode: str, placement: Any, capture: str
) -> None:
    expected = [images for images, *_ in epoch(sample_images, "mixed", mode, placement=placement)]
    with dali_proxy.DALIServer(image_pipe("mixed", device_id=0), mode=mode, placement=placement) as server:
        loader = dali_proxy.DataLoader(server, Encoded(sample_images, server.proxy), batch_size=BATCH, num_workers=2)
        batches = iter(loader)
        found = [next(batches)[0].cpu()]
        total, graph = torch.zeros(1, device="cuda:0"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=capture):
            total += 1
            time.sleep(0.3)  # the next batches are decoded
        graph.replay()
        found += [images.cpu() for images, _ in batches]
        assert total.item() == 1
    assert all(map(torch.equal, found, expected))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_work_of_the_training_and_of_the_pipeline_do_not_overwrite_each_other(
    sample_images: Any, mode: str, placement: Any
) -> None:
    with dali_proxy.DALIServer(image_pipe("mixed", device_id=0), mode=mode, placement=placement) as server:
        dataset = Encoded(sample_images, server.proxy, repeat=20)
        loader = dali_proxy.DataLoader(server, dataset, batch_size=BATCH, num_workers=2, persistent_workers=True)
        sums = []
        for _ in range(2):
            of_epoch = []
            for images, _ in loader:
                for _ in range(20):  # keeps the stream busy, so that a slot that is reused too early is detected
                    images = images * 1.0
                of_epoch.append(images.double().sum())
            sums.append(torch.stack(of_epoch).cpu())
    with dali_proxy.DALIServer(image_pipe("mixed", device_id=0), mode=mode, placement=placement) as server:
        dataset = Encoded(sample_images, server.proxy, repeat=20)
        loader = dali_proxy.DataLoader(server, dataset, batch_size=BATCH, num_workers=1)
        again = []
        for images, _ in loader:
            torch.cuda.synchronize()
            again.append(images.double().sum().cpu())
    assert torch.equal(sums[0], torch.stack(again)), "the same seed, epoch and batches"
    assert not torch.equal(sums[0], sums[1]), "epochs differ"


@pipeline_def(batch_size=BATCH, num_threads=2)
def ragged_pipe() -> Any:
    images = fn.decoders.image(fn.external_source(name="images"), device="mixed")
    return images, fn.resize(images, size=(0, 40))  # samples of the second output differ only in height


class Two(Encoded):
    def __getitem__(self, index: int) -> Any:
        (images, narrow), _ = super().__getitem__(index)
        return images, narrow


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_ragged_outputs(sample_images: Any, mode: str, placement: Any) -> None:
    def outputs(ragged: Any) -> list[Any]:
        loader = dali_proxy.DataLoader(server, Two(sample_images, server.proxy), BATCH, num_workers=1, ragged=ragged)
        return [output for batch in loader for output in batch]

    with dali_proxy.DALIServer(ragged_pipe(device_id=0), mode=mode, placement=placement) as server:
        lists, nested, padded = (outputs(ragged) for ragged in ("list", "nested", "pad"))
        layouts = set()
        for samples, one, other in zip(lists, nested, padded, strict=True):
            assert isinstance(samples, list)
            assert one.is_nested
            assert one.is_cuda
            assert other.is_cuda
            layouts.add(one.layout)
            for sample, unbound, place in zip(samples, one.unbind(), other, strict=True):
                height, width, _ = sample.shape
                assert torch.equal(sample, unbound)
                assert torch.equal(sample, place[:height, :width])
        assert torch.jagged in layouts
        assert torch.strided in layouts
        del lists, nested, padded, samples, one, other, sample, unbound, place


@pytest.mark.timeout(120)
@pytest.mark.parametrize("ragged", ["list", "nested", "pad"])
def test_ragged_outputs_in_pinned_memory(ragged: Any) -> None:
    numbers = [np.arange(index % 5 + 1, dtype=np.float32) for index in range(16)]
    with dali_proxy.DALIServer(doubled(device_id=None)) as server:
        loader = dali_proxy.DataLoader(server, Encoded(numbers, server.proxy, 1), 8, pin_memory=True, ragged=ragged)
        for batch, indices in loader:
            samples = batch.unbind() if ragged == "nested" else batch
            assert all(sample.is_pinned() for sample in samples)
            for sample, index in zip(samples, indices.tolist(), strict=True):
                assert sample[: index % 5 + 1].tolist() == (numbers[index] * 2).tolist()


@pipeline_def(batch_size=BATCH, num_threads=2)
def doubled() -> Any:
    return fn.external_source(name="images") * 2.0


@pytest.mark.timeout(120)
def test_epoch_resumes_in_the_middle(sample_images: Any) -> None:
    def loader_of(server: dali_proxy.DALIServer, num_workers: int) -> dali_proxy.DataLoader:
        order = torch.Generator().manual_seed(1)
        dataset = Encoded(sample_images, server.proxy)
        return dali_proxy.DataLoader(
            server, dataset, BATCH, shuffle=True, generator=order, num_workers=num_workers, drop_last=True
        )

    with dali_proxy.DALIServer(image_pipe("mixed", device_id=0)) as server:
        loader = loader_of(server, 2)
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = loader.state_dict()
        rest = [images.cpu() for images, _ in iterator]
    with dali_proxy.DALIServer(image_pipe("mixed", device_id=0), mode="thread") as server:
        loader = loader_of(server, 1)
        loader.load_state_dict(state)
        again = [images.cpu() for images, _ in loader]
    assert len(rest) == len(again) == 6
    assert all(torch.equal(one, other) for one, other in zip(rest, again, strict=True))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_corrupt_image_costs_its_batch_only(sample_images: Any, mode: str, placement: Any) -> None:
    damaged = list(sample_images)
    damaged[BATCH + 2] = damaged[BATCH + 2][:200]
    with dali_proxy.DALIServer(image_pipe("mixed", device_id=0), mode=mode, placement=placement) as server:
        iterator = iter(dali_proxy.DataLoader(server, Encoded(damaged, server.proxy, 1), batch_size=BATCH))
        assert next(iterator)[1].tolist() == list(range(BATCH))
        with pytest.raises(dali_proxy.BatchError, match=str(BATCH + 2)) as caught:
            next(iterator)
        assert str(caught.value.dataset_index) == str(BATCH + 2)
        assert "decoders.image" in caught.value.operator
        assert next(iterator)[1].tolist() == list(range(2 * BATCH, 3 * BATCH))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, None])
def test_shared_memory_holds_nothing_of_the_driver_afterwards(sample_images: Any, end: signal.Signals | None) -> None:
    with dali_proxy.DALIServer(image_pipe("mixed", device_id=0)) as server:
        next(iter(dali_proxy.DataLoader(server, Encoded(sample_images, server.proxy), batch_size=BATCH)))
        pid = server.pid
        assert pid is not None
        if end is not None:
            os.kill(pid, end)
    assert not list(Path("/dev/shm").glob(f"cuda.shm.*.{pid:x}.*"))


def test_missing_gpu_is_an_error_of_start() -> None:
    server = dali_proxy.DALIServer(image_pipe("mixed", device_id=77))
    with pytest.raises(errors.DeviceError, match="device_id=77"):
        server.start()


@pytest.mark.parametrize("random", [True, False])
def test_batches_that_run_as_one_have_the_bits_of_single_ones(
    sample_images: Any, monkeypatch: pytest.MonkeyPatch, random: bool
) -> None:
    expected = epoch(sample_images, "mixed", "thread", random=random)
    merged: list[int] = []
    init, start = MergedBatch.__init__, Executor._start_threads

    def record(self: MergedBatch, *arguments: Any) -> None:
        init(self, *arguments)
        merged.append(self.size)

    def start_wide(self: Executor) -> None:
        start(self)
        self.concurrency = 12
        self.widen(12)

    monkeypatch.setattr(MergedBatch, "__init__", record)
    monkeypatch.setattr(Executor, "_start_threads", start_wide)
    found = epoch(sample_images, "mixed", "thread", random=random)
    assert merged
    for (one, indices, _), (other, others, _) in zip(expected, found, strict=True):
        assert torch.equal(one, other)
        assert torch.equal(indices, others)
