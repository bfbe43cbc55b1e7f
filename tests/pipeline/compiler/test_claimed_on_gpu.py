"""Samples that several pipelines with one cache on a GPU need at once: one decodes them, and the others wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from dali_proxy.pipeline._codecs import missing_codec_reason
from dali_proxy.pipeline._compiler.steps.cached_step import CachedStep
from dali_proxy.pipeline._concurrency.stuck_calls import this_thread
from pipeline.errors import PipelineError
from tests.pipeline.compiler.cached_runs import Samples, check_equal
from tests.pipeline.compiler.gpu_cached_runs import GpuRun
from tests.pipeline.compiler.test_claimed_samples import Gate, beside, waiting
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [
    pytest.mark.skipif(missing_codec_reason() is not None, reason=str(missing_codec_reason())),
    pytest.mark.usefixtures("image_decoder"),
]


def waits(run: GpuRun, count: int) -> Callable[[], bool]:
    """Return a function that says whether batches wait for so many values of a pipeline's cache."""
    executor: Any = run.pipe._internals.executor
    return waiting(executor.program.cached[0].cache, count)


@pytest.mark.parametrize("threshold", [0, 1 << 30])
def test_batch_waits_for_samples_that_another_pipeline_decodes(
    threshold: int,
    image_files: Samples,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate(monkeypatch)
    first, second = (GpuRun(cache_size=4, cache_threshold=threshold) for _ in range(2))
    with beside(lambda: first.batch(image_files[:6]), gate.then(lambda: second.batch(image_files[2:8]))) as results:
        wait_until(waits(first, 4))
        wait_until(lambda: gate.decoded == [2])  # the second batch has decoded what only it needs
        gate.opened.set()
        found = [result.result() for result in results]
    assert gate.decoded == [2, 6]
    plain = GpuRun()
    check_equal(found[0], plain.batch(image_files[:6]))
    check_equal(found[1], plain.batch(image_files[2:8]))


def test_batch_that_is_given_up_leaves_its_samples_to_those_that_wait(
    image_files: Samples,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stuck, returns = [], threading.Event()
    compute = CachedStep._compute

    def never_returns(step: CachedStep, batch: Any) -> None:
        if not stuck:
            stuck.append((this_thread.give_up, threading.current_thread()))
            assert returns.wait(PATIENCE_S)
            raise PipelineError("too late")
        compute(step, batch)

    monkeypatch.setattr(CachedStep, "_compute", never_returns)
    first, second = (GpuRun(cache_size=4) for _ in range(2))

    def wait_and_run() -> Any:
        wait_until(lambda: bool(stuck))
        return second.batch(image_files[:6])

    with beside(lambda: first.batch(image_files[:6]), wait_and_run) as (given_up, result):
        wait_until(waits(second, 6))
        give_up, thread = stuck[0]
        assert give_up is not None
        give_up(thread, "it doesn't return")
        found = result.result(PATIENCE_S)
        with pytest.raises(PipelineError, match="it doesn't return"):
            given_up.result(PATIENCE_S)
        returns.set()
    check_equal(found, GpuRun().batch(image_files[:6]))
