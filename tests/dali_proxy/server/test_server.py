"""The lifetime of a server: started, stopped, killed, abandoned; and its use by other processes."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import select
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
import torch.utils.data
from torch.utils.data import default_collate

from dali_proxy import BatchError, DALIServer, DataLoader, ServerClosedError, ServerDiedError
from dali_proxy._host import ProcessHost
from dali_proxy.errors import ProxyError, StaleReferenceError
from dali_proxy.pipeline._concurrency.checked_lock import as_interruption
from dali_proxy.pipeline._ipc.arena import Arena
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.frames import FrameParser, Outgoing
from pipeline import Pipeline, fn, pipeline_def
from pipeline.errors import (
    ArgumentMismatchError,
    ArgumentTypeError,
    ArgumentValueError,
    GraphError,
    MissingSizeError,
    PipelineError,
)
from tests.dali_proxy.indexed import (
    IndexDataset,
    IndexStream,
    TwoViewsDataset,
    affine,
    affine_of,
    check_affine,
    decoded,
    jpeg,
    keep_apart,
    noisy,
    sample,
)
from tests.waiting import PATIENCE_S, soon, wait_until


def run_one(server: DALIServer, index: int = 4) -> None:
    """Run a sample through a server and check it."""
    assert server.produce_data(server.proxy(sample(index))).tolist() == [affine_of(index)] * 3


class Assigning(Pipeline):
    """A pipeline with attributes whose names DALI's `Pipeline` leaves free, as scripts written for DALI have them."""

    def define_graph(self) -> Any:
        for name in (
            "graph",
            "inputs",
            "input_names",
            "unused_inputs",
            "output_devices",
            "executor",
            "close",
            "submit",
        ):
            setattr(self, name, None)
        self.input = fn.external_source(name="x")
        return self.input + 1


def test_pipeline_whose_attributes_a_subclass_replaced_is_served(mode: str) -> None:
    with DALIServer(Assigning(batch_size=4, num_threads=1, device_id=None), mode=mode) as server:  # type: ignore[arg-type]
        assert server.produce_data(server.proxy(np.array([1, 2]))).tolist() == [2, 3]


def test_server_starts_stops_and_starts_again(mode: str) -> None:
    server = DALIServer(affine(), mode=mode)  # type: ignore[arg-type]
    folder = Path(server.endpoint.path).parent
    for _ in range(2):
        assert not server.running
        assert server.pid is None
        server.start()
        server.start()  # does nothing
        assert server.running
        assert (server.pid == os.getpid()) == (mode == "thread")
        assert folder.stat().st_mode & 0o777 == 0o700
        run_one(server)
        server.stop()
        server.stop()  # does nothing
        assert not folder.exists()
    server.start_thread()
    run_one(server)
    server.stop_thread()
    assert repr(server) == f"<DALIServer: inputs 'x'; mode={mode}, placement=server; not running>"


@pytest.mark.usefixtures("fresh_servers")
def test_host_process_imports_no_torch_and_no_main() -> None:
    with DALIServer(affine()) as server:
        maps = Path(f"/proc/{server.pid}/maps").read_text()
        assert "numpy" in maps
        assert "/torch/" not in maps


@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def without_input() -> Any:
    return fn.random.uniform(range=(0.0, 1.0))


def test_bad_arguments() -> None:
    with pytest.raises(GraphError, match="no input"):
        DALIServer(without_input())
    with pytest.raises(ArgumentTypeError, match="needs a Pipeline or a function, not dict"):
        DALIServer({})  # type: ignore[arg-type]
    with pytest.raises(MissingSizeError, match="no num_threads"):
        DALIServer(affine(num_threads=-1))
    with pytest.raises(MissingSizeError, match="num_threads is 0"):
        DALIServer(affine(num_threads=0))
    with pytest.raises(MissingSizeError, match="no batch_size"):
        DALIServer(affine(batch_size=-1))
    with pytest.raises(ArgumentValueError, match="mode"):
        DALIServer(affine(), mode="fork")  # type: ignore[arg-type]
    for wrong in ({"timeout": 0}, {"timeout": "1"}, {"arena_bytes": "1 GB"}, {"unclaimed_bytes": 0}):
        with pytest.raises(ArgumentValueError, match=f"{next(iter(wrong))} must be"):
            DALIServer(affine(), **wrong)  # type: ignore[arg-type]


