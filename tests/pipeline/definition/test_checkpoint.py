from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn
from pipeline.types import BatchInfo, SampleInfo
from tests.pipeline.external_source.sources import Restarting, batch

ITEMS = [np.int32([number]) for number in range(11)]


def by_sample(info: SampleInfo) -> Any:
    if info.idx_in_epoch >= 12:
        raise StopIteration
    return np.int32([info.idx_in_epoch + 100 * info.epoch_idx])


def by_batch(info: BatchInfo) -> Any:
    return batch(info.iteration)


def make(parallel: bool, checkpoint: bytes | None = None, **arguments: Any) -> Pipeline:
    """Return a pipeline with every kind of source that can resume elsewhere, and random numbers."""
    with Pipeline(
        batch_size=3,
        num_threads=1,
        device_id=None,
        enable_checkpointing=True,
        checkpoint=checkpoint,
        py_num_workers=2,
        **arguments,
    ) as pipe:
        pipe.set_outputs(
            fn.external_source(by_sample, batch=False, parallel=parallel),
            fn.external_source(by_batch, batch=True, batch_info=True, parallel=parallel),
            fn.external_source(ITEMS, batch=False, cycle="quiet"),
            fn.external_source([batch(n) for n in range(5)], batch=True, cycle="raise", parallel=parallel),
            fn.external_source((batch(n) for n in range(100)) if not parallel else lambda i: batch(i)),
            fn.random.uniform(),
        )
    return pipe


def take(pipe: Pipeline, count: int) -> list[Any]:
    outputs: list[Any] = []
    for _ in range(count):
        try:
            outputs.append([output.as_array().tolist() for output in pipe.run()])
        except StopIteration:
            outputs.append("end")
            pipe.reset()
    return outputs


@pytest.mark.combinations
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("before", [0, 1, 3, 4, 5, 7])
def test_pipeline_resumes_exactly_at_the_checkpoint(parallel: bool, before: int) -> None:
    first = make(parallel, seed=5)
    take(first, before)
    saved = first.checkpoint()
    expected = take(first, 9)
    first.close()
    second = make(parallel, saved)
    assert second.is_restored_from_checkpoint
    assert second.seed == 5
    assert take(second, 9) == expected
    second.close()


@pytest.mark.combinations
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("before", range(7))
def test_source_that_restarts_by_itself_resumes_at_the_checkpoint(parallel: bool, before: int) -> None:
    def restarting(checkpoint: bytes | None) -> Pipeline:
        with Pipeline(
            batch_size=3, num_threads=1, device_id=None, enable_checkpointing=True, checkpoint=checkpoint
        ) as pipe:
            pipe.set_outputs(fn.external_source(Restarting(), batch=True, parallel=parallel))
        return pipe

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it must return the same items
        first = restarting(None)
        taken = take(first, before)
        saved = first.checkpoint()
        expected = take(first, 6)
        first.close()
        second = restarting(saved)
    assert take(second, 6) == expected
    assert [item == "end" for item in taken + expected] == ([False, False, True] * 5)[: before + 6]
    second.close()


def test_pipeline_resumes_in_another_process(tmp_path: Path) -> None:
    first = make(False)
    take(first, 4)
    first.checkpoint(tmp_path / "checkpoint")
    expected = take(first, 3)
    first.close()
    root = Path(__file__).resolve().parents[3]
    program = (
        f"import pickle, sys; sys.path[:0] = [{str(root)!r}, {str(Path(__file__).parent)!r}]\n"
        "from test_checkpoint import make, take\n"
        f"pipe = make(False, open({str(tmp_path / 'checkpoint')!r}, 'rb').read())\n"
        "sys.stdout.buffer.write(pickle.dumps(take(pipe, 3)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=150, check=True)
    assert pickle.loads(done.stdout) == expected


def test_prefetched_batches_are_not_counted() -> None:
    pipe = make(False, prefetch_queue_depth=4)
    (expected,) = take(pipe, 1)
    second = make(False, pipe.checkpoint(), prefetch_queue_depth=2)
    assert take(second, 2) == take(pipe, 2)
    assert expected[0] == [[0], [1], [2]]
    pipe.close()
    second.close()


class Counter:
    """A source with a state that a checkpoint can't contain."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        return batch(self.calls)


def of_counter(checkpoint: bytes | None = None) -> Pipeline:
    with Pipeline(
        batch_size=3, num_threads=1, device_id=None, enable_checkpointing=True, checkpoint=checkpoint
    ) as pipe:
        pipe.set_outputs(fn.external_source(Counter()), fn.random.uniform())
    return pipe


def test_callable_without_an_argument_starts_from_its_beginning() -> None:
    first = of_counter()
    with pytest.warns(UserWarning, match="DALI doesn't capture state of such 'source'.*starts from its beginning"):
        start = take(first, 3)
    second = of_counter(first.checkpoint())
    after = take(first, 2)
    with pytest.warns(UserWarning, match="DALI doesn't capture state"):
        resumed = take(second, 2)
    assert [source for source, _ in resumed] == [source for source, _ in start[:2]]
    assert [number for _, number in resumed] == [number for _, number in after]
    first.close()
    second.close()


@pytest.mark.parametrize("source", [[batch(0)], iter([batch(0)]), lambda: batch(0)])
def test_source_with_a_state_causes_a_warning(source: Any) -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None, enable_checkpointing=True) as pipe:
        pipe.set_outputs(fn.external_source(source))
    with pytest.warns(UserWarning, match="DALI doesn't capture state of such 'source'.") as caught:
        pipe.build()
    assert [warning.filename for warning in caught] == [__file__]
    pipe.close()


@pytest.mark.parametrize("enable_checkpointing", [True, False])
def test_source_without_a_state_causes_no_warning(enable_checkpointing: bool) -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None, enable_checkpointing=enable_checkpointing) as pipe:
        pipe.set_outputs(fn.external_source(by_batch if enable_checkpointing else lambda: batch(0), batch_info=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.build()
    pipe.close()


def test_checkpoint_needs_the_argument_of_the_pipeline() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(by_batch))
    with pytest.raises(errors.PipelineError, match="enable_checkpointing=True"):
        pipe.checkpoint()
    pipe.close()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"garbage", "isn't a checkpoint"),
        ("text", "isn't a checkpoint"),
        (b"dali-proxy checkpoint\n\xc1", "damaged"),
        (b"dali-proxy checkpoint\n\x81\xa7version\x63", "format 99"),
    ],
)
def test_invalid_checkpoint_is_refused(data: Any, message: str) -> None:
    with pytest.raises(errors.SerializationError, match=message):
        Pipeline(batch_size=1, num_threads=1, device_id=None, checkpoint=data)
