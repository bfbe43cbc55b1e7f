"""The JPEG engine's decoder with fakes of libnvjpeg, CUDA and CuPy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._codecs import images, nvjpeg
from dali_proxy.pipeline._codecs.nvjpeg import NvjpegDecoder, NvjpegError
from dali_proxy.pipeline._codecs.turns import Turn
from dali_proxy.pipeline._cuda import reclaiming
from dali_proxy.pipeline._cuda.errors import CudaError
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.errors import DeviceError
from pipeline.types import RGB
from tests.pipeline.codecs.test_set_regions import PROTOTYPE
from tests.pipeline.codecs.test_turns import library
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(60)

GPU, PRIORITY = 7, -1


class Event:
    """An event that records the calls of its methods."""

    def __init__(self, work: list[str]) -> None:
        self.work, self.stream = work, 0

    def record(self, stream: Any) -> None:
        self.stream = stream.ptr
        self.work.append(f"record on {stream.ptr}")

    def synchronize(self) -> None:
        self.work.append(f"wait for {self.stream}")


class Stream:
    """A stream that records the calls of its methods."""

    def __init__(self, address: int, engine: Engine) -> None:
        self.ptr, self.engine = address, engine

    def wait_event(self, event: Event) -> None:
        self.engine.work.append(f"{self.ptr} waits for {event.stream}")

    def synchronize(self) -> None:
        self.engine.work.append(f"synchronize {self.ptr}")
        self.engine.synchronize()


@contextmanager
def converting(_: str) -> Iterator[None]:
    """The fake of `cuda_call`: a `MemoryError` is that of a full GPU."""
    try:
        yield
    except MemoryError as error:
        raise CudaError("a function", "out of memory") from error


class Engine:
    """A decoder, the fakes of its libraries, and their recorded calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.work: list[str] = []  # calls of CUDA that order the work
        self.streams = 0
        self.status = 0  # the status of decoding
        self.synchronize: Callable[[], None] = lambda: None

        def made(*arguments: Any) -> int:
            arguments[-1]._obj.value = 32  # the last argument receives a pointer to the new object
            return 0

        self.prepared = 0  # the status of preparing a state
        self.full_streams = 0  # number of streams that the GPU has no memory for
        self.device: int | None = None  # the current one
        self.during: Callable[[], None] = lambda: None  # called while a batch is decoded

        def decode(*arguments: Any) -> int:
            self.calls.append("decode")
            self.work.append(f"decode on {arguments[-1]}")
            self.during()
            return self.status

        def prepare(*_: Any) -> int:
            self.work.append("prepare")
            return self.prepared

        self.library = calls = library(prepare=prepare, decode=decode)

        def state(*arguments: Any) -> int:
            if self.full:
                self.full -= 1
                return 5
            self.calls.append("state")
            return made(*arguments)

        self.full = 0  # number of states that the GPU has no memory for

        calls.nvjpegCreateEx = calls.nvjpegDecodeParamsCreate = made
        calls.nvjpegJpegStateCreate = state
        calls.nvjpegDecodeParamsSetOutputFormat = calls.nvjpegDecodeParamsDestroy = lambda *_: 0
        calls.nvjpegDecodeParamsSetROI = PROTOTYPE(lambda *_: 0)
        calls.nvjpegJpegStateDestroy = self.free
        calls.nvjpegDestroy = lambda handle: self.calls.append("destroy")
        cuda = SimpleNamespace(Device=self.using, Event=lambda **_: Event(self.work))
        for name, value in {
            "load_nvjpeg": lambda: None,
            "_bind": lambda _: calls,
            "require_device": lambda _: None,
            "load_cupy": lambda: SimpleNamespace(cuda=cuda),
            "new_stream": self.new_stream,
            "cuda_call": converting,
            "is_full": lambda error: isinstance(error, MemoryError),
        }.items():
            monkeypatch.setattr(nvjpeg, name, value)
        monkeypatch.setattr(reclaiming, "free_unused", lambda: self.calls.append("free unused memory"))
        self.decoder = NvjpegDecoder(GPU, PRIORITY)

    @contextmanager
    def using(self, device: int) -> Iterator[Any]:
        """Make a device current."""
        before, self.device = self.device, device
        yield SimpleNamespace(synchronize=lambda: self.synchronize())
        self.device = before

    def free(self, state: Any) -> None:
        self.calls.append("free")
        self.work.append("free")

    def new_stream(self, priority: int) -> Any:
        """Return a stream for a state: 1, 2 and so on."""
        assert (self.device, priority) == (GPU, PRIORITY)
        if self.full_streams:
            self.full_streams -= 1
            raise MemoryError
        self.streams += 1
        return Stream(self.streams, self)

    def decode(self, stream: Any) -> None:
        """Decode a batch of two images."""
        shapes = np.array([[4, 5, 3], [6, 7, 3]])
        target, _ = Samples.packed(1 << 20, shapes, np.uint8)
        some = np.array([1 << 12, 1 << 13])
        self.decoder.decode(some, some, np.zeros((2, 2), np.int64), target, RGB, stream)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    made = Engine(monkeypatch)
    yield made
    made.decoder.close()


