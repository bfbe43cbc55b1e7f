"""Faults of the system, exhausted resources, and sizes at the limits: right data, or an error that names the cause."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from dali_proxy import BatchError, DALIServer, DataLoader, ServerDiedError, WorkerDiedError
from dali_proxy.distributed import DistributedBatchSampler
from pipeline import fn, pipeline_def, types
from tests.dali_proxy.indexed import IndexDataset, affine, affine_of, check_affine, jpeg
from tests.environment import with_project
from tests.waiting import soon

OUT_OF_MEMORY = "killed by SIGKILL; unless a user killed it, the system was out of memory"

FAULTY = """
import os, resource, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import numpy as np
from dali_proxy import BatchError, DALIServer, DataLoader, ProxyError
from pipeline import fn, pipeline_def
from pipeline.errors import OperatorError
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine

resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 16, 1 << 16))
failing, slow = (Path(sys.argv[1], name) for name in ("failing", "slow"))

@pipeline_def(num_threads=2, device_id=None, batch_size=2)
def by_path():
    return fn.decoders.image(fn.io.file.read(fn.external_source(name="path")), device="cpu")

@pipeline_def(num_threads=2, device_id=None, batch_size=2)
def by_reader():
    return fn.readers.file(file_root=str(failing), files=sorted(os.listdir(failing)))

class Paths(IndexDataset):
    def __init__(self, folder, proxy):
        self.paths = sorted(folder.iterdir())
        super().__init__(len(self.paths), proxy)

    def __getitem__(self, index):
        return self.transform(np.frombuffer(os.fsencode(self.paths[index]), np.uint8)), index

def read_slow_file():
    with DALIServer(by_path(), timeout=5) as server:
        loop = iter(DataLoader(server, Paths(slow, server.proxy), batch_size=2, num_workers=1))
        yield next(loop)[1].tolist()
        try:
            next(loop)
        except ProxyError as error:
            yield error
        yield [batch[1].tolist() for batch in loop]
        begin = time.monotonic()
    yield time.monotonic() - begin
    with DALIServer(by_path()) as server:
        yield next(iter(DataLoader(server, Paths(slow, server.proxy), batch_size=2)))[1].tolist()

def batches(step):
    for _ in range(3):
        try:
            yield [int(label) for label in step()]
        except (BatchError, OperatorError) as error:
            yield str(error).split(chr(10))[0]

with ThreadPoolExecutor() as threads:
    lines = threads.submit(lambda: list(read_slow_file()))
    with DALIServer(by_path(), mode="thread") as server:
        for on_error in ("raise", "skip"):
            loop = iter(DataLoader(server, Paths(failing, server.proxy), batch_size=2, on_error=on_error))
            print(list(batches(lambda: next(loop)[1])))
    reader = by_reader()
    print(list(batches(lambda: np.array(reader.run()[1].as_array()).ravel())))
    reader.close()

    with DALIServer(affine(), timeout=300) as server:
        begin, seen = time.time(), []
        loader = DataLoader(server, IndexDataset(400, server.proxy), 4, num_workers=1, timeout=300)
        for number, batch in enumerate(loader):
            seen += check_affine(*batch)
            ahead = [86400, -86400, 3600, 0][number % 4] if number < 98 else 86400
            Path(os.environ["FAULTY_CLOCK"]).write_text(str(ahead))
        assert seen == list(range(400))
        assert time.time() - begin > 80000
        assert server.stats().seconds < 80000
        with DALIServer(affine()) as other:
            check_affine(*next(iter(DataLoader(other, IndexDataset(4, other.proxy), 4))))
        assert server.running
    print(*lines.result(), sep=chr(10))
