"""Servers with names: jobs in several processes use one server process, and none depends on another."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest

from dali_proxy import DALIServer, DataLoader, NameTakenError, ServerClosedError, ServerDiedError, attach
from dali_proxy._common.named_sockets import named_socket
from dali_proxy._host import attached
from dali_proxy._host.control import ATTACH_KEY, CONTROL_CODEC, Failed, Greeting
from dali_proxy._monitor.servers import Servers
from dali_proxy._transport.endpoint import OtherReleaseError
from dali_proxy.pipeline._ipc.connecting import connect
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentMismatchError, ArgumentValueError
from tests.dali_proxy.indexed import IndexDataset, affine, decoded, jpeg, noisy
from tests.waiting import wait_until

Batches = list[tuple[list[Any], list[int]]]


@pytest.fixture(autouse=True)
def _runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def epoch(server: DALIServer, samples: int = 40, batch_size: int = 4, **options: Any) -> Batches:
    loader = DataLoader(server, IndexDataset(samples, server.proxy), batch_size=batch_size, num_workers=0, **options)
    return [(values.tolist(), indices.tolist()) for values, indices in loader]


def expected(**arguments: Any) -> Batches:
    """Return an epoch of a server that isn't shared."""
    with DALIServer(noisy(**arguments), mode="thread") as server:
        return epoch(server)


