"""Pipelines in two stages: one in the server, one in the consumer. Here, both run on the CPU."""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from dali_proxy import BatchError, DALIServer, DataLoader
from dali_proxy._consumer.device_stage import DeviceStage
from dali_proxy._consumer.pending_requests import AHEAD, FetchAhead
from dali_proxy._server.placement import (
    CORES,
    Placing,
    choose,
    decodes_images,
    idle_cores,
    usable_cores,
)
from dali_proxy._transport.protocol import Fetch
from dali_proxy.pipeline._compiler.partition import Stages, cut
from dali_proxy.pipeline._definition.serializing import deserialize_for_host
from dali_proxy.pipeline._graph import Graph
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentMismatchError, ArgumentValueError, DeviceError, GraphError
from tests.dali_proxy.indexed import IndexDataset, JpegDataset, affine, check_affine
from tests.waiting import wait_until

LATE = ("noise.gaussian", "crop", "crop_mirror_normalize")
HEIGHTS = (6, 8, 7)


def cut_in_the_middle(graph: Graph) -> Stages:
    return cut(graph, lambda node: node.operator in LATE)


class Halved(DALIServer):
    """A server whose `placement="consumer"` leaves some CPU operators to the consumer."""

    _split = staticmethod(cut_in_the_middle)


@pipeline_def(batch_size=4, num_threads=2, seed=3)
def sample_images() -> Any:
    """Return a ragged output, a dense one, one that the host stage draws, and the input; noise and labels cross."""
    x = fn.external_source(name="x")
    noisy = fn.noise.gaussian(fn.flip(x), stddev=fn.random.uniform(range=(1.0, 9.0)))
    mirror = fn.random.coin_flip()
    normal = fn.crop_mirror_normalize(fn.resize(noisy, size=(5, 5)), mirror=mirror)
    return normal, noisy, mirror, fn.crop(x, crop=(6, 4), name="cut"), x


class Images(torch.utils.data.Dataset[Any]):
    """Images of different heights; the image `low` is too low for the crop."""

    def __init__(self, transform: Any, low: int = -1) -> None:
        self.transform = transform
        self.low = low

    def __len__(self) -> int:
        return 22

    def __getitem__(self, index: int) -> Any:
        height = 4 if index == self.low else HEIGHTS[index % 3]
        return (*self.transform(np.full((height, 7, 3), index * 9, np.uint8)), index)


def halved(**options: Any) -> DALIServer:
    return Halved(sample_images(device_id=0), placement="consumer", **options)


@pipeline_def(batch_size=4, num_threads=2, seed=3)
def with_function() -> Any:
    images = fn.python_function(fn.external_source(name="x"), function=lambda image: image)
    return fn.crop_mirror_normalize(fn.resize(images, size=(5, 5)))