def test_old_names_of_arguments_are_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="ring_bytes") as caught:
        server = DALIServer(affine(), ring_bytes=1 << 12, ring_bytes_limit=1 << 20)  # type: ignore[call-arg]
    assert [(str(warning.message), warning.filename) for warning in caught] == [
        ("ring_bytes is deprecated: use arena_bytes", __file__),
        ("ring_bytes_limit is deprecated: use arena_bytes_limit", __file__),
    ]
    assert (server.endpoint.arena_bytes, server.endpoint.arena_bytes_limit) == (1 << 12, 1 << 20)
    with (
        pytest.warns(DeprecationWarning, match="ring_bytes"),
        pytest.raises(ArgumentValueError, match="arena_bytes must be"),
    ):
        DALIServer(affine(), ring_bytes=0)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["bytes", "bytes_limit"])
def test_old_and_new_name_of_an_argument_are_an_error(name: str) -> None:
    with pytest.raises(ArgumentMismatchError, match=f"pass arena_{name} or ring_{name}, not both"):
        DALIServer(affine(), **{f"arena_{name}": 1 << 20, f"ring_{name}": 1 << 20})  # type: ignore[arg-type]


def test_missing_gpu_is_an_error_of_start(mode: str) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    pipeline = Pipeline(batch_size=2, num_threads=1, device_id=0)
    with pipeline:
        pipeline.set_outputs(fn.external_source(name="x").gpu() + 1)
    server = DALIServer(pipeline, mode=mode)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match=r"(?i)gpu|cuda") as caught:
        server.start()
    assert not isinstance(caught.value, ServerDiedError)
    assert not server.running


def test_threads_end_with_stop() -> None:
    before = set(threading.enumerate())
    with DALIServer(affine(), mode="thread") as server:
        run_one(server)
    assert set(threading.enumerate()) <= before


def test_server_that_is_dropped_stops(mode: str) -> None:
    server = DALIServer(affine(), mode=mode)  # type: ignore[arg-type]
    server.start()
    run_one(server)
    process = psutil.Process(server.pid)
    del server
    gc.collect()
    assert mode == "thread" or not process.is_running()


def test_server_that_is_collected_on_the_thread_of_another() -> None:
    dropped = DALIServer(affine(), mode="thread")
    dropped.cycle = dropped  # type: ignore[attr-defined]
    dropped.start()
    run_one(dropped)
    connecting = threading.Event()

    def collect(*_: object) -> None:
        if connecting.is_set():
            connecting.clear()
            gc.collect()

    gc.disable()
    threading.setprofile(collect)  # for threads that start from now on
    try:
        with DALIServer(affine(), mode="thread", timeout=PATIENCE_S) as server:
            path = dropped.endpoint.path
            del dropped
            connecting.set()
            run_one(server)
            assert not connecting.is_set()
    finally:
        threading.setprofile(None)
        gc.enable()
    wait_until(lambda: not os.path.exists(path))


def test_killed_server_is_an_error_that_says_so() -> None:
    server = DALIServer(affine())
    with server:
        batch = default_collate([server.proxy(sample(1))])
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not server.running)
        with pytest.raises(ServerDiedError, match=f"pid {server.pid}.*SIGKILL"):
            server.produce_data(batch)
        with pytest.raises(ServerDiedError):
            server.proxy(sample(2))
        assert not server.running
        server.start()
        run_one(server)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_server_is_killed_while_a_loop_runs(num_workers: int) -> None:
    with DALIServer(affine()) as server:
        loader = DataLoader(server, IndexDataset(10_000, server.proxy), batch_size=4, num_workers=num_workers)
        iterator = iter(loader)
        check_affine(*next(iterator))
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        with soon(), pytest.raises(ServerDiedError, match='with restart="on-failure", loops continue') as raised:
            deque((check_affine(*batch) for batch in iterator), maxlen=0)
        assert "".join(traceback.format_exception(raised.value)).count("was killed by SIGKILL") == 1, "says it twice"
        del iterator, raised
        with pytest.raises(ServerDiedError, match=r"was killed by SIGKILL.*else call start\(\)"):
            iter(loader)  # it must not start a server that isn't to be started again
        server.start()
        check_affine(*next(iter(loader)))


