"""The sections of ``make bench-gpu``, on the CPU and very small: the code is the same there."""

from __future__ import annotations

import json
import math
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from benchmarks import child, gpu_memory
from benchmarks.child import Caller, RivalError
from benchmarks.gpu import __main__ as command_line
from benchmarks.gpu import gil, goals, neighbours, pixels, plots, sizes, timeline, training
from benchmarks.gpu.budget import Budget
from benchmarks.gpu.mps import NoMpsError, multi_process_service
from benchmarks.gpu.session import Session, without_paths
from benchmarks.gpu.trainer import trainer_of
from benchmarks.measurement import Measurement
from benchmarks.rivals.decoder import DecoderAlone
from benchmarks.rivals.ours import PLACEMENTS, Ours, modes_of_ours
from benchmarks.runner import run_kind
from benchmarks.workload import Setup, prepare_images
from tests.benchmarks.broken_rivals import Vanishing

pytestmark = pytest.mark.timeout(180)  # starting processes takes long on a busy machine

MACHINE = {"date": "2026-11-21", "machine": {"gpus": [], "processor": "a processor", "cores": 2}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("images")))
        yield prepare_images(8)


@pytest.fixture
def session(folder: Path) -> Session:
    return Session(Setup("bytes", folder, batch_size=4, workers=1, threads=1), 1, 0.05, Budget(60), lambda text: None)


def measured(samples: int, cpu_seconds: float) -> dict[str, float]:
    return {"samples": samples, "seconds": 1.0, "cpu_seconds": cpu_seconds, "other_cpu_seconds": 0.0}


def document() -> dict[str, Any]:
    ours = {"rate": 3000.0, "rounds": [measured(3000, 3.0), measured(3000, 3.0)]}
    theirs = {
        "rate": 1000.0,
        "rounds": [measured(1000, 4.0), measured(1000, 1.0)],
        "reference_ratio": 3.0,
        "reference_ratio_range": [2.5, 3.5],
    }
    shares = [
        trained("ours, process, auto", training.EAGER, rate=90.0, taking=0.2),
        trained("torch-best", training.EAGER, rate=80.0),
        trained("nvidia-proxy", training.EAGER, rate=60.0),
        trained("ours, process, auto", training.REPLAY, rate=96.0, taking=0.4),
        trained("ours, process, cores", training.REPLAY, rate=99.0),
        trained("ours, process, server", training.REPLAY, rate=90.0),
    ]
    entry = {"rivals": {"dali-proxy": ours, "nvidia-proxy": theirs}, "failures": {"decoder": "no codec"}}
    return {
        **MACHINE,
        "setup": {"batch_size": 256},
        "kinds": {"bytes": {**entry, "gpu_memory_MiB": {"dali-proxy": 2048.0}}},
        "training": {"network": "resnet50", "shares": shares},
        "sizes": [
            *({"series": "batch size", "x": size, "rate": rate} for size, rate in ((16, 50.0), (256, 100.0))),
            {"series": "", "x": 0, "rate": 50.0},
        ],
    }


def trained(loader: str, launches: str, rate: float, taking: float = 1.0) -> dict[str, Any]:
    return {
        "loader": loader, "batch_size": 64, "launches": launches,
        "rates": [rate], "resident": [95.0, 105.0], "share": rate / 100, "taking": taking,
    }  # fmt: skip