@contextmanager
def job(target: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    """Run a function in another process. Yield its connection, with the process as an attribute."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(dict(os.environ), target, theirs, arguments))
    process.start()
    theirs.close()
    with ours:
        ours.process = process  # type: ignore[attr-defined]
        yield ours
    process.join()
    process.close()


def _run(environment: dict[str, str], target: Callable[..., None], results: Connection, arguments: Any) -> None:
    os.environ.update(environment)
    target(results, *arguments)


def create_and_wait(results: Connection, linger: float = 0.0) -> None:
    """Create a server, and keep it until the other end says something or is gone."""
    with DALIServer(noisy(), name="shared", linger=linger) as server:
        results.send((server.pid, epoch(server)))
        results.poll(None)


def attach_and_loop(results: Connection) -> None:
    """Attach, and run through epochs forever."""
    with attach("shared", seed=8) as server:
        for number, _ in enumerate(epoch(server) for _ in iter(int, 1)):
            if number == 0:
                results.send(server.pid)


def join(results: Connection) -> None:
    """Create the server, or attach to it."""
    with DALIServer(noisy(), name="shared", attach=True) as server:
        results.send((server.pid, epoch(server)))
        results.poll(None)


def has_ended(pid: int | None) -> bool:
    return not psutil.pid_exists(pid or 0) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


# Data -----------------------------------------------------------------------------------------------------------


def test_job_gets_the_batches_of_its_own_server() -> None:
    with DALIServer(noisy(), name="shared") as first, attach("shared", seed=8, batch_size=4) as second:
        assert first.pid == second.pid != os.getpid()
        assert second.endpoint.max_batch_size == 4
        assert epoch(second) == expected(seed=8)
        assert epoch(first) == expected()


def test_job_has_the_servers_pipeline_and_seed_by_default() -> None:
    with DALIServer(noisy(seed=-1), name="shared") as first, attach("shared") as second:
        assert epoch(first) == epoch(second)


def test_job_may_bring_its_own_pipeline() -> None:
    with (
        DALIServer(noisy(), name="shared"),
        attach("shared", affine()) as server,
        DALIServer(affine(), mode="thread") as alone,
    ):
        assert epoch(server) == epoch(alone)


def double(x: Any) -> Any:
    return {"doubled": x * 2}


def test_job_gets_the_structure_of_a_function() -> None:
    from dali_proxy import serve

    with serve(double, batch_size=4, num_threads=1, name="shared"), attach("shared") as server:
        batch = next(iter(DataLoader(server, IndexDataset(4, server.proxy), batch_size=4, num_workers=0)))
        assert batch[0]["doubled"][:, 0].tolist() == [0, 2, 4, 6]


def test_jobs_share_a_cache() -> None:
    @pipeline_def(batch_size=8, num_threads=2, device_id=None, seed=1)
    def cropped() -> Any:
        return fn.random_resized_crop(fn.decoders.image(fn.external_source(name="x"), device="cpu"), size=(4, 4))

    def run(server: DALIServer) -> list[Any]:
        return [
            images.tolist() for images, _ in DataLoader(server, Jpegs(8, server.proxy), batch_size=4, num_workers=0)
        ]

    with (
        DALIServer(cropped(), name="shared", cache="4MB") as first,
        attach("shared", cropped(seed=2)) as second,
        DALIServer(cropped(seed=2), mode="thread") as alone,
    ):
        run(first)
        assert run(second) == run(alone)
        assert (second.stats().cache_hits, second.stats().cache_misses) == (8, 8)  # of all jobs


def test_cache_of_jobs_may_have_a_folder(tmp_path: Path) -> None:
    cache = {"memory": "4MB", "folder": tmp_path / "cache"}
    for loaded in (0, 8):
        with DALIServer(decoded(), name="shared", cache=cache) as server:
            for _ in DataLoader(server, Jpegs(8, server.proxy), batch_size=4, num_workers=0):
                pass
            assert server.stats().cache_loaded == loaded


class Jpegs(IndexDataset):
    """Grey images whose brightness is their index."""

    def __getitem__(self, index: int) -> Any:
        return self.transform(jpeg(index)), index


def test_batches_of_a_job_are_kept_for_one_that_has_not_begun() -> None:
    with (
        DALIServer(noisy(), name="shared") as first,
        DALIServer(noisy(), name="shared", attach=True) as second,
    ):
        assert epoch(first) == epoch(second) == expected()
        assert second.stats().shared == 10


def test_counters_are_those_of_the_job() -> None:
    with DALIServer(noisy(), name="shared") as first, attach("shared", seed=8) as second:
        epoch(first)
        assert (first.stats().samples, second.stats().samples) == (40, 0)


def test_workers_of_a_job_find_the_server() -> None:
    with DALIServer(noisy(), name="shared"), attach("shared", seed=8) as server:
        loader = DataLoader(server, IndexDataset(40, server.proxy), batch_size=4, num_workers=2)
        assert [(values.tolist(), indices.tolist()) for values, indices in loader] == expected(seed=8)


def test_dataset_workers_belong_to_their_job() -> None:
    with (
        DALIServer(noisy(), name="shared", num_workers=1) as first,
        DALIServer(noisy(), name="shared", attach=True, num_workers=1) as second,
    ):
        assert epoch(first) == epoch(second) == expected()
        first.stop()
        assert epoch(second) == expected()


def test_monitors_show_a_host_once_that_jobs_share(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        DALIServer(noisy(), name="shared") as first,
        DALIServer(noisy(), name="shared", attach=True) as second,
        attach("shared", seed=8) as third,
    ):
        paths = [each.endpoint.path for each in (first, second, third)]
        assert len(set(paths)) == 3
        monkeypatch.setattr("dali_proxy._monitor.servers.find_sockets", lambda: paths)
        with closing(Servers()) as servers:
            observed = servers.observations()
        assert [each.pid for each in observed] == [first.pid, first.pid]


# Life -----------------------------------------------------------------------------------------------------------


def test_job_that_is_killed_costs_the_others_nothing() -> None:
    with DALIServer(noisy(), name="shared") as server:
        with job(attach_and_loop) as other:
            assert other.recv() == server.pid
            loop = iter(DataLoader(server, IndexDataset(40, server.proxy), batch_size=4, num_workers=0))
            found = [next(loop)]
            other.process.kill()
            found += loop
        assert [(values.tolist(), indices.tolist()) for values, indices in found] == expected()
        assert epoch(server) == expected()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, None])
def test_server_outlives_its_creator(ending: int | None) -> None:
    with job(create_and_wait) as creator:
        pid, batches = creator.recv()
        assert batches == expected()
        with attach("shared") as server:
            creator.send("end") if ending is None else os.kill(creator.process.pid, ending)
            creator.process.join()
            assert server.pid == pid
            assert epoch(server) == expected()
        wait_until(lambda: has_ended(pid))
        assert not os.path.exists(named_socket("shared"))


def test_server_waits_for_another_job() -> None:
    with DALIServer(noisy(), name="shared", linger=3600) as first:
        pid = first.pid
    with attach("shared") as second:
        assert second.pid == pid
        assert epoch(second) == expected()
    os.kill(pid or 0, signal.SIGTERM)
    wait_until(lambda: has_ended(pid))


def test_server_ends_after_it_has_waited() -> None:
    with DALIServer(noisy(), name="shared", linger=0.05) as server:
        pid = server.pid
    wait_until(lambda: has_ended(pid))
    assert not os.path.exists(named_socket("shared"))


def test_job_can_start_again() -> None:
    with DALIServer(noisy(), name="shared") as first, attach("shared", seed=8) as second:
        second.stop()
        second.start()
        assert epoch(second) == expected(seed=8)
        first.stop()
        assert epoch(second) == expected(seed=8)
        first.start()  # it joins the others
        assert first.pid == second.pid
        assert epoch(first) == expected()


def test_name_of_a_server_that_was_killed_is_free() -> None:
    with DALIServer(noisy(), name="shared") as server:
        loop = iter(DataLoader(server, IndexDataset(4000, server.proxy), batch_size=4, num_workers=0))
        next(loop)
        os.kill(server.pid or 0, signal.SIGKILL)
        for later in (loop, DataLoader(server, IndexDataset(8, server.proxy), batch_size=4)):
            with pytest.raises(ServerDiedError, match=r"\(pid \d+\) ended, or was killed"):
                list(later)
    assert os.path.exists(named_socket("shared"))
    with pytest.raises(ServerClosedError, match="no server with the name 'shared' runs"):
        attach("shared")
    with DALIServer(noisy(), name="shared") as server:
        assert epoch(server) == expected()


def test_jobs_continue_with_one_new_server() -> None:
    options: dict[str, Any] = {"name": "shared", "attach": True, "restart": "on-failure"}
    with DALIServer(noisy(), **options) as first, DALIServer(noisy(seed=8), **options) as second:
        loops = [
            iter(DataLoader(each, IndexDataset(40, each.proxy), batch_size=4, num_workers=0))
            for each in (first, second)
        ]
        found = [[next(loop)] for loop in loops]
        os.kill(first.pid or 0, signal.SIGKILL)
        for batches, loop in zip(found, loops, strict=True):
            batches += loop
        plain = [[(values.tolist(), indices.tolist()) for values, indices in batches] for batches in found]
        assert plain == [expected(), expected(seed=8)]
        assert first.pid == second.pid


def test_server_that_is_terminated_says_so() -> None:
    with DALIServer(noisy(), name="shared") as first, attach("shared") as second:
        loops = [
            iter(DataLoader(server, IndexDataset(4000, server.proxy), batch_size=4, num_workers=0))
            for server in (first, second)
        ]
        for loop in loops:
            next(loop)
        os.kill(first.pid or 0, signal.SIGTERM)
        for loop in loops:
            with pytest.raises((ServerClosedError, ServerDiedError), match="terminated"):
                list(loop)


# Names ----------------------------------------------------------------------------------------------------------


def test_second_server_of_a_name_is_refused() -> None:
    with DALIServer(noisy(), name="shared"), pytest.raises(NameTakenError, match=r"'shared' runs \(pid \d+\): attach"):
        DALIServer(noisy(), name="shared").start()


def test_jobs_that_start_at_once_use_one_server() -> None:
    with job(join) as first, job(join) as second, job(join) as third:
        found = [each.recv() for each in (first, second, third)]
        assert len({pid for pid, _ in found}) == 1
        assert [batches for _, batches in found] == [expected()] * 3


def test_server_of_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with DALIServer(noisy(), name="shared"):
        with connect(named_socket("shared"), ATTACH_KEY, CONTROL_CODEC) as channel:
            channel.send(Greeting(version=99))
            assert channel.receive(60).message.version != 99
            refusal = channel.receive(60).message
            assert isinstance(refusal, Failed)
            assert "use the same release" in refusal.reason
        monkeypatch.setattr(attached, "VERSION", 99)
        with pytest.raises(OtherReleaseError, match="the server 'shared' can't be used: the server speaks version"):
            attach("shared")


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "a" * 65, 7])
def test_invalid_name_is_an_error(name: Any) -> None:
    with pytest.raises(ArgumentValueError, match="the name of a server must be"):
        DALIServer(noisy(), name=name)
    with pytest.raises(ArgumentValueError, match="the name of a server must be"):
        attach(name)


def test_arguments_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ArgumentMismatchError, match="need a name"):
        DALIServer(noisy(), linger=3)
    with pytest.raises(ArgumentMismatchError, match='leave out mode="thread"'):
        DALIServer(noisy(), name="shared", mode="thread")
    with pytest.raises(ArgumentValueError, match="linger must be"):
        DALIServer(noisy(), name="shared", linger=-1)


# Surroundings ---------------------------------------------------------------------------------------------------


@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def of_files() -> Any:
    return fn.decoders.image(fn.io.file.read(fn.external_source(name="path")), device="cpu")


def test_job_that_opens_files_needs_the_servers_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DALIServer(noisy(), name="shared"):
        monkeypatch.chdir(tmp_path)
        with attach("shared", seed=8) as server:
            assert epoch(server) == expected(seed=8)
        with pytest.raises(ArgumentMismatchError, match="must have the same working directory"):
            attach("shared", of_files())


def test_job_that_calls_functions_needs_the_servers_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def calling() -> Any:
        return fn.python_function(fn.external_source(name="x"), function=lambda x: x)

    with DALIServer(noisy(), name="shared"):
        monkeypatch.syspath_prepend("/nowhere")
        with pytest.raises(ArgumentMismatchError, match=r"must have the same sys\.path"):
            attach("shared", calling())


def test_job_that_calls_a_changed_module_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "changing_module.py"
    module.write_text("def double(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    double = importlib.import_module("changing_module").double

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def calling() -> Any:
        return fn.python_function(fn.external_source(name="x"), function=double)

    with DALIServer(calling(), name="shared") as server:
        attach("shared").stop()
        assert epoch(server, samples=4) == [([[0] * 3, [2] * 3, [4] * 3, [6] * 3], [0, 1, 2, 3])]
        module.write_text("def double(x):\n    return x * 2.0\n")
        with pytest.raises(ArgumentMismatchError, match=r"has imported .*changing_module\.py before the last change"):
            attach("shared", calling())
    del sys.modules["changing_module"]


def create_with_output(results: Connection, output: Connection) -> None:
    """Create a server with an output of its own."""
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    output.close()
    create_and_wait(results)


def test_output_of_the_creator_ends_with_it() -> None:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    with job(create_with_output, theirs) as creator:
        theirs.close()
        creator.recv()
        with attach("shared") as server:
            creator.process.kill()
            with ours, pytest.raises(EOFError):  # a program that reads the output would wait for the server
                ours.recv_bytes()
            assert epoch(server) == expected()