"""


def test_failing_and_slow_reads_cost_their_batch_and_other_faults_of_the_system_nothing(
    tmp_path: Path, faulty_system: str
) -> None:
    for fault, count in {"failing": 6, "slow": 12}.items():
        (tmp_path / fault).mkdir()
        for index in range(count):
            (tmp_path / fault / f"{index:02}{f'-{fault}' * (index == 3)}.jpg").write_bytes(jpeg(index))
    faults = {"FAULTY_PATH": "-failing", "SLOW_PATH": "-slow", "FAULTY_CLOCK": str(tmp_path / "clock")}
    missing = {"HOME": "/dev/null", "TMPDIR": str(tmp_path / "missing")}
    command = [sys.executable, "-W", "ignore", "-c", FAULTY, str(tmp_path)]
    environment = with_project(LD_PRELOAD=faulty_system, **faults, **missing)
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert run.returncode == 0, run.stderr
    raised, skipped, read, first, timeout, others, end, next_start = run.stdout.splitlines()
    error = f"for sample 1: can't read the file '{tmp_path}/failing/03-failing.jpg': Input/output error"
    assert error in raised
    assert error in read
    assert raised.startswith("[[0, 1], ")
    assert raised.endswith(", [4, 5]]")
    assert read.endswith(", [4, 5]]")
    assert skipped == "[[0, 1], [2], [4, 5]]"
    assert first == next_start == "[0, 1]"
    assert "didn't answer within 5 s, the limit of DALIServer(timeout=...)" in timeout
    assert others == "[[4, 5], [6, 7], [8, 9], [10, 11]]"
    assert float(end) < 30  # the watchdog ends the server 8 s later


START = """
import os, sys, tempfile
from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine

for folder in sys.argv[1:]:
    tempfile.tempdir = None
    os.environ["TMPDIR"] = folder
    for mode in "process", "thread":
        try:
            with DALIServer(affine(), mode=mode) as server:
                print(check_affine(*next(iter(DataLoader(server, IndexDataset(4, server.proxy), 4)))))
        except OSError as error:
            print(error)
        except Exception as error:
            print(type(error).__name__, error)
