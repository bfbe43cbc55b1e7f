"""Servers and loaders in a real Jupyter kernel: fork, spawn, and cells that are interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.environment import with_project

manager = pytest.importorskip("jupyter_client.manager", reason="needs ipykernel (the extra `test`)")
pytest.importorskip("ipykernel", reason="needs ipykernel (the extra `test`)")
ensure_event_loop = pytest.importorskip("jupyter_core.utils").ensure_event_loop

SETUP = """
import multiprocessing.resource_tracker
import numpy as np, torch, dali_proxy
from pipeline import fn, pipeline_def

class Numbers(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.transform = transform
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return self.transform(np.full((8, 8, 3), index, np.uint8)), index

@pipeline_def(batch_size=8, num_threads=1, device_id=None)
def plus_one():
    return fn.external_source(name="images", layout="HWC") + np.uint8(1)

def indices(loader):
    found = []
    for images, labels in loader:
        assert (images[:, 0, 0, 0] == labels + 1).all()
        found += labels.tolist()
    return sorted(found) == list(range(64))

pipe = plus_one()
server = dali_proxy.DALIServer(pipe)
server.start()
multiprocessing.resource_tracker.ensure_running()  # it would count as left behind by the first test that spawns
dataset = Numbers(server.proxy)
"""


class Notebook:
    """A kernel and a client that runs cells in it."""

    def __init__(self, folder: Path) -> None:
        self.kernel, self.client = manager.start_new_kernel(
            kernel_name="python3", cwd=folder, env=with_project(), startup_timeout=120
        )

    def run(self, code: str, interrupt_at: str = "", delay: float = 0.0) -> dict[str, Any]:
        """Run a cell.

        Args:
            code: the cell.
            interrupt_at: text of the output at which the kernel is interrupted.
            delay: seconds from that output to the interrupt.

        Returns:
            By type: "text", "html" (the last result), and "error" (the name of the exception).
        """
        sent = self.client.execute(code)
        result: dict[str, Any] = {"text": "", "html": "", "error": ""}
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                result["text"] += content["text"]
                if interrupt_at and interrupt_at in result["text"]:
                    time.sleep(delay)
                    self.kernel.interrupt_kernel()
                    interrupt_at = ""
            elif kind in ("execute_result", "display_data"):
                result["html"] = content["data"].get("text/html", "")
                result["text"] += content["data"].get("text/plain", "")
            elif kind == "error":
                result["error"] = content["ename"]
                result["text"] += "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return result


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    opened = Notebook(tmp_path_factory.mktemp("notebook"))
    try:
        started = opened.run(SETUP)
        assert not started["error"], started["text"]
        yield opened
        assert opened.run("server.stop()")["error"] == ""
    finally:
        opened.client.stop_channels()
        opened.kernel.shutdown_kernel(now=False)
        for owner in (opened.client, opened.kernel):
            owner.context.destroy(linger=0)
        ensure_event_loop().close()  # the client's


def loop(notebook: Notebook, arguments: str) -> None:
    result = notebook.run(f"indices(dali_proxy.DataLoader(server, dataset, batch_size=8, {arguments}))")
    assert result["text"].strip() == "True", result["text"]


def test_loops_run_with_and_without_forked_workers(notebook: Notebook) -> None:
    loop(notebook, "num_workers=0")
    loop(notebook, "num_workers=2, multiprocessing_context='fork'")


def test_spawned_workers_get_datasets_and_functions_of_cells(notebook: Notebook) -> None:
    notebook.run("def stacked(samples): return torch.utils.data.default_collate(samples)")
    loop(notebook, "num_workers=1, multiprocessing_context='spawn', collate_fn=stacked, worker_init_fn=lambda _: None")


@pytest.mark.parametrize("workers", [0, 2])
def test_interrupted_cells_leave_a_usable_server(notebook: Notebook, workers: int) -> None:
    endless = f"""
import itertools
loader = dali_proxy.DataLoader(server, dataset, batch_size=8, num_workers={workers})
for epoch in itertools.count():
    for images, labels in loader:
        pass
    if epoch == 1:
        print("runs", flush=True)
"""
    result = notebook.run(endless, interrupt_at="runs")
    assert result["error"] == "KeyboardInterrupt", result["text"]
    pid = notebook.run("server.pid")["text"]
    assert notebook.run("indices(loader)")["text"].strip() == "True"
    assert notebook.run("server.pid")["text"] == pid, "the server wasn't started again"


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_cells_that_are_interrupted_at_a_hundred_random_moments_leave_a_usable_server(notebook: Notebook) -> None:
    random = Random(1)
    pid = notebook.run("server.pid")["text"]
    for number in range(100):
        workers = number % 3
        cell = f"""
loader = dali_proxy.DataLoader(server, dataset, batch_size=8, num_workers={workers})
print("runs", flush=True)
while True:
    assert indices(loader)
"""
        result = notebook.run(cell, interrupt_at="runs", delay=random.choice((0.0, 0.01, 0.05, 0.2)) * random.random())
        # The kernel interrupts workers, too, and torch's handler may raise in IPython while it shows the exception.
        assert "KeyboardInterrupt" in (result["error"], *result["text"].split()), result["text"]
        if number % 10 == 9:
            loop(notebook, f"num_workers={workers}")
    assert notebook.run("server.pid")["text"] == pid, "the server wasn't started again"
    # IPython keeps the last exception, whose frames refer to the loop.
    assert notebook.run("del loader\nraise LookupError")["error"] == "LookupError"
    left = notebook.run(
        "import gc, psutil; gc.collect(); [child.name() for child in psutil.Process().children()].count('python')"
    )
    assert int(left["text"]) <= 2, "the server, and Python's resource tracker"


def test_representations_are_html(notebook: Notebook) -> None:
    assert (
        "data:image/png"
        in notebook.run("shown = plus_one(); shown.run(images=np.zeros((8, 30, 40, 3), np.uint8))[0]")["html"]
    )
    assert "fn.external_source" in notebook.run("shown")["html"]
    assert "limited by" in notebook.run("server.stats()")["html"]
    assert notebook.run("shown.close()")["error"] == ""