def test_terminated_server_ends_in_order() -> None:
    with DALIServer(affine()) as server:
        run_one(server)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGTERM)
        wait_until(lambda: not server.running)
        with pytest.raises((ServerClosedError, ServerDiedError), match="was terminated"):
            server.stats()


def test_request_to_a_dead_server_raises_the_reason() -> None:
    with DALIServer(affine()) as server:
        run_one(server)
        consumer = server.consumer
        assert server.pid is not None
        os.kill(server.pid, signal.SIGTERM)
        # The process has ended and reported the reason; no thread has read it.
        wait_until(lambda: psutil.Process(server.pid).status() == psutil.STATUS_ZOMBIE)
        with pytest.raises(ServerClosedError, match="was terminated"):
            consumer.statistics()


def test_stop_wakes_a_thread_that_waits(mode: str) -> None:
    server = DALIServer(affine(), mode=mode)  # type: ignore[arg-type]
    errors: list[BaseException] = []
    with server:
        run_one(server)
        ref = default_collate([server.proxy(sample(1))])
        ref.ticket.seq += 1  # a batch that never comes
        waiting = threading.Event()

        def wait() -> None:
            waiting.set()
            try:
                server.produce_data(ref)
            except ProxyError as error:
                errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert isinstance(errors[0], ServerClosedError | ServerDiedError)


def test_many_threads_use_one_server(server: DALIServer) -> None:
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for index in range(first, first + 30):
                refs = [server.proxy(sample(index + shift)) for shift in range(3)]
                made = server.produce_data(default_collate(refs))
                assert made[:, 0].tolist() == [affine_of(index + shift) for shift in range(3)]
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not failed


def test_threads_request_the_same_batch(serve: Callable[..., DALIServer]) -> None:
    server = serve(affine(), timeout=PATIENCE_S)
    for index in range(20):
        batch = default_collate([server.proxy(sample(index))])
        both = threading.Barrier(2)

        def fetch(batch: Any = batch, both: threading.Barrier = both) -> Any:
            both.wait(PATIENCE_S)
            return server.produce_data(batch)

        with ThreadPoolExecutor(2) as threads:
            one, two = (made.result() for made in [threads.submit(fetch), threads.submit(fetch)])
        assert one is two
        assert one.tolist() == [[affine_of(index)] * 3]


