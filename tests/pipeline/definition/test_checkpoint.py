from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn
from pipeline.types import BatchInfo, SampleInfo
from tests.pipeline.external_source.sources import batch

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


def test_source_without_checkpoints_says_so() -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None, enable_checkpointing=True) as pipe:
        pipe.set_outputs(fn.external_source(lambda: batch(0)))
    with pytest.raises(errors.SerializationError, match="called without an argument; let it take a SampleInfo"):
        pipe.run()
    pipe.close()
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