def test_goals_say_if_they_are_reached_or_why_they_were_not_measured() -> None:
    found = {goal.title: goal for goal in goals.goals(document())}
    proxy = found["encoded bytes / DALI's proxy"]
    assert proxy.reached
    assert proxy.figure is not None
    assert (proxy.figure.median, proxy.figure.low) == (3.0, 2.5)
    decoder = found["encoded bytes / the decoder alone"]
    assert (decoder.reached, decoder.note) == (None, "no codec")
    cores = found["CPU time of an image, encoded bytes / DALI's"]
    assert cores.figure is not None
    assert cores.figure.low == pytest.approx(0.25)
    assert cores.figure.high == pytest.approx(1.0)
    assert cores.reached is False
    assert measured_and_reached(found["images/s with batches of 16 / of 256"]) == (0.5, False)
    assert found["images/s with batches of 1024 / of 256"].reached is None
    share = "training's share, batch 64"
    assert measured_and_reached(found[f'{share}, CUDA graph: "auto"']) == (0.96, False)
    assert measured_and_reached(found[f'{share}, CUDA graph: "cores"']) == (0.99, True)
    assert measured_and_reached(found[f'{share}, CUDA graph: best other - "auto"']) == (pytest.approx(0.03), False)
    eager = found[f'{share}, eager: "auto" / best rival']
    assert (measured_and_reached(eager), eager.note) == ((pytest.approx(1.125), True), "torch-best")
    assert found['training\'s share, batch 256, CUDA graph: "auto"'].reached is None
    assert measured_and_reached(found["ms of the training's thread for a batch of 64, eager"]) == (0.2, True)
    assert measured_and_reached(found["ms of the training's thread for a batch of 64, CUDA graph"]) == (0.4, False)
    assert "2.0" in goals.summary(document())  # GiB
    assert len(goals.as_json(document())) == len(found)


def measured_and_reached(goal: goals.Goal) -> tuple[float, bool | None]:
    assert goal.figure is not None
    return goal.figure.median, goal.reached


