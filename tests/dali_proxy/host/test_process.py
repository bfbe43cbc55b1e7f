"""The host's process, from the parent's view."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import psutil
import pytest
from torch.utils.data import default_collate

from dali_proxy import DALIServer
from dali_proxy._host import HostOptions, ProcessHost
from dali_proxy._host.process import open_process
from dali_proxy.errors import ProxyError, ServerDiedError
from dali_proxy.pipeline._definition.serializing import serialize_for_host
from pipeline import Pipeline, fn
from pipeline.errors import PipelineError
from tests.dali_proxy.indexed import affine, sample
from tests.waiting import PATIENCE_S, soon, wait_until

pytestmark = pytest.mark.usefixtures("fresh_servers")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def options(tmp_path: Path) -> HostOptions:
    return HostOptions(path=str(tmp_path / "socket"), key=b"k" * 32, server=b"s" * 16)


def test_host_starts_and_stops(options: HostOptions) -> None:
    host = ProcessHost(serialize_for_host(affine()), options)
    assert host.alive
    assert host.describe_exit(patience=0) == ""
    assert Path(options.path).exists()
    allowed, most = psutil.Process(host.pid).rlimit(psutil.RLIMIT_NOFILE)
    assert allowed == most
    host.stop("test")
    assert not host.alive
    assert "exit code 0" in host.describe_exit()
    assert not Path(options.path).exists()


def test_invalid_pipeline_is_an_error_of_the_parent(options: HostOptions) -> None:
    with pytest.raises(PipelineError) as caught:
        ProcessHost(b"garbage", options)
    assert not isinstance(caught.value, ServerDiedError)


def serve(found: SimpleQueue[tuple[int | None, str]]) -> None:
    """Start a server, use it, and wait for the end."""
    server = DALIServer(affine())
    server.start()
    server.produce_data(server.proxy(sample(1)))
    found.put((server.pid, server.endpoint.path))
    threading.Event().wait(PATIENCE_S)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_host_ends_with_its_parent(number: signal.Signals) -> None:
    context = multiprocessing.get_context("fork")
    found = context.SimpleQueue()
    parent = context.Process(target=serve, args=(found,))
    parent.start()
    pid, path = found.get()
    found.close()
    host = psutil.Process(pid)
    assert parent.pid is not None
    os.kill(parent.pid, number)
    parent.join(PATIENCE_S)
    with soon():
        psutil.wait_procs([host], timeout=PATIENCE_S)
    assert not host.is_running()
    assert not Path(path).parent.exists()


def test_terminated_host_whose_batch_never_ends_says_so_and_leaves_no_folder() -> None:
    with Pipeline(batch_size=4, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x") + fn.external_source(lambda info: time.sleep(60), batch=False))
    with DALIServer(pipe) as server:
        batch = default_collate([server.proxy(sample(1))])
        wait_until(lambda: server.stats().running == 1)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGTERM)
        with soon(), pytest.raises(ProxyError, match="its process was terminated"):
            server.produce_data(batch)
        folder = Path(server.endpoint.path).parent
        with soon():
            wait_until(lambda: not folder.exists())  # the parent may have been terminated, too
        assert "was terminated by SIGTERM" in str(server.end_error())


SLOW_PARENT = """
import sys, time
from dali_proxy import DALIServer
from pipeline import fn, pipeline_def

class Slow:  # slow to unpickle or to call
    def __reduce__(self):
        return make_slow, ()
    def __call__(self):
        print("busy", flush=True)
        time.sleep(100)

def make_slow():
    import time
    print("starting", flush=True)
    time.sleep(1 if STARTING else 0)
    return Slow()

@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def slow():
    return fn.external_source(name="x") + fn.external_source(source=Slow(), batch=False)

server = DALIServer(slow())
print(server.endpoint.path, flush=True)
server.start()
server.proxy(1).__reduce__()  # submits it
time.sleep(100)
"""


@pytest.mark.parametrize("word", ["starting", "busy"])
def test_folder_of_a_host_is_removed_when_its_parent_dies_while_it_is(word: str) -> None:
    script = f"STARTING = {word == 'starting'}\n{SLOW_PARENT}"
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as output:
        folder = Path(output.readline().strip()).parent
        while output.readline().strip() != word:
            pass
        (host,) = psutil.Process(parent.pid).children()
        parent.kill()
        parent.wait(PATIENCE_S)
    wait_until(lambda: not folder.exists())
    host.kill()  # otherwise it may wait for long


def test_start_that_takes_too_long_says_so(options: HostOptions) -> None:
    with pytest.raises(
        ProxyError, match=r"didn't start within 0 s: its process \(pid [1-9]\d*\).*load \d+ on \d+ cores"
    ):
        ProcessHost(serialize_for_host(affine()), options, start_timeout=0.0)


def test_path_of_the_parent_may_hold_any_object(options: HostOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, Path("elsewhere")])  # imports ignore entries that aren't text
    ProcessHost(serialize_for_host(affine()), options).stop("test")


def test_host_started_by_hand_explains_itself() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "dali_proxy._host"], cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )
    assert run.returncode == 2
    assert "DALIServer" in run.stderr


def test_host_whose_parent_ends_first_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    process, control = open_process(str(tmp_path))
    control.close()
    assert process.wait(PATIENCE_S) == 1
    assert not capfd.readouterr().err


def test_host_has_its_own_session(options: HostOptions) -> None:
    host = ProcessHost(serialize_for_host(affine()), options)
    assert os.getsid(host.pid) != os.getsid(0)
    os.kill(host.pid, signal.SIGINT)
    assert host.alive
    host.stop("test")
