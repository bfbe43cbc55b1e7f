"""Messages of batch errors."""

from __future__ import annotations

import io

import pytest

from dali_proxy._transport.failures import describe, rebuild
from pipeline import Pipeline, fn
from pipeline.errors import InputError, OperatorError, SampleFailure


def test_error_of_a_large_batch_names_eight_samples() -> None:
    """The attributes contain all samples that are sent."""
    error = OperatorError("bad", failures=tuple(SampleFailure(sample, ValueError()) for sample in range(32)))
    indices = [str(1000 + sample) for sample in range(32)]
    paths = [(f"{sample}.jpg",) for sample in range(32)]
    known = rebuild(describe(error, 1, 1, indices, "worker 0", 7, paths))
    assert (
        "dataset indices: 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007 and 24 more "
        "(samples 0, 1, 2, 3, 4, 5, 6, 7 and 24 more of the batch)"
    ) in str(known)
    assert "file: 0.jpg, 1.jpg, 2.jpg, 3.jpg, 4.jpg, 5.jpg, 6.jpg, 7.jpg and 24 more" in str(known)
    assert known.dataset_indices == tuple(map(int, indices))
    unknown = rebuild(describe(error, 1, 1, [], "worker 0", 7))
    assert "samples of the batch: 0, 1, 2, 3, 4, 5, 6, 7 and 24 more" in str(unknown)


def test_error_names_the_file_that_failed_of_several() -> None:
    """The other files of the sample are healthy. If it isn't known which failed, all are named."""
    failures = (
        SampleFailure(0, InputError("can't read the file '/left.mp4'")),
        SampleFailure(2, InputError("the file can't be decoded")),
    )
    paths = [("/left.mp4", "/right.mp4"), ("/other.mp4", ""), ("", "/right2.mp4")]
    error = rebuild(describe(OperatorError("bad", failures=failures), 1, 1, ["4", "5", "6"], "worker 0", 7, paths))
    assert error.paths == ("/left.mp4", "/right2.mp4")
    assert "file: /left.mp4, /right2.mp4" in str(error)


def test_file_that_is_fed_to_a_pipeline_is_an_error_that_says_what_to_pass() -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x"))
    with pytest.raises(InputError, match=r"BytesIO of .*file\.read\(\)"):
        pipe.run(x=[io.BytesIO(b"abc")])
    pipe.close()
