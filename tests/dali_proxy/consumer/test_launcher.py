"""Batches that the server prepared for the consumer's GPU. Here, the CPU stands for the GPU: see `HostStream`."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data
from msgspec.structs import replace

from dali_proxy import BatchError, DALIServer, DataLoader
from dali_proxy._consumer import device_stage
from dali_proxy._consumer.launcher import Launcher
from dali_proxy._transport import slot_view
from dali_proxy._transport.opener import ResultOpener
from dali_proxy._transport.publisher import ResultPublisher
from dali_proxy.pipeline._compiler.device_planner import PlannedBatch, Planner
from dali_proxy.pipeline._compiler.partition import stages_by_device
from dali_proxy.pipeline._cuda.errors import CudaError
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._rng import BatchKey
from pipeline import Pipeline, fn, pipeline_def
from pipeline.errors import DeviceError
from pipeline.tensors import TensorListCPU
from tests.dali_proxy.host_stream import Event as HostEvent
from tests.dali_proxy.host_stream import HostStream
from tests.pipeline.kernels import emulator
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(emulator.COMPILER is None, reason="needs a C++ compiler")

BATCH = 4


class Registered:
    """Memory that looks registered with CUDA."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__


@pytest.fixture
def streams(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[HostStream]:
    """Return the opened streams, which replace CUDA; "bounced" stands for memory that can't be pinned."""
    opened: list[HostStream] = []

    def open_stream(device_id: int) -> HostStream:
        opened.append(HostStream(device_id))
        return opened[-1]

    monkeypatch.setattr(device_stage, "SideStream", open_stream)
    pins = getattr(request, "param", "pinned") == "pinned"
    monkeypatch.setattr(slot_view.PinnedMemory, "from_memory", lambda memory, _: Registered(memory) if pins else None)
    return opened


@pipeline_def(batch_size=BATCH, num_threads=2, seed=3)
def job(device: str) -> Any:
    """Images cropped at random and mirrored, with one output size and with several; numbers on the GPU and the CPU."""
    x = fn.external_source(name="x")
    number = fn.external_source(name="number")
    images = x.gpu() if device == "gpu" else x
    normal = fn.crop_mirror_normalize(
        fn.random_resized_crop(images, size=(12, 14), seed=4), mirror=fn.random.coin_flip(seed=5), std=[50.0]
    )
    narrow = fn.crop_mirror_normalize(fn.resize(images, size=(0, 9), subpixel_scale=False), std=[50.0])
    return normal, narrow, number.gpu() if device == "gpu" else number, fn.random.uniform(seed=6), number


class Numbered(torch.utils.data.Dataset[Any]):
    """Noise of different sizes. The sample `odd` has a different number of channels, the sample `low` has few rows."""

    def __init__(self, transform: Any, odd: int = -1, low: int = -1) -> None:
        self.transform, self.odd, self.low = transform, odd, low

    def __len__(self) -> int:
        return 22

    def __getitem__(self, index: int) -> Any:
        rng = np.random.default_rng(index)
        height = 8 if index == self.low else 20 + index % 3 * 7
        x = rng.integers(0, 256, (height, 30 - index % 5, 1 if index == self.odd else 3), np.uint8)
        return (*self.transform(x=x, number=np.int64(index)), index)


def epoch(server: DALIServer) -> list[Any]:
    loader = DataLoader(server, Numbered(server.proxy), batch_size=BATCH, num_workers=2)
    return list(loader)  # all at once: memory that is reused too early shows as a wrong batch


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    with DALIServer(job("cpu", device_id=None)) as server:
        return epoch(server)


def check(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one[0].shape == (*other[0].shape,)
        for made, wanted in ((one[0], other[0]), *zip(one[1], other[1], strict=True)):
            assert made.shape == wanted.shape
            assert float((made - wanted).abs().max()) * 50 <= 1.01, "a level of 255, where the values are rounded"
        for made, wanted in zip(one[2:], other[2:], strict=True):
            assert torch.equal(made, wanted)


@pytest.mark.parametrize(
    ("streams", "mode"), [("pinned", "process"), ("bounced", "process"), ("pinned", "thread")], indirect=["streams"]
)
def test_epoch(streams: list[HostStream], expected: list[Any], mode: Any) -> None:
    with DALIServer(job("gpu", device_id=0), mode=mode, placement="consumer") as server:
        found = epoch(server)
        check(found, expected)
        (stream,) = streams
        batches = len(found)
        assert (stream.launches, stream.copies) == (2 * batches, 2 * batches), "images with their tables, and numbers"
        assert stream.bounced in (0, 2 * batches)
        for normal, narrow, numbers, _, _, _ in found:
            for memory in (normal, narrow[0], numbers):
                assert memory.untyped_storage().data_ptr() in stream.waited_for
        assert not server.consumer._stages.get(0)._runs, "no executor was created"  # type: ignore[union-attr]
        steps = server.stats().operators
        assert steps["plan for the consumer's GPU"].batches == batches
        (name,) = [name for name in steps if "copy_to_gpu" in name]
        assert "crop_mirror_normalize" in name
        assert steps[name].batches == batches
    assert stream.closed
    check(found, expected)  # they outlive the server


def test_batches_survive_a_server_that_dies(streams: list[HostStream], expected: list[Any]) -> None:
    with DALIServer(job("gpu", device_id=0), placement="consumer", restart="on-failure") as server:
        iterator = iter(DataLoader(server, Numbered(server.proxy), batch_size=BATCH, num_workers=2))
        batches = [next(iterator)]
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        batches += list(iterator)
        check(batches, expected)
        assert server.losses.restarts >= 1
    assert all(stream.closed for stream in streams)


def test_epoch_after_an_abandoned_one(streams: list[HostStream], expected: list[Any]) -> None:
    with DALIServer(job("gpu", device_id=0), mode="thread", placement="consumer") as server:
        iterator = iter(DataLoader(server, Numbered(server.proxy), batch_size=BATCH, num_workers=2))
        check([next(iterator)], expected[:1])
        del iterator
        wait_until(lambda: not server.consumer._requests)
        check(epoch(server), expected)
        streams[0].work()  # the unused work, too
        pool = server._life.host._host._publisher.pool  # type: ignore[union-attr]
        wait_until(lambda: server.stats().waiting_results == pool.stats().lent == 0)  # a request returns slots


def test_images_that_the_kernel_refuses_use_the_executor(streams: list[HostStream]) -> None:
    """An executor processes them; it finds no GPU here."""
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with DALIServer(job("gpu", device_id=0), placement="consumer") as server:
        iterator = iter(DataLoader(server, Numbered(server.proxy, odd=5), batch_size=BATCH))
        assert next(iterator)[-1].tolist() == [0, 1, 2, 3]
        with pytest.raises(BatchError) as caught:
            next(iterator)
        assert isinstance(caught.value.__cause__, DeviceError)
        assert next(iterator)[-1].tolist() == [8, 9, 10, 11]


@pipeline_def(batch_size=BATCH, num_threads=2)
def cut() -> Any:
    images = fn.resize(fn.external_source(name="x").gpu(), size=(0, 12), subpixel_scale=False)
    return fn.crop_mirror_normalize(images, crop=(7, 12), name="cut"), fn.external_source(name="number")


def test_error_names_operator_line_and_dataset_index(streams: list[HostStream]) -> None:
    with DALIServer(cut(device_id=0), placement="consumer") as server:
        iterator = iter(DataLoader(server, Numbered(server.proxy, low=6), batch_size=BATCH))
        assert next(iterator)[-1].tolist() == [0, 1, 2, 3]
        with pytest.raises(BatchError) as caught:
            next(iterator)
        assert caught.value.dataset_index == 6
        assert "cut" in caught.value.operator
        assert 'name="cut"' in caught.value.source_line
        assert caught.value.worker == f"main (pid {os.getpid()})"
        assert next(iterator)[-1].tolist() == [8, 9, 10, 11]


def test_error_of_the_gpu_costs_its_batch_only(streams: list[HostStream], monkeypatch: pytest.MonkeyPatch) -> None:
    launch = HostStream.launch

    def failing(stream: HostStream, *arguments: Any) -> None:
        if stream.launches == 2:
            stream.launches += 1
            raise CudaError("launch of evaluate", "no reason")
        launch(stream, *arguments)

    monkeypatch.setattr(HostStream, "launch", failing)
    with DALIServer(job("gpu", device_id=0), placement="consumer") as server:
        iterator = iter(DataLoader(server, Numbered(server.proxy), batch_size=BATCH))
        assert next(iterator)[-1].tolist() == [0, 1, 2, 3]
        with pytest.raises(BatchError, match="no reason") as caught:
            next(iterator)
        assert "crop_mirror_normalize" in caught.value.operator
        assert next(iterator)[-1].tolist() == [8, 9, 10, 11]


def test_first_error_of_the_gpu_is_raised_though_others_follow(
    streams: list[HostStream], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(stream: HostStream, *arguments: Any) -> None:
        raise CudaError(f"call with {len(arguments)} arguments", "no reason")

    with DALIServer(job("gpu", device_id=0), placement="consumer") as server:
        iterator = iter(DataLoader(server, Numbered(server.proxy), batch_size=BATCH, num_workers=0))
        with monkeypatch.context() as patch:
            patch.setattr(HostStream, "launch", failing)
            patch.setattr(HostStream, "record_event", failing)
            with pytest.raises(BatchError, match="call with 3 arguments"):
                next(iterator)


class Connected:
    """A publisher and a launcher in one process, connected directly."""

    def __init__(self) -> None:
        self.publisher = ResultPublisher()
        self.account = self.publisher.account()
        fds = [os.dup(fd) for fd in self.account.control_fds]
        self.opener = ResultOpener(fds, self.account.control_nbytes)
        self.streams: list[HostStream] = []
        self.launcher = Launcher(0, self._open_stream)

    def _open_stream(self, device_id: int) -> HostStream:
        self.streams.append(HostStream(device_id))
        return self.streams[-1]

    def publish(self, planned: PlannedBatch) -> tuple[Any, list[Any]]:
        result, fds = self.publisher.publish(self.account, 1, 2, self.publisher.stage_planned(planned))
        arrays, pinned = self.opener.open_prepared(result, [os.dup(fd) for fd in fds])
        assert not any(pinned)
        return result.prepared, arrays

    @property
    def lent(self) -> int:
        return self.publisher.pool.stats().lent

    def close(self) -> None:
        self.launcher.close()
        self.opener.close()
        self.account.close()
        self.publisher.close()


@pytest.fixture
def connected() -> Iterator[Connected]:
    made = Connected()
    yield made
    for stream in made.streams:
        stream.work()
    made.close()


def planner(define: Callable[[Any], Any]) -> Planner:
    pipe = Pipeline(batch_size=BATCH, num_threads=1, device_id=0, seed=1)
    with pipe:
        outputs = define(fn.external_source(name="x"))
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    return Planner(stages_by_device(pipe._internals.graph).device, pipe._internals.arguments.executor_config())


def noise(*heights: int) -> TensorListCPU:
    rng = np.random.default_rng(1)
    return TensorListCPU([rng.integers(0, 256, (height, 10, 3), np.uint8) for height in heights])


def small(x: Any) -> Any:
    return fn.crop_mirror_normalize(fn.resize(x.gpu(), size=(5, 6)))


def test_slot_is_returned_once_after_its_copy_has_ended(connected: Connected) -> None:
    plan = planner(small)
    made = []
    for round_ in range(3):
        planned = plan.plan([noise(8, 9, 10, 11)], BatchKey(0, round_))
        assert planned is not None
        prepared, arrays = connected.publish(planned)
        made.append(connected.launcher.issue(prepared, arrays, pinned=[True]))
        del arrays
        gc.collect()
        assert connected.lent == round_ + 1, "the GPU hasn't read them"
    (stream,) = connected.streams
    stream.work()
    connected.launcher.release_finished()
    assert connected.lent == 0
    assert connected.publisher.pool.stats().slots == 3
    tensors = [issued.tensors()[0] for issued in made]
    assert all(torch.equal(tensors[0], each) for each in tensors), "no memory was used twice"
    again = plan.plan([noise(8, 9, 10, 11)], BatchKey())
    assert again is not None
    connected.publish(again)
    assert connected.publisher.pool.stats().slots == 3, "slots are reused"


def test_memory_that_is_not_pinned_is_copied_first(connected: Connected) -> None:
    plan = planner(lambda x: x.gpu())
    data = noise(3, 4, 5)
    planned = plan.plan([data], BatchKey())
    assert planned is not None
    prepared, arrays = connected.publish(planned)
    issued = connected.launcher.issue(prepared, arrays, pinned=[False])
    del arrays
    gc.collect()
    assert connected.lent == 0, "the slot goes back at once"
    for one, other in zip(issued.tensors()[0], data.samples, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)


def test_epoch_on_cores_has_the_bits_of_the_cpu(streams: list[HostStream], expected: list[Any], mode: Any) -> None:
    with DALIServer(job("gpu", device_id=0), mode=mode, placement="cores") as server:
        found = epoch(server)
        (stream,) = streams
    assert (stream.launches, stream.copies) == (0, 3 * len(found)), "one copy for each output on the GPU"
    for one, other in zip(found, expected, strict=True):
        assert all(torch.equal(made, wanted) for made, wanted in zip(one[1], other[1], strict=True))
        assert all(torch.equal(one[number], other[number]) for number in (0, *range(2, len(one))))


def test_output_that_lies_in_a_slot_is_copied_from_there(connected: Connected) -> None:
    plan = planner(lambda x: (x.gpu(), x))
    memory, owner = connected.publisher.allocate(0, 24)
    memory[:] = range(24)
    data = TensorListCPU(memory.reshape(2, 12))
    data.owner = owner
    planned = plan.plan([data, data], BatchKey())
    assert planned is not None
    prepared, arrays = connected.publish(planned)
    del planned, data, memory, owner
    assert connected.publisher.pool.stats().slots == 2, "one for the output, one for its second use"
    on_gpu, on_cpu = connected.launcher.issue(prepared, arrays, pinned=[True, True]).tensors()
    del arrays
    assert connected.lent == 2, "the GPU hasn't read one, and the other is in use"
    connected.streams[0].work()
    connected.launcher.release_finished()
    np.testing.assert_array_equal(on_gpu.numpy(), np.arange(24).reshape(2, 12))
    np.testing.assert_array_equal(on_cpu.numpy(), on_gpu.numpy())
    del on_cpu
    assert connected.lent == 0


def test_impossible_message_of_the_server_is_an_error(connected: Connected) -> None:
    planned = planner(small).plan([noise(8, 9)], BatchKey())
    assert planned is not None
    good, arrays = connected.publish(planned)
    (output,) = good.outputs
    launch = output.launch
    block = arrays[0].nbytes
    for wrong in (
        replace(good, outputs=(replace(output, nbytes=output.nbytes + 4),)),
        replace(good, outputs=(replace(output, nbytes=output.nbytes - 4),)),
        replace(good, outputs=(replace(output, dtype="float33"),)),
        replace(good, outputs=(replace(output, launch=None),)),
        replace(good, outputs=(replace(output, launch=replace(launch, images=block)),)),
        replace(good, outputs=(replace(output, launch=replace(launch, images=launch.images + 1)),)),
        replace(good, outputs=(replace(output, launch=replace(launch, count=0)),)),
        replace(good, outputs=(replace(output, launch=replace(launch, count=60000)),)),
        replace(good, outputs=(replace(output, launch=replace(launch, row_bytes=block // 8 * 8)),)),
        replace(good, outputs=(replace(output, launch=replace(launch, row_bytes=launch.row_bytes + 4)),)),
        replace(good, outputs=(replace(output, launch=replace(launch, source_offsets=(launch.row_bytes,))),)),
        replace(good, outputs=(replace(output, launch=replace(launch, source_offsets=(0,))),)),
        replace(good, outputs=(output, None)),
        replace(good, outputs=()),
    ):
        with pytest.raises(ProtocolError):
            connected.launcher.issue(wrong, arrays, pinned=[True])
    with pytest.raises(ProtocolError, match="needs a GPU"):
        Launcher(None).issue(good, arrays, pinned=[True])
    connected.launcher.issue(good, arrays, pinned=[True])


def test_slot_is_returned_once_by_two_threads() -> None:
    """While one thread looks at a copy that has ended, the next copy, which hasn't, must stay."""
    launcher = Launcher(None)
    going = HostEvent()

    class Looked(HostEvent):
        def query(self) -> bool:
            other.start()
            other.join(0.1)  # it has nothing to wait for
            return True

    other = threading.Thread(target=launcher.release_finished)
    launcher._sources._copying += [(Looked(), "ended"), (going, "going")]
    launcher.release_finished()
    assert [held for _, held in launcher._sources._copying] == ["going"]
    going.done = True
    launcher.close()