@pytest.mark.usefixtures("fresh_servers")
@pytest.mark.parametrize(("pipe", "hidden"), [(sample_images, True), (with_function, False)])
def test_server_of_the_host_stage_sees_no_gpu_unless_the_user_needs_one(
    pipe: Any, hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with Halved(pipe(device_id=0), placement="consumer") as server:
        variables = Path(f"/proc/{server.pid}/environ").read_text().split("\0")
    assert ("CUDA_VISIBLE_DEVICES=" in variables) == hidden
    assert ("CUDA_VISIBLE_DEVICES=0" in variables) != hidden


def tensors(batches: Any) -> list[torch.Tensor]:
    """Return all tensors of the batches, in order."""
    if isinstance(batches, torch.Tensor):
        return [batches]
    return [each for batch in batches for each in tensors(batch)]


@pytest.fixture(scope="module")
def expected() -> list[torch.Tensor]:
    with DALIServer(sample_images(device_id=None)) as server:
        return tensors(list(DataLoader(server, Images(server.proxy), batch_size=4, num_workers=1)))


def check_same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(found) == len(expected)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_stages_give_the_bits_of_one_pipeline(mode: Any, expected: list[torch.Tensor]) -> None:
    with halved(mode=mode) as server:
        loader = DataLoader(server, Images(server.proxy), batch_size=4, num_workers=2)
        held = list(loader)  # all at once: a slot that is reused too early shows as a wrong batch
        check_same(tensors(held), expected)
        stats = server.stats()
        assert (server.placement, stats.placement, stats.placement_reason) == (
            "consumer",
            "consumer",
            "it was requested",
        )
        assert "placement=consumer" in repr(server)
        assert "placement   consumer: it was requested" in str(stats)
        assert any("noise" in name for name in stats.operators), "the steps of both stages"
        assert any("coin_flip" in name for name in stats.operators)
    check_same(tensors(held), expected)  # they outlive the server


def test_loader_of_torch_and_a_pickled_handle() -> None:
    with halved() as server:
        other = pickle.loads(pickle.dumps(server))
        for handle in (server, other):
            dataset = Images(handle.proxy)
            loader = torch.utils.data.DataLoader(dataset, batch_size=2, sampler=[1, 4, 7, 10])
            for batch in loader:
                *_, same, indices = handle.produce_data(batch)
                assert same.shape == (2, 8, 7, 3)
                assert (same[:, 0, 0, 0] == indices * 9).all()
        other.stop()
        assert other.placement == "consumer"


def test_error_of_the_device_stage_names_operator_line_and_dataset_index(mode: Any) -> None:
    def failure(server: DALIServer) -> tuple[BatchError, list[int]]:
        seen = []
        with server:
            iterator = iter(DataLoader(server, Images(server.proxy, low=6), batch_size=4))
            seen += next(iterator)[-1].tolist()
            with pytest.raises(BatchError) as caught:
                next(iterator)
            seen += next(iterator)[-1].tolist()
        return caught.value, seen

    found, seen = failure(halved(mode=mode))
    assert seen == [*range(4), *range(8, 12)]
    assert found.dataset_index == 6
    assert "cut" in found.operator
    assert 'name="cut"' in found.source_line
    assert found.worker == f"main (pid {os.getpid()})"
    assert "crop" in found.remote_traceback
    wanted, _ = failure(DALIServer(sample_images(device_id=None), mode=mode))
    assert str(found).split("submitted by")[0] == str(wanted).split("submitted by")[0]
    assert type(found.__cause__) is type(wanted.__cause__)


@pipeline_def(num_threads=2, device_id=0, batch_size=16)
def decoded() -> Any:
    return fn.crop(fn.decoders.image(fn.external_source(name="encoded"), device="cpu"), crop=(16, 16))


def test_error_of_the_host_stage() -> None:
    with Halved(decoded(), placement="consumer") as server:
        iterator = iter(DataLoader(server, JpegDataset(24, server.proxy), batch_size=8))
        next(iterator)
        with pytest.raises(BatchError) as caught:
            next(iterator)
        assert caught.value.dataset_index == JpegDataset.bad
        assert "decoders.image" in caught.value.operator
        assert next(iterator)[1].tolist() == list(range(16, 24))


def test_batches_survive_a_server_that_dies(expected: list[torch.Tensor]) -> None:
    with halved(restart="on-failure") as server:
        iterator = iter(DataLoader(server, Images(server.proxy), batch_size=4, num_workers=2))
        batches = [next(iterator)]
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        batches += list(iterator)
        check_same(tensors(batches), expected)
        assert server.losses.restarts >= 1


def test_consumer_continues_the_batches_of_several_processes(expected: list[torch.Tensor]) -> None:
    with halved(num_processes=2) as server:
        check_same(tensors(list(DataLoader(server, Images(server.proxy), batch_size=4, num_workers=2))), expected)


def test_pipeline_without_gpu_operators_can_be_placed() -> None:
    pipeline = affine(device_id=0)
    with DALIServer(pipeline, placement="consumer") as server:
        loader = DataLoader(server, IndexDataset(8, server.proxy), batch_size=4)
        assert [index for batch in loader for index in check_affine(*batch)] == list(range(8))


def test_arguments_that_cannot_be_used() -> None:
    with pytest.raises(ArgumentValueError, match='"server", "engine", "cores", "consumer" or "auto", not \'gpu\''):
        DALIServer(affine(device_id=0), placement="gpu")  # type: ignore[arg-type]
    for placement in ("engine", "cores", "consumer", "auto"):
        with pytest.raises(ArgumentMismatchError, match="device_id=None"):
            DALIServer(affine(), placement=placement)  # type: ignore[arg-type]
    assert DALIServer(affine()).placement == "server"


@pipeline_def(batch_size=4, num_threads=8, device_id=0)
def on_gpu() -> Any:
    images = fn.decoders.image_random_crop(fn.external_source(name="encoded"), device="mixed")
    return fn.crop_mirror_normalize(fn.resize(images, size=(8, 8)), mirror=fn.random.coin_flip())


@pytest.mark.parametrize("placement", ["engine", "cores", "consumer"])
def test_missing_gpu_is_an_error_of_start(mode: Any, placement: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    server = DALIServer(on_gpu(), mode=mode, placement=placement)
    with pytest.raises(DeviceError):
        server.start()
    assert not server.running
    assert server.pid is None


def test_server_with_cores_runs_all_on_the_cpu() -> None:
    placing = Placing("cores", on_gpu())
    runs = placing.settle()
    assert (placing.placement, runs.device_id) == ("cores", None)
    assert {node.device for node in runs._internals.graph.nodes} == {"cpu"}
    (stage,) = placing.device_stages
    assert stage is not None
    assert [node.operator for node in deserialize_for_host(stage)._internals.graph.nodes][-1] == "copy_to_gpu"
    options = placing.host_options()
    assert options["device_stage"] == stage, "the server plans the copies"
    assert (options["host_stage_only"], options["hides_gpus"], options["alternatives"]) == (True, True, ())
    assert "placement=cores" in repr(DALIServer(on_gpu(), placement="cores"))


def test_impossible_placement_is_an_error_at_once() -> None:
    class Wrong(DALIServer):
        _split = staticmethod(lambda graph: cut(graph, lambda node: node.schema.fed))

    with pytest.raises(GraphError, match=r"fn.external_source \(name='x'\) reads data"):
        Wrong(affine(device_id=0), placement="consumer")


@pytest.mark.parametrize(
    ("idle", "num_threads", "placement", "reason"),
    [
        (16.0, 16, "consumer", "16.0 idle cores"),
        (float(CORES), CORES - 1, "consumer", "6.0 idle cores"),
        (CORES - 0.1, 16, "engine", "5.9 idle cores, decoding on the CPU needs 6"),
        (0.0, 16, "engine", "0.0 idle cores"),
        (16.0, CORES - 2, "engine", "num_threads=4, decoding on the CPU needs 5"),
    ],
)
def test_auto_follows_its_rule(idle: float, num_threads: int, placement: str, reason: str) -> None:
    choice = choose(idle, num_threads)
    assert choice.placement == placement
    assert choice.reason.startswith(reason)


def test_usable_cores() -> None:
    assert usable_cores([1.0, 0.5, 0.0], None, 1) == 1.5
    assert usable_cores([1.0] * 16, 4.0, 1) == 4.0
    assert usable_cores([1.0] * 16, None, 8) == 2.0
    assert 0.0 <= idle_cores() <= (os.cpu_count() or 1)


def test_auto_chooses_once_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    placing = Placing("auto", on_gpu())
    assert placing.placement == "auto"
    with caplog.at_level(logging.INFO, "dali_proxy"):
        runs = placing.settle()
    assert placing.placement in ("engine", "consumer")
    assert "idle cores" in placing.reason
    assert [record.getMessage() for record in caplog.records] == [f"placement={placing.placement!r}: {placing.reason}"]
    assert [stage is not None for stage in placing.device_stages] == [name != "server" for name in placing.names]
    assert set(placing.names) == {"server", "engine", "cores", "consumer"}
    assert not decodes_images(runs._internals.graph)
    assert runs.device_id is None
    caplog.clear()
    placing.settle()
    assert not caplog.records
    assert pickle.loads(pickle.dumps(placing)).placement == placing.placement


def measure_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a trial measure each candidate for one batch."""
    short = {"loop_rate._SECONDS": 0.0, "loop_rate._BATCHES": 1, "trial._SETTLE": 0.0, "trial._LONGEST": 0.0}
    for name, value in short.items():
        monkeypatch.setattr(f"dali_proxy._server.{name}", value)


def test_auto_measures_all_placements_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def loader(server: DALIServer) -> Any:
        return DataLoader(server, Images(server.proxy), batch_size=4, sampler=[*range(22)] * 20, num_workers=1)

    with DALIServer(sample_images(device_id=None)) as server:
        expected = tensors(list(loader(server)))
    monkeypatch.setattr("dali_proxy._server.placement.decodes_images", lambda graph: True)
    monkeypatch.setattr("dali_proxy._loader.flight._LARGEST", 1)
    measure_briefly(monkeypatch)
    caplog.set_level(logging.INFO, "dali_proxy")
    with Halved(sample_images(device_id=0), placement="auto") as server:
        variants = set()
        found = []
        for batch in loader(server):
            found += tensors([batch])
            variants.add(server.consumer.variant)
        check_same(found, expected)
        assert variants == {0, 1, 2, 3}
        stats = server.stats()
        assert stats.placement in ("server", "engine", "cores", "consumer")
        assert stats.placement_reason.startswith("batches/s of the loop: ")
        assert "not measured" not in stats.placement_reason
        assert f"placement={stats.placement!r}: {stats.placement_reason}" in caplog.messages


class Sizes(Images):
    """Images of which every other one is large, so that the host stages of some batches overtake those of others."""

    def __getitem__(self, index: int) -> Any:
        height = 4 if index % 8 < 4 else 800
        return self.transform(np.full((height, height, 3), index, np.uint8))


def test_functions_in_the_consumer_get_the_batches_in_order() -> None:
    calls = itertools.count()

    def numbered(image: Any) -> Any:
        return np.array([next(calls), image.flat[0]])

    @pipeline_def(batch_size=4, num_threads=2)
    def with_state() -> Any:
        return fn.python_function(fn.resize(fn.external_source(name="x"), size=(5, 5)), function=numbered)

    class Split(DALIServer):
        _split = staticmethod(lambda graph: cut(graph, lambda node: node.operator == "python_function"))

    with Split(with_state(device_id=0), placement="consumer") as server:
        sampler = [*range(22)] * 10
        loader = DataLoader(server, Sizes(server.proxy), batch_size=4, sampler=sampler, num_workers=1)
        found = torch.cat([batch[0] if isinstance(batch, tuple | list) else batch for batch in loader])
    assert found[:, 1].tolist() == sampler
    assert found[:, 0].tolist() == list(range(220))


def test_auto_leaves_out_a_placement_that_cannot_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._server.placement.decodes_images", lambda graph: True)
    measure_briefly(monkeypatch)
    attempts: list[int] = []

    def fail_first(data: bytes) -> Any:
        attempts.append(len(data))
        if len(attempts) == 1:
            raise DeviceError("no GPU is free")
        return deserialize_for_host(data)

    monkeypatch.setattr("dali_proxy._host.host.deserialize_for_host", fail_first)
    with Halved(sample_images(device_id=0), mode="thread", placement="auto") as server:
        loader = DataLoader(server, Images(server.proxy), batch_size=4, sampler=[*range(22)] * 400, num_workers=1)
        variants = set()
        for _ in loader:
            variants.add(server.consumer.variant)
            if variants == {0, 2, 3} and "not measured" in server.stats().placement_reason:
                break  # on a busy machine, building takes longer than many batches
        assert variants == {0, 2, 3}
        assert len(attempts) == 3, "it isn't tried again"
        reason = server.stats().placement_reason
        assert "not measured (DeviceError: no GPU is free" in reason


@pytest.mark.parametrize("error", [DeviceError, GraphError])
def test_auto_leaves_out_a_placement_that_the_consumer_cannot_build(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dali_proxy._server.placement.decodes_images", lambda graph: True)
    measure_briefly(monkeypatch)
    built: list[bytes] = []

    def fail_second(pipeline: bytes) -> DeviceStage:
        built.append(pipeline)
        if len(built) == 2:
            raise error("no GPU is free")
        return DeviceStage(pipeline)

    monkeypatch.setattr("dali_proxy._consumer.device_stage.DeviceStage", fail_second)
    with Halved(sample_images(device_id=0), placement="auto") as server:
        loader = DataLoader(server, Images(server.proxy), batch_size=4, sampler=[*range(22)] * 400, num_workers=1)
        for _ in loader:
            if "not measured (no GPU is free" in server.stats().placement_reason:
                break
        else:
            raise AssertionError(server.stats().placement_reason)


def test_failed_build_is_reported_to_the_consumer_that_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._server.placement.decodes_images", lambda graph: True)
    begun, asked = threading.Event(), threading.Event()

    def fail(data: bytes) -> Any:
        begun.set()
        asked.wait(20)
        raise DeviceError("no GPU is free")

    monkeypatch.setattr("dali_proxy._host.host.deserialize_for_host", fail)
    with Halved(sample_images(device_id=0), mode="thread", placement="auto") as server:
        other = pickle.loads(pickle.dumps(server))
        first, last = server.consumer, other.consumer
        assert first is not last
        first.place(1, measured=False)
        assert begun.wait(20)
        last.place(1, measured=False)
        last.statistics()  # the host has read both
        asked.set()
        wait_until(lambda: last.statistics() and last.refused)
        first.statistics()
        assert "no GPU is free" in last.refused[1]
        assert not first.refused


def test_auto_stays_with_the_server_where_nothing_is_decoded() -> None:
    with DALIServer(affine(device_id=0), placement="auto") as server:
        assert server.placement == "server"
        assert server.stats().placement_reason == "no images are decoded on the GPU"


@pytest.fixture
def two_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._consumer.pending_requests._MOST", AHEAD)


@pytest.mark.usefixtures("two_ahead")
def test_measured_form_computes_only_what_the_loop_needs_soon() -> None:
    with DALIServer(affine(), mode="thread") as server:
        server.consumer.place(0, measured=True)
        loader = DataLoader(server, IndexDataset(128, server.proxy), batch_size=2, num_workers=1, prefetch_factor=64)
        scheduler = server._life.host._host._runner._scheduler  # type: ignore[union-attr]
        iterator = iter(loader)
        for taken in range(1, 4):
            next(iterator)
            wait_until(lambda: scheduler.queued > 0 == scheduler.running)
            assert server.stats().batches <= taken + AHEAD + scheduler.depth
        server.consumer.place(0, measured=False)
        wait_until(lambda: server.stats().batches == 64)
        assert server.consumer.computed is None
        server.consumer.place(0, measured=True)
        assert len(list(iterator)) == 64 - 3


def measured(server: DALIServer, batches: int, ahead: int) -> tuple[Any, Any]:
    """Return the scheduler of a server whose form is measured, and an iterator whose worker gets chunks ahead."""
    server.consumer.place(0, measured=True)
    data = IndexDataset(2 * batches, server.proxy)
    iterator = iter(DataLoader(server, data, batch_size=2, num_workers=1, prefetch_factor=ahead))
    scheduler = server._life.host._host._runner._scheduler  # type: ignore[union-attr]
    next(iterator)
    return scheduler, iterator


@pytest.mark.usefixtures("two_ahead")
def test_measured_form_computes_what_a_consumer_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._host.measured._LONGEST", 3600.0)
    with DALIServer(affine(), mode="thread") as server:
        scheduler, iterator = measured(server, 32, ahead=32)
        wait_until(lambda: server.stats().batches + scheduler.queued == 32 and not scheduler.running)
        ((*_, (_, last)),) = map(sorted, scheduler._waiting.values())
        server.consumer._channel.post(Fetch(last.worker.client, last.seq))
        wait_until(lambda: server.stats().batches == 32)
        assert len(list(iterator)) == 31


@pytest.mark.usefixtures("two_ahead")
def test_measured_form_computes_what_fills_the_memory_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop waits for a chunk, whose worker waits until the host has read some of its batches."""
    monkeypatch.setattr("dali_proxy._host.measured._LONGEST", 3600.0)
    with DALIServer(affine(), mode="thread", arena_bytes=256, arena_bytes_limit=256) as server:
        _, iterator = measured(server, 256, ahead=2)
        assert len(list(iterator)) == 255


@pytest.mark.usefixtures("two_ahead")
def test_measured_form_holds_no_batch_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._host.measured._LONGEST", 0.4)
    with DALIServer(affine(), mode="thread") as server:
        _, iterator = measured(server, 64, ahead=64)
        wait_until(lambda: server.stats().batches == 64)
        assert len(list(iterator)) == 63


def test_batches_are_computed_before_they_are_requested(two_ahead: None) -> None:
    def made_by_device_stage() -> int:
        return max(times.batches for name, times in server.stats().operators.items() if "crop_mirror" in name)

    with halved() as server:
        iterator = iter(DataLoader(server, Images(server.proxy), batch_size=2, num_workers=1, prefetch_factor=8))
        next(iterator)
        wait_until(lambda: made_by_device_stage() == 1 + AHEAD)
        next(iterator)  # takes one of them, so that another one is computed
        wait_until(lambda: made_by_device_stage() == 2 + AHEAD)
        del iterator  # which discards unused batches
        wait_until(lambda: not server.consumer._requests)
        check_first = next(iter(DataLoader(server, Images(server.proxy), batch_size=2)))
        assert check_first[-1].tolist() == [0, 1]


def test_results_are_sent_before_they_are_requested(two_ahead: None) -> None:
    with DALIServer(affine(), mode="thread") as server:
        loader = DataLoader(server, IndexDataset(32, server.proxy), batch_size=4, num_workers=1, prefetch_factor=8)
        iterator = iter(loader)
        next(iterator)
        wait_until(lambda: server.stats().batches == 8)  # all batches
        wait_until(lambda: server.stats().waiting_results == 8 - 1 - AHEAD)
        next(iterator)  # takes one of them, so that another one is sent
        wait_until(lambda: server.stats().waiting_results == 8 - 2 - AHEAD)
        del iterator  # which discards unused results
        wait_until(lambda: not server.consumer._requests)
        pool = server._life.host._host._publisher.pool  # type: ignore[union-attr]
        wait_until(lambda: server.stats().waiting_results == pool.stats().lent == 0)  # this reads messages


def test_early_results_are_limited_by_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._consumer.pending_requests._NBYTES", 1000)
    ahead = FetchAhead()
    results = ahead.open(7)
    assert results.advance(0) == AHEAD
    assert ahead.arrive(7, (1, 0), 0)
    ahead.note_size(7, 100)
    assert results.depth == 10
    assert results.advance(1) == 11
    assert results.advance(2) is None, "the server may send enough for now"
    assert results.advance(4) == 14
    assert ahead.arrive(7, (1, 1), 1)
    assert results.unused(1) == [(1, 0)]
    ahead.note_size(7, 10_000)
    assert results.depth == AHEAD
    ahead.forget((1, 0))
    assert ahead.close(7) == {(1, 1)}
    assert ahead.close(7) == set()
    assert not ahead.arrive(7, (1, 2), 2)