STREAM = SimpleNamespace(ptr=48, wait_event=lambda _: None)


def test_state_is_reused_and_freed_at_the_end(engine: Engine) -> None:
    for _ in range(2):
        engine.decode(STREAM)
    engine.decoder.close()
    engine.decoder.close()
    assert engine.calls == ["state", "decode", "decode", "free", "destroy"]
    assert engine.work.count("prepare") == 1


def test_reserved_states_decode_the_batches_in_turn(engine: Engine) -> None:
    engine.decoder.reserve(3, 2, RGB)
    for _ in range(4):
        engine.decode(STREAM)
    engine.decoder.close()
    assert engine.calls == [*["state"] * 3, *["decode"] * 4, *["free"] * 3, "destroy"]
    assert [entry for entry in engine.work if "decode" in entry] == [f"decode on {one}" for one in (1, 2, 3, 1)]


def test_batch_is_decoded_on_an_idle_stream_that_the_batch_stream_waits_for(engine: Engine) -> None:
    """On a stream with work, the engine deadlocked beside other processes."""
    engine.decoder.reserve(1, 2, RGB)
    engine.work.clear()
    for _ in range(2):
        engine.decode(Stream(48, engine))
    batch = ["decode on 1", "record on 1", "48 waits for 1"]
    assert engine.work == ["wait for 0", *batch, "wait for 1", *batch]


def test_two_batches_have_states_though_one_was_reserved(engine: Engine) -> None:
    """One is prepared while the other one is decoded."""
    engine.decoder.reserve(1, 2, RGB)
    other = threading.Thread(target=engine.decode, args=(STREAM,))

    def during() -> None:
        if not other.ident:
            other.start()
            wait_until(lambda: engine.decoder._count == 2)

    engine.during = during
    engine.decode(STREAM)
    other.join(50)
    engine.decoder.close()
    assert engine.calls == ["state", "decode", "state", "decode", "free", "free", "destroy"]


def test_batch_waits_for_a_state(engine: Engine) -> None:
    """A new state would stop the engine for longer than the wait."""
    engine.decoder.reserve(2, 2, RGB)
    threads = [threading.Thread(target=engine.decode, args=(STREAM,)) for _ in range(2)]

    def during() -> None:
        if not threads[0].ident:
            for thread in threads:
                thread.start()
            wait_until(lambda: bool(engine.decoder._changed._waiters))  # type: ignore[attr-defined]

    engine.during = during
    engine.decode(STREAM)
    for thread in threads:
        thread.join(50)
    engine.decoder.close()
    assert engine.calls == ["state", "state", *["decode"] * 3, "free", "free", "destroy"]


def test_refused_reservation_is_an_error(engine: Engine) -> None:
    engine.prepared = 4
    with pytest.raises(NvjpegError, match="nvjpegDecodeBatchedInitialize failed: JPEG not supported"):
        engine.decoder.reserve(1, 2, RGB)
    engine.decoder.close()
    assert engine.calls == ["state", "free", "destroy"]


def test_memory_that_is_not_used_is_freed_for_a_state(engine: Engine) -> None:
    engine.full = 1
    engine.decode(STREAM)
    assert engine.calls == ["free unused memory", "state", "decode"]