"""


def test_temporary_folder_without_room(tmp_path: Path) -> None:
    full, read_only = tmp_path / "full", tmp_path / "read-only"
    mounts = f"mount -t tmpfs -o nr_inodes=2 none '{full}' && mount -t tmpfs -o ro none '{read_only}'"
    for folder in (full, read_only):
        folder.mkdir()
    in_namespaces = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*in_namespaces, mounts], capture_output=True, check=False).returncode
    ):
        pytest.skip("this system has no user namespaces")
    program = [sys.executable, "-c", START, str(full), str(read_only)]
    command = [*in_namespaces, f'{mounts} && exec "$@"', "sh", *program]
    run = subprocess.run(command, env=with_project(), capture_output=True, text=True, timeout=150, check=False)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 4, run.stdout
    assert all(f"couldn't listen at {full}/dali-proxy-" in line for line in lines[:2]), run.stdout
    assert lines[2:] == ["[0, 1, 2, 3]"] * 2


def test_billion_indices_take_no_memory() -> None:
    before = psutil.Process().memory_info().rss
    dealt = DistributedBatchSampler(10**9, 4, shuffle=False, rank=1, world_size=2)
    assert len(dealt) == 125_000_000
    with DALIServer(affine(), mode="thread") as server:
        loader = DataLoader(server, IndexDataset(10**9, server.proxy), batch_size=4)
        iterator = iter(loader)
        assert check_affine(*next(iterator)) == [0, 1, 2, 3]
        state = loader.state_dict()
        del iterator
        loader = DataLoader(server, IndexDataset(10**9, server.proxy), batch_size=4)
        loader.load_state_dict(state)
        assert check_affine(*next(iter(loader))) == [4, 5, 6, 7]
        loader = DataLoader(server, IndexDataset(10**9, server.proxy), batch_sampler=dealt)
        assert check_affine(*next(iter(loader))) == [4, 5, 6, 7]
    assert psutil.Process().memory_info().rss - before < 100 << 20


DESCRIPTORS = """
import resource, threading
from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
with DALIServer(affine()) as server:
    done = []

    def loop(num_workers):
        loader = DataLoader(server, IndexDataset(200, server.proxy), batch_size=4, num_workers=num_workers)
        done.append([index for batch in loader for index in check_affine(*batch)] == list(range(200)))

    loop(40)
    threads = [threading.Thread(target=loop, args=(4,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [True] * 9
"""


@pytest.mark.faults
def test_descriptors_of_many_workers_are_few() -> None:
    command = [sys.executable, "-W", "ignore", "-c", DESCRIPTORS]
    run = subprocess.run(command, env=with_project(), capture_output=True, text=True, timeout=150, check=False)
    assert run.returncode == 0, run.stderr


class Enormous(IndexDataset):
    """Takes two gigabytes for one sample."""

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            bytearray(1 << 31)
        return super().__getitem__(index)


def limit_address_space(_: int) -> None:
    used = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), resource.RLIM_INFINITY))


def test_worker_with_a_limited_address_space() -> None:
    with DALIServer(affine()) as server:
        dataset = Enormous(12, server.proxy)
        loop = iter(DataLoader(server, dataset, batch_size=4, num_workers=1, worker_init_fn=limit_address_space))
        assert check_affine(*next(loop)) == [0, 1, 2, 3]
        with pytest.raises(MemoryError):
            next(loop)
        assert check_affine(*next(loop)) == [8, 9, 10, 11]


@pytest.mark.faults
def test_two_hundred_loaders_in_turn_and_eight_at_once_leave_nothing(mode: str) -> None:
    with DALIServer(affine(), mode=mode) as server:  # type: ignore[arg-type]

        def loop(length: int) -> list[int]:
            loader = DataLoader(server, IndexDataset(length, server.proxy), batch_size=4, num_workers=1)
            return [index for batch in loader for index in check_affine(*batch)]

        assert loop(8) == list(range(8))
        assert server.pid is not None
        processes = [psutil.Process(), psutil.Process(server.pid)]
        before = [(process.num_fds(), process.memory_info().rss) for process in processes]
        for _ in range(200):
            assert loop(32) == list(range(32))
        done: list[bool] = []
        threads = [threading.Thread(target=lambda: done.append(loop(400) == list(range(400)))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert done == [True] * 8
        after = [(process.num_fds(), process.memory_info().rss) for process in processes]
        for (fds, rss), (fds_before, rss_before) in zip(after, before, strict=True):
            assert fds < fds_before + 100  # results of small batches that are kept for reuse
            assert rss < rss_before + (64 << 20)


@pipeline_def(num_threads=2, device_id=None, batch_size=16_384)
def many_images() -> Any:
    """Decode the images of large batches."""
    return fn.decoders.image(fn.external_source(name="encoded"), device="cpu")


class ManyImages(IndexDataset):
    """Grey images; one is corrupt."""

    def __getitem__(self, index: int) -> Any:
        return self.transform(b"no image" if index == 20_000 else jpeg(index % 256)), index


@pytest.mark.faults
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_of_sixteen_thousand_images(mode: str, num_workers: int) -> None:
    with DALIServer(many_images(), mode=mode) as server:  # type: ignore[arg-type]
        loop = iter(DataLoader(server, ManyImages(40_000, server.proxy), batch_size=16_384, num_workers=num_workers))
        images, indices = next(loop)
        assert indices.tolist() == list(range(16_384))
        assert (images[:, 0, 0, 0].int() - indices % 256).abs().max() <= 2
        with pytest.raises(BatchError, match="dataset index: 20000"):
            next(loop)
        assert next(loop)[1].tolist() == list(range(32_768, 40_000))


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.parametrize("num_workers", [0, 1])
def test_samples_of_a_gigabyte(mode: str, num_workers: int) -> None:
    width = 1 << 28
    with DALIServer(affine(), mode=mode) as server:  # type: ignore[arg-type]
        dataset = IndexDataset(2, server.proxy, width)
        loader = DataLoader(server, dataset, num_workers=num_workers, prefetch_factor=1 if num_workers else None)
        for number, (images, _) in enumerate(loader):
            assert images.shape == (1, width)
            assert torch.equal(images[0, ::1000], torch.full_like(images[0, ::1000], affine_of(number)))


@contextmanager
def limited(controller: str, name: str, limit: str) -> Iterator[Path]:
    """Create a control group with a limit, and yield the file that takes processes. Skip the test without the right."""
    base = Path("/sys/fs/cgroup") / controller
    group = (base if base.is_dir() else base.parent) / f"dali-proxy-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / name).write_text(limit)
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"needs the right to create control groups: {error}")
    try:
        yield group / "cgroup.procs"
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


def limited_memory(megabytes: int) -> Any:
    """Create a control group with a limit of memory."""
    old = Path("/sys/fs/cgroup/memory").is_dir()
    return limited("memory", "memory.limit_in_bytes" if old else "memory.max", str(megabytes << 20))


@pipeline_def(num_threads=1, device_id=None, batch_size=4)
def enlarged() -> Any:
    """Enlarge images of one pixel to the size that their brightness specifies, in thousands."""
    x = fn.external_source(name="x")
    return fn.resize(x, size=fn.cast(x[0, 0, :1], dtype=types.FLOAT) * 1000.0)


class Pixels(IndexDataset):
    """Images of one pixel; one of them is bright."""

    bright = 9

    def __getitem__(self, index: int) -> Any:
        return self.transform(np.full((1, 1, 1), 30 if index == self.bright else 1, np.uint8)), index


@pytest.mark.faults
@pytest.mark.parametrize("restart", ["never", "on-failure"])
def test_server_that_is_killed_by_a_limit_of_memory(restart: Any) -> None:
    with limited_memory(500) as processes, DALIServer(enlarged(), restart=restart) as server:
        dataset = Pixels(24, server.proxy)
        loop = iter(DataLoader(server, dataset, batch_size=4, num_workers=1))
        processes.write_text(str(server.pid))
        labels = []
        if restart == "never":
            with pytest.raises(
                ServerDiedError, match="killed by SIGKILL; unless a user killed it, the system was out of"
            ):
                labels += [next(loop)[1].tolist() for _ in range(6)]
            server.start()
        else:
            dataset.bright = -1  # workers have the bright image; the training makes it again without
            labels = [batch[1].tolist() for batch in loop]
            assert labels == [list(range(begin, begin + 4)) for begin in range(0, 24, 4)]
        dataset.bright = -1
        assert len(list(DataLoader(server, dataset, batch_size=4, num_workers=1))) == 6


class Growing(IndexDataset):
    """Takes a gigabyte for one sample."""

    def __getitem__(self, index: int) -> Any:
        if index == 9:
            np.ones(1 << 27)
        return super().__getitem__(index)


@pytest.mark.faults
def test_worker_that_is_killed_by_a_limit_of_memory() -> None:
    with limited_memory(500) as processes, DALIServer(affine()) as server:
        loader = DataLoader(
            server,
            Growing(24, server.proxy),
            batch_size=4,
            num_workers=1,
            worker_init_fn=lambda _: processes.write_text(str(os.getpid())),  # type: ignore[arg-type, return-value]
        )
        with (
            soon(),
            pytest.raises(WorkerDiedError, match=OUT_OF_MEMORY),
        ):
            list(loader)
        loader.dataset.length = 8
        assert len(list(loader)) == 2


PROCESSES = """
import os, sys
from pathlib import Path
from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine

group = Path(sys.argv[1])
group.write_text(str(os.getpid()))
with DALIServer(affine()) as server:
    loader = DataLoader(server, IndexDataset(16, server.proxy), batch_size=4, num_workers=2)
    check_affine(*next(iter(loader)))
    (group.parent / "pids.max").write_text((group.parent / "pids.current").read_text())
    try:
        iter(loader)
    except OSError as error:
        print(error)
    try:
        with DALIServer(affine()):
            pass
    except Exception as error:
        print(type(error).__name__, error)
    (group.parent / "pids.max").write_text("max")
    print(sum(len(check_affine(*batch)) for batch in loader))
"""


@pytest.mark.faults
def test_limit_of_processes_is_an_error_that_names_it() -> None:
    with limited("pids", "pids.max", "max") as processes:
        command = [sys.executable, "-W", "ignore", "-c", PROCESSES, str(processes)]
        run = subprocess.run(command, env=with_project(), capture_output=True, text=True, timeout=150, check=False)
        assert run.returncode == 0, run.stderr
        workers, server, rest = run.stdout.splitlines()
        assert "limit of processes is reached" in workers
        assert "the server can't be started: the limit of processes is reached" in server
        assert rest == "16"