def test_interrupt_while_a_batch_is_submitted(server: DALIServer) -> None:
    def interrupt(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is Channel.post.__code__:
            sys.setprofile(None)
            raise KeyboardInterrupt

    ref = server.proxy(sample(1))
    sys.setprofile(interrupt)
    with pytest.raises(KeyboardInterrupt):
        default_collate([ref])
    run_one(server)


def test_interrupt_while_a_batch_is_fetched(serve: Callable[..., DALIServer]) -> None:
    """A request that was never sent is sent again; there is no wait for its answer."""

    def interrupt(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is Channel.send.__code__:
            sys.setprofile(None)
            raise KeyboardInterrupt

    server = serve(affine(), timeout=PATIENCE_S)
    run_one(server)
    batch = default_collate([server.proxy(sample(3))])
    sys.setprofile(interrupt)
    with pytest.raises(KeyboardInterrupt):
        server.produce_data(batch)
    assert server.produce_data(batch).tolist() == [[affine_of(3)] * 3]


@pytest.mark.parametrize("place", [Arena.write, Outgoing.put, FrameParser.feed], ids=lambda place: place.__qualname__)
def test_stop_by_a_signal_handler_at_any_moment(serve: Callable[..., DALIServer], place: Callable[..., Any]) -> None:
    server = serve(affine(), timeout=PATIENCE_S)
    run_one(server)

    def stop(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is place.__code__:  # type: ignore[attr-defined]
            sys.setprofile(None)
            as_interruption(server.stop)

    sys.setprofile(stop)
    with pytest.raises(ProxyError):  # the type depends on the place
        run_one(server)
    assert not server.running


def train_elsewhere(server: DALIServer, results: Any) -> None:
    """Train in another process."""
    loader = DataLoader(server, IndexDataset(20, server.proxy), batch_size=8, num_workers=1)
    results.put([index for images, indices in loader for index in check_affine(images, indices)])
    try:
        server.stop()
        server.start()
    except ProxyError as error:
        results.put(str(error))
    else:
        results.put(server.running)


def test_other_training_processes_use_the_server(server: DALIServer) -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    processes = [context.Process(target=train_elsewhere, args=(server, results)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
        assert process.exitcode == 0
    answers = [results.get() for _ in range(4)]
    results.close()
    assert answers.count(list(range(20))) == 2
    assert answers.count(True) == 2  # they couldn't stop it
    run_one(server)


def test_pickled_handle_is_a_client(server: DALIServer) -> None:
    other = pickle.loads(pickle.dumps(server))
    assert other.running
    assert other.produce_data(other.proxy(sample(1))).tolist() == [10, 10, 10]
    other.stop()
    run_one(server)


def test_loader_of_torch(server: DALIServer) -> None:
    for num_workers in (0, 2):
        loader = torch.utils.data.DataLoader(IndexDataset(20, server.proxy), batch_size=8, num_workers=num_workers)
        seen = [index for batch in loader for index in check_affine(*server.produce_data(batch))]
        assert seen == list(range(20))
    stream = torch.utils.data.DataLoader(IndexStream(20, server.proxy), batch_size=8, num_workers=2)
    batches = list(stream)  # the workers have ended before the first batch is fetched
    assert sorted(index for batch in batches for index in check_affine(*server.produce_data(batch))) == list(range(20))
    views = torch.utils.data.DataLoader(TwoViewsDataset(20, server.proxy), batch_size=8, num_workers=2)
    for batch in views:
        one, two, indices = server.produce_data(batch)
        check_affine(one, indices)
        check_affine(two, indices + 1000)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loader_of_torch_with_samples_kept_apart(server: DALIServer, num_workers: int) -> None:
    dataset = IndexDataset(10, server.proxy)
    lists = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=num_workers, collate_fn=keep_apart)
    single = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=num_workers)
    for samples in ([each for batch in lists for each in batch], list(single)):
        for expected, (image, index) in enumerate(server.produce_data(samples)):
            assert index == expected
            assert image.tolist() == [affine_of(index)] * 3


def test_random_numbers_with_the_loader_of_torch(serve: Callable[..., DALIServer]) -> None:
    server = serve(noisy())
    loader = torch.utils.data.DataLoader(IndexDataset(16, server.proxy), batch_size=4, num_workers=2)

    def two_epochs() -> torch.Tensor:
        torch.manual_seed(1)
        batches = [server.produce_data(batch) for _ in range(2) for batch in loader]
        return torch.cat([images[:, 0] - indices for images, indices in batches])

    made = two_epochs()
    assert len(made.unique()) == 32  # neither workers nor epochs share random numbers
    assert torch.equal(made, two_epochs())


def test_unclaimed_results_are_bounded(mode: str) -> None:
    server = DALIServer(affine(), mode=mode, unclaimed_bytes=1 << 16)  # type: ignore[arg-type]
    with server:
        dataset = IndexDataset(40, server.proxy, width=1000)  # 16 KB a batch of 4 samples
        batches = list(torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=1, prefetch_factor=20))
        wait_until(lambda: (stats := server.stats()).workers == stats.queued == stats.running == 0)
        assert server.stats().waiting_results <= 4
        with pytest.raises((StaleReferenceError, BatchError), match="fetched or discarded"):
            server.produce_data(batches[0])
        check_affine(*server.produce_data(batches[-1]), width=1000)


def test_dropped_batches_are_returned(server: DALIServer) -> None:
    run_one(server)
    before = server.stats()
    refs = [default_collate([server.proxy(sample(index))]) for index in range(5)]
    del refs
    wait_until(lambda: (server.stats() - before).dropped == 5)
    assert server.stats().waiting_results == 0


def test_corrupt_image_is_an_error_of_its_batch_only(serve: Callable[..., DALIServer]) -> None:
    server = serve(decoded())
    good = [server.proxy(jpeg(index)) for index in range(3)]
    bad = [good[0], server.proxy(b"garbage"), good[2]]
    first, failing, last = default_collate(good), default_collate(bad), default_collate(good[1:])
    with pytest.raises(BatchError, match=r"samples of the batch: 1") as caught:
        server.produce_data({"images": failing})
    assert caught.value.samples == (1,)
    assert caught.value.dataset_index is None
    assert "decoders.image" in caught.value.operator
    assert "indexed.py" in caught.value.source_line
    assert isinstance(caught.value.__cause__, Exception)
    with pytest.raises(BatchError):  # every time
        server.produce_data({"images": failing})
    assert server.produce_data(first).shape == (3, 16, 16, 3)
    assert server.produce_data(last).shape == (2, 16, 16, 3)


@pipeline_def(num_threads=2, device_id=None, batch_size=4)
def files() -> Any:
    return fn.decoders.image(fn.io.file.read(fn.external_source(name="path")), device="cpu")


def test_error_names_the_file(serve: Callable[..., DALIServer], tmp_path: Path) -> None:
    server = serve(files())
    for name, content in (("good.jpg", jpeg(5)), ("bad.jpg", b"no image")):
        (tmp_path / name).write_bytes(content)
    for name in ("bad.jpg", "missing.jpg"):
        paths = [str(tmp_path / each).encode() for each in ("good.jpg", name)]
        with pytest.raises(BatchError, match=f"{name}") as caught:
            server.produce_data(default_collate([server.proxy(path) for path in paths]))
        assert caught.value.paths == (str(tmp_path / name),)
        assert caught.value.samples == (1,)


def test_batch_over_the_time_limit_is_an_error(mode: str) -> None:
    server = DALIServer(affine(), mode=mode)  # type: ignore[arg-type]
    with server:
        run_one(server)
        server.consumer._endpoint = replace(server.endpoint, timeout=0.2)  # from now on: earlier steps may take long
        ref = default_collate([server.proxy(sample(1))])
        ref.ticket.seq += 1  # a batch that never comes
        with pytest.raises(ProxyError, match=r"didn't answer within 0.2 s"):
            server.produce_data(ref)


class SlowDataset(IndexDataset):
    """A dataset so slow that an empty loop waits for it, however busy the machine is."""

    def __getitem__(self, index: int) -> Any:
        threading.Event().wait(0.005)
        return super().__getitem__(index)


def test_stats(serve: Callable[..., DALIServer]) -> None:
    server = serve(noisy())
    loader = DataLoader(server, SlowDataset(64, server.proxy), batch_size=8, num_workers=1)
    before = server.stats()
    assert before.limited_by == ""
    for _ in loader:
        pass
    stats = server.stats() - before
    assert (stats.batches, stats.samples, stats.errors, stats.dropped) == (8, 64, 0, 0)
    assert stats.bytes_in == 64 * 3 * 4
    assert stats.bytes_out >= 64 * 3 * 4
    assert 0 < stats.busy <= stats.seconds
    assert stats.occupancy >= stats.busy
    assert stats.start_wait > 0
    assert stats.worker_wait > 0
    assert stats.limited_by in ("workers", "pipeline")  # the loop is empty
    assert sum(times.batches for times in stats.operators.values()) >= 8
    assert all("→" not in name for name in stats.operators), "a row for each operator"
    assert all(times.seconds > 0 < times.wall for times in stats.operators.values())
    assert "operators" in json.loads(json.dumps(stats.to_dict()))
    for images, _ in loader:
        images.double().exp_()
    assert (server.stats() - before - stats).training > 0


@pytest.mark.usefixtures("fresh_servers")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_another_thread_forks_while_a_server_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its child would keep a pipe of `Popen` open, which waits until it is closed: two loaders could deadlock."""
    reader, writer = os.pipe()
    children: list[int] = []
    pipe, start = os.pipe, ProcessHost._start

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            ready, _, _ = select.select([reader], [], [], 10.0)  # times out only if its waiter was never notified
            os._exit(0 if ready else 1)
        children.append(pid)

    def pipe_and_fork() -> tuple[int, int]:
        made = pipe()
        if not forking.ident:
            forking.start()
            forking.join(0.2)  # it must wait
        return made

    def notify_and_start(host: ProcessHost, *arguments: Any) -> None:
        os.write(writer, b"!")
        start(host, *arguments)

    forking = threading.Thread(target=fork)
    monkeypatch.setattr(os, "pipe", pipe_and_fork)
    monkeypatch.setattr(ProcessHost, "_start", notify_and_start)
    try:
        with DALIServer(affine()) as server:
            run_one(server)
        forking.join(PATIENCE_S)
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    finally:
        os.close(reader)
        os.close(writer)