def test_plots_need_only_some_of_the_measurements(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert plots.plot_all(document(), tmp_path / "all.png") == "Saved all.png."
    assert plots.plot_all({**MACHINE, "kinds": {}}, tmp_path / "none.png") == "Nothing to draw."
    spans = [{"name": "fn.resize", "batch": 0, "lane": "stream 0", "begin": 0.0, "end": 1.5}]
    assert timeline.plot_timeline(spans, document(), tmp_path / "line.png") == "Saved line.png."
    assert timeline.plot_timeline([], document(), tmp_path / "no.png").startswith("No timeline")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.png", "line.png"]


def test_pixels_of_the_same_graph_are_compared(session: Session) -> None:
    (check,) = pixels.check_pixels(session, pixels.TINY)
    assert session.failures == {}
    assert (check.name, check.mean, check.good) == ("reader float16 HWC", 0.0, True)  # both sides ran on the CPU
    shown = pixels.first_pixels(Ours(), session.of_kind("reader"))
    assert shown.shape == (8, 224, 224, 3)
    assert shown.min() >= -1
    assert shown.max() <= 256
    shifted = pixels.PixelCheck("shifted", float(np.abs(np.roll(shown, 1, 2) - shown).mean()), 60.0)
    assert not shifted.good
    assert "WRONG" in str(shifted)


def test_training_from_a_loader(session: Session) -> None:
    setup = session.of_kind("paths")
    rival = Ours("ours, thread", mode="thread")
    (share,) = training.train_from(rival, "tiny", setup, 0.1)
    assert share.launches == training.EAGER
    assert len(share.rates) == 1
    assert len(share.resident) == 2
    assert share.share > 0
    assert "samples/s" in share.report
    assert "batch    4" in str(share)
    assert training.as_json(share)["share"] == pytest.approx(share.share, abs=1e-4)


def test_taking_a_batch_counts_processor_time_without_waiting() -> None:
    def batches() -> Iterator[torch.Tensor]:
        while True:
            time.sleep(0.02)
            end = time.thread_time() + 0.002
            while time.thread_time() < end:
                pass
            yield torch.zeros(2, 3, 224, 224)

    speed = trainer_of("cpu", "tiny").rate(batches(), 0.3, warm_up=0, step=lambda images: None)
    assert 2 <= speed.taking < 10


def test_rates_by_size_are_measured_when_memory_has_been_used_before(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []

    def measure(stream: Any, seconds: float, warm_up: int) -> Measurement:
        waited.append(warm_up)
        return Measurement(1, 1.0, 1.0, 0.0)

    monkeypatch.setattr(sizes, "measure", measure)
    # Other tests may have imported CuPy, which has no driver here.
    monkeypatch.setattr(sizes, "_free_gpu", lambda: None)
    for kind, workers in (("bytes", 14), ("bytes", 1), ("reader", 14)):
        sizes.rate_of(Ours(), replace(session.of_kind(kind), workers=workers), 0.1)
    assert waited == [84, 10, 10]


@pytest.mark.thorough
def test_training_continues_after_a_loader_that_ends_its_process(session: Session) -> None:
    rivals = [Vanishing(), Ours("ours, process")]
    shares = list(training.measure_training(session, rivals, batch_sizes=[4, 2], seconds=0.1, network="tiny"))
    assert [(share.loader, share.batch_size) for share in shares] == [("ours, process", 4), ("ours, process", 2)]
    assert list(session.failures) == ["training, batch 4, vanishing"]  # and isn't called again
    assert "died" in session.failures["training, batch 4, vanishing"]


def test_python_time_that_a_loader_takes(session: Session) -> None:
    lost = gil.python_time(Ours("ours, thread", mode="thread"), session.of_kind("paths"), 40.0, 0.2)
    assert lost.share <= 1
    assert lost.milliseconds == pytest.approx(lost.share * 4 / lost.pace * 1e3)
    assert "img/s take the loop" in str(lost)
    assert min(lost.taking, lost.waiting) >= 0
    assert lost.taking + lost.waiting < 1000 * 4 / lost.pace
    assert gil.as_json(lost)["loader"] == "ours, thread"


def test_training_beside_counting_processes(session: Session) -> None:
    found = neighbours.train_beside("tiny", session.of_kind("paths"), 1, 0.05)
    assert found.share > 0
    assert "batch    4,  1 processes" in str(found)
    assert neighbours.as_json([found])[0]["neighbours"] == 1
    assert not [one for one in psutil.Process().children() if "while True: pass" in one.cmdline()]


def test_loop_counts_until_its_end() -> None:
    end = time.perf_counter() + 0.02
    counted = gil.count_until(end, at_least=1)
    assert counted.count > 0
    assert 0 < counted.running <= counted.elapsed + 0.001
    assert time.perf_counter() >= end
    assert gil.count_until(end).count == 0
    assert (counted + counted).running == 2 * counted.running


def test_share_is_that_of_its_neighbours() -> None:
    share = training.Share("ours", 256, training.EAGER, (95.0, 60.0), (100.0, 90.0, 110.0), 1.0, 1.0, 0.1)
    assert share.shares == [1.0, 0.6]
    assert share.share == 0.8
    assert training.quartiles(share.shares) == pytest.approx((0.7, 0.9))
    assert training.quartiles([0.5]) == (0.5, 0.5)


def test_share_of_a_training_whose_speed_drifts() -> None:
    """The speed swings by a quarter within 17 blocks, and one block is disturbed."""
    speeds = [3000 + 400 * math.sin(2 * math.pi * block / 17) for block in range(2 * 12 + 1)]
    rates = [0.97 * speed for speed in speeds[1::2]]
    rates[5] /= 2
    blocks = training.shares_of_blocks(rates, speeds[::2])
    assert statistics.median(blocks) == pytest.approx(0.97, abs=0.005)
    assert np.subtract(*training.quartiles(blocks)[::-1]) < 0.02


def test_modes_train() -> None:
    names = [rival.name for rival in modes_of_ours(0)]
    assert names == [*(f"ours, process, {placement}" for placement in PLACEMENTS), "ours, thread"]
    assert {goals.AUTO, goals.CORES} < set(names)
    assert set(goals.OTHERS) < {rival.name for rival in training.loaders(0)}
    assert set(training.LAST) < {rival.name for rival in training.loaders(0)}


def test_sizes_are_measured_and_failures_reported(session: Session) -> None:
    broken = sizes.Variant("broken", changes={"kind": "reader", "dtype": "float13"})
    points = sizes.measure_sizes(session, (broken, *sizes.TINY[1:]))
    assert [point.x for point in points] == [256]
    assert points[0].rate > 0
    assert "float13" in session.failures["sizes, broken"]


def test_timeline_has_five_batches(session: Session) -> None:
    spans = timeline.trace_batches(session.of_kind("reader"))
    assert {span["batch"] for span in spans} - {-1} == set(range(timeline.BATCHES))
    assert any("decoders" in span["name"] for span in spans)
    assert min(span["begin"] for span in spans) == 0
    assert all(span["end"] >= span["begin"] for span in spans)


def test_decoder_alone_is_a_yardstick(session: Session) -> None:
    rival = DecoderAlone()
    if reason := rival.unavailable():
        pytest.skip(reason)
    stream = rival.stream(session.setup)
    for number in range(3):
        indices, _ = next(stream)
        assert indices.tolist() == list(range(4 * number, 4 * number + 4))
    stream.close()


def test_rounds_do_not_start_when_time_is_over(session: Session) -> None:
    asked: list[bool] = []

    def go_on() -> bool:
        asked.append(len(asked) < 2)
        return asked[-1]

    run_kind([], session.setup, rounds=9, seconds=0.1, say=lambda text: None, go_on=go_on)
    assert asked == [True, True, False]
    budget = Budget(0)
    assert not any(budget.allows("it") for _ in range(2))
    assert budget.left_out == ["it"]


def test_tracebacks_name_no_folder_of_this_machine() -> None:
    text = 'File "/home/me/x/benchmarks/gpu/a.py", line 1\nFile "/opt/lib/python3.12/site-packages/torch/b.py", line 2'
    assert without_paths(text) == 'File "benchmarks/gpu/a.py", line 1\nFile "site-packages/torch/b.py", line 2'


def fail_or_sleep(bound: int, seconds: float) -> float:
    if seconds < 0:
        raise ValueError("no such time")
    time.sleep(seconds)
    return bound + seconds


@contextmanager
def errors_into(path: Path) -> Iterator[None]:
    """Redirect the standard error output of this process and its children to a file."""
    before = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def test_caller_survives_errors_and_ends_hanging_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "START_METHOD", "spawn")  # children of a fork server don't inherit the redirection
    errors = tmp_path / "errors"
    with errors_into(errors), Caller("sleeper", fail_or_sleep, 1, grace=60) as caller:
        caller.begin(-1)
        with pytest.raises(RivalError, match="no such time") as caught:
            caller.end()
        assert caught.value.reported
        caller.begin(0)
        assert caller.end() == 1
        caller.grace = 0.2
        caller.begin(600)
        with pytest.raises(RivalError, match="gave no answer") as caught:
            caller.end()
        assert not caught.value.reported
        while "in fail_or_sleep" not in errors.read_text():  # the stack shows where it hangs
            os.sched_yield()


def test_memory_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "print('1234' if 'memory.used' in sys.argv[1] else '10, 500\\n11, 24\\n12, [N/A]')\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_memory.memory_in_use(0) == 1234
    assert gpu_memory.memory_by_group({"ours": [10, 11, 99], "theirs": [12], "others": []}) == {"ours": 524}
    monkeypatch.setenv("PATH", "")
    assert gpu_memory.memory_in_use(0) is None


@pytest.mark.parametrize("status", [0, 3])
def test_service_lives_as_long_as_its_context(status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, said = tmp_path / "nvidia-cuda-mps-control", tmp_path / "said"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\nsaid = open({str(said)!r}, 'a')\n"
        "print(sys.argv[1:], sys.stdin.read(), os.path.isdir(os.environ['CUDA_MPS_PIPE_DIRECTORY']), file=said)\n"
        f"sys.exit({status})\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    with nullcontext() if status == 0 else pytest.raises(NoMpsError, match="status 3"), multi_process_service():
        assert "CUDA_MPS_LOG_DIRECTORY" in os.environ
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ
    assert said.read_text() == "['-d']  True\n" + ("[] quit -t 5\n True\n" if status == 0 else "")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoMpsError, match="not installed"), multi_process_service():
        pass


def test_command_saves_its_results_when_time_is_over(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--device", "cpu", "--files", "8", "--limit", "0", "--loaders", "ours, thread"]
    monkeypatch.setattr(sys, "argv", ["gpu", *words, "--output", str(tmp_path)])
    assert command_line.main() == 0
    printed = capsys.readouterr().out
    assert "Skipped, because 0 s were over: pixels; throughput; graphs; timeline; sizes; training" in printed
    (saved,) = tmp_path.glob("*-gpu.json")
    text = saved.read_text()
    assert str(tmp_path) not in text
    repeated = shlex.split(json.loads(text)["command"])
    assert repeated[:3] == ["python", "-m", "benchmarks.gpu"]
    assert "ours, thread" in repeated


def test_command_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu"])
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert command_line.main() == 2
    assert "no GPU" in capsys.readouterr().err
