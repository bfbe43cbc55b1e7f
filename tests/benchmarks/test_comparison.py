"""Loaders side by side: all of them make the batches of a job, wrong batches are refused, the page is current."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from benchmarks.check import WrongOutputError
from benchmarks.comparison import jobs
from benchmarks.comparison.__main__ import last_jobs
from benchmarks.comparison.check import check_batches
from benchmarks.comparison.job import Job
from benchmarks.comparison.jobs.arrays import SmallArrays
from benchmarks.comparison.jobs.audio import Mel
from benchmarks.comparison.jobs.detection import Detection
from benchmarks.comparison.jobs.function import OwnFunction
from benchmarks.comparison.jobs.images import Images
from benchmarks.comparison.jobs.segmentation import Segmentation
from benchmarks.comparison.jobs.views import Views
from benchmarks.comparison.memory import memory_of
from benchmarks.comparison.report import as_json, table
from benchmarks.comparison.rival import Batch, Cores, Samples, finished, stack
from benchmarks.comparison.rivals.ours import make_pipeline, named
from benchmarks.comparison.session import run_job
from benchmarks.machine import short_name
from dali_proxy import pipeline
from docs import comparison

pytestmark = pytest.mark.timeout(180)  # starting processes takes long on a busy machine

SMALL = (300, 400), 4
JOBS: dict[str, Callable[[], Job]] = {
    "images": lambda: Images("images", "images", *SMALL),
    "views": lambda: Views("views", "views", *SMALL),
    "detection": lambda: Detection("detection", "detection", *SMALL),
    "segmentation": lambda: Segmentation("segmentation", "segmentation", *SMALL),
    "function": lambda: OwnFunction("function", "function", *SMALL),
    "audio": Mel,
    "arrays": SmallArrays,
}


@pytest.fixture(params=JOBS)
def job(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Job:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # the files belong to this test
    chosen = JOBS[request.param]()
    monkeypatch.setattr(chosen, "batch_size", 4)
    chosen.prepare()
    return chosen


def in_python(job: Job) -> Iterator[Batch]:
    samples = Samples(job)
    batches = (stack(samples[index] for index in range(first, first + job.batch_size)) for first in (0, job.batch_size))
    return finished(batches, job)


def test_python_functions_agree_with_the_reference(job: Job) -> None:
    assert len(check_batches(in_python(job), job)) == len(job.bounds)


def test_graph_agrees_with_the_reference(job: Job) -> None:
    pipe = make_pipeline(pipeline, job, Cores(1, 1))
    pipe.build()
    batches: list[Batch] = []
    for first in (0, job.batch_size):
        indices = range(first, first + job.batch_size)
        for name in named(job.inputs(0)):
            pipe.feed_input(name, [named(job.inputs(index))[name] for index in indices])
        outputs = tuple(torch.from_numpy(np.array(output.as_array())) for output in pipe.run())
        batches.append((torch.tensor(indices), outputs))
    pipe.close()
    check_batches(iter(batches), job)


def test_wrong_order_is_refused() -> None:
    job = SmallArrays()
    indices, outputs = next(in_python(job))
    with pytest.raises(WrongOutputError, match="has the samples"):
        check_batches(iter([(indices.flip(0), outputs)]), job)


def test_wrong_pixels_are_refused() -> None:
    job = SmallArrays()
    indices, (rows, labels) = next(in_python(job))
    with pytest.raises(WrongOutputError, match="mean difference"):
        check_batches(iter([(indices, (rows + 1, labels))] * 1 + [(indices + len(indices), (rows, labels))]), job)


def test_loaders_are_measured_in_turn() -> None:
    result = run_job("arrays", ["dali-proxy", "torch"], Cores(1, 1), rounds=2, seconds=0.01, say=lambda text: None)
    assert not result.failures
    assert [len(one.rounds) for one in result.rivals.values()] == [2, 2]
    assert all(one.memory > 10 and one.start.seconds > 0 for one in result.rivals.values())
    assert "torch" in table(result)
    document = as_json([result], "command", Cores(1, 1), 10.0)
    assert "| torch |" in comparison.page(document)


def test_results_of_other_jobs_stay_with_their_date(tmp_path: Path) -> None:
    name = f"-{short_name(None)}-comparison.json"
    (tmp_path / f"2020-01-01{name}").write_text('{"date": "2020-01-01", "jobs": {"audio": {}}}')
    jobs = {"views": {"date": "2020-02-02"}, "audio": {}}
    (tmp_path / f"2020-02-03{name}").write_text(json.dumps({"date": "2020-02-03", "jobs": jobs}))
    assert last_jobs(tmp_path) == {"views": {"date": "2020-02-02"}, "audio": {"date": "2020-02-03"}}
    assert last_jobs(tmp_path / "none") == {}


def test_memory_of_a_group_counts_shared_pages_once(tmp_path: Path) -> None:
    size = 32 << 20
    (tmp_path / "shared").write_bytes(bytes(size))
    program = (
        "import mmap, sys; file = open(sys.argv[1], 'r+b'); pages = mmap.mmap(file.fileno(), 0);"
        f"sum(pages[at] for at in range(0, {size}, {mmap.PAGESIZE})); print('ready', flush=True); sys.stdin.read()"
    )
    with ExitStack() as processes:
        pair = [
            processes.enter_context(
                subprocess.Popen(
                    [sys.executable, "-S", "-c", program, str(tmp_path / "shared")],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for _ in range(2)
        ]
        for process in pair:
            assert process.stdout is not None
            process.stdout.readline()
        alone, together = (memory_of([psutil.Process(one.pid) for one in some]) for some in (pair[:1], pair))
        for process in pair:
            assert process.stdin is not None
            process.stdin.close()
    assert alone > size >> 20
    assert together - alone < size >> 21


def test_page_says_why_a_gain_is_small() -> None:
    assert set(comparison.REASONS) == set(jobs.JOBS)
    document = comparison.results()
    for name, job in document["jobs"].items():
        for one in job["rivals"].values():
            one["rate"] = 1000.0
        for ours, told in ((1301.0, False), (1299.0, True), (500.0, True)):
            job["rivals"]["dali-proxy"]["rate"] = ours
            document["jobs"] = {name: job}
            assert (comparison.REASONS[name] in comparison.page(document)) == told


def test_page_is_current() -> None:
    assert comparison.PAGE.read_text() == comparison.page(comparison.results()), "run `python -m docs.all`"