def test_full_gpu_costs_a_batch_its_engine(engine: Engine) -> None:
    """The engine's next batch has a state again."""
    for _ in range(3):
        engine.full = 2
        with pytest.raises(NvjpegError, match=r"nvjpegJpegStateCreate failed: out of memory"):
            engine.decode(STREAM)
    engine.full_streams = 2
    with pytest.raises(NvjpegError, match=r"cudaStreamCreateWithPriority failed: out of memory"):
        engine.decode(STREAM)
    engine.decode(STREAM)
    assert engine.calls == [*["free unused memory"] * 4, "state", "decode"]


def test_full_gpu_is_an_error_when_the_engine_is_opened(engine: Engine) -> None:
    """Not a GPU without an engine: nvImageCodec would use it, without taking turns."""
    engine.library.nvjpegCreateEx = lambda *_: 5
    with pytest.raises(CudaError, match="opening the JPEG engine failed: out of memory"):
        images._open_engine(GPU)


def test_pipeline_is_built_though_no_state_can_be_reserved(engine: Engine) -> None:
    decoder = images.ImageBatchDecoder(GPU, 1, stream_priority=PRIORITY)
    engine.full = 2
    decoder.reserve(2, 4, RGB)
    assert decoder._engine is not None
    decoder.close()
    assert engine.calls == ["free unused memory", "destroy"]


def test_failed_state_is_freed_immediately(engine: Engine) -> None:
    engine.status = 8
    with pytest.raises(NvjpegError, match=r"nvjpegDecodeBatchedEx failed: internal error \(status 8\)"):
        engine.decode(STREAM)
    engine.status = 0
    engine.decode(STREAM)
    engine.decoder.close()
    assert engine.calls == ["state", "decode", "free", "state", "decode", "free", "destroy"]
    failed = engine.work[: engine.work.index("free")]
    assert failed[-2:] == ["decode on 1", "synchronize 1"], "the engine may still write to the images' memory"


class Failing(Stream):
    """A stream that fails to wait."""

    def wait_event(self, event: Event) -> None:
        raise CudaError("cudaStreamWaitEvent", "no reason")


@pytest.mark.parametrize("interrupted", [False, True], ids=["freed", "interrupted"])
def test_state_is_freed_when_no_stream_waits_for_its_batch(engine: Engine, interrupted: bool) -> None:
    """Nothing protects the images' memory from the next batch until then, and the state is never used again."""
    free = engine.library.nvjpegJpegStateDestroy

    def interrupt(state: Any) -> None:
        free(state)
        raise KeyboardInterrupt

    if interrupted:
        engine.library.nvjpegJpegStateDestroy = interrupt
    with pytest.raises(KeyboardInterrupt if interrupted else CudaError):
        engine.decode(Failing(48, engine))
    engine.library.nvjpegJpegStateDestroy = free
    assert engine.work[-3:] == ["record on 1", "synchronize 1", "free"]
    assert engine.decoder._count == 0, "later batches would wait for it"
    for _ in range(2):
        engine.decode(STREAM)
    engine.decoder.close()
    assert engine.calls == ["state", "decode", "free", "state", "decode", "decode", "free", "destroy"]


def test_batch_that_has_begun_is_decoded_though_the_decoder_is_closed(engine: Engine) -> None:
    closing = threading.Thread(target=engine.decoder.close)

    def during() -> None:
        closing.start()
        wait_until(lambda: engine.decoder._handle is None)

    engine.during = during
    engine.decode(STREAM)
    closing.join(50)
    assert engine.calls == ["state", "decode", "free", "destroy"]


def test_decoder_of_a_lost_gpu_is_closed(engine: Engine) -> None:
    """The caller has further resources to close; libnvjpeg isn't called any more."""

    def lost() -> None:
        raise CudaError("cudaDeviceSynchronize", "the GPU is lost")

    engine.decode(STREAM)
    engine.synchronize = lost
    engine.decoder.close()
    assert engine.calls == ["state", "decode"]
    with Turn(GPU).held:
        pass


def test_gpu_without_an_engine_is_left_to_nvimgcodec(engine: Engine) -> None:
    """Most GPUs have none, and in a container without the driver's video libraries it can't be used."""
    engine.library.nvjpegCreateEx = lambda *_: 7
    with pytest.raises(DeviceError, match="device 7 has no JPEG engine that libnvjpeg can use: wrong architecture"):
        NvjpegDecoder(GPU)
    assert images._open_engine(GPU) is None
