"""decoders.inflate compared with the arrays before compression. DALI's version needs a GPU."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, Output, run_ours

block = pytest.importorskip("lz4.block")

IMAGES = [np.arange(60, dtype=np.int16).reshape(5, 4, 3) + 100 * number for number in range(3)]


def compress(array: Array) -> Array:
    return np.frombuffer(block.compress(array.tobytes(), store_size=False), np.uint8)


BLOCKS = [compress(image) for image in IMAGES]
SIZES = [len(block) for block in BLOCKS]
STARTS = [sum(SIZES[:number]) for number in range(3)]
SEQUENCE = np.concatenate(BLOCKS)


def inflated(*samples: Array, dtype: str = "INT16", **arguments: Any) -> Output:
    def graph(fn: Any, types: Any, data: Any) -> Any:
        return fn.decoders.inflate(data, **{"shape": [5, 4, 3], "dtype": getattr(types, dtype), **arguments})

    return run_ours(graph, list(samples))[0]


def test_block_is_an_array() -> None:
    output = inflated(*BLOCKS, layout="HWC")
    assert output.layout == "HWC"
    assert all(np.array_equal(*pair) for pair in zip(output.samples, IMAGES, strict=True))


@pytest.mark.parametrize(
    "arguments",
    [{"chunk_sizes": SIZES}, {"chunk_offsets": STARTS}, {"chunk_sizes": SIZES, "chunk_offsets": STARTS}],
)
def test_blocks_are_a_sequence(arguments: dict[str, Any]) -> None:
    output = inflated(SEQUENCE, layout="HWC", **arguments)
    assert output.layout == "FHWC"
    assert np.array_equal(output.samples[0], np.stack(IMAGES))


def test_blocks_may_be_in_any_order() -> None:
    output = inflated(
        SEQUENCE, layout="HWC", sequence_axis_name="D", chunk_sizes=SIZES[:0:-1], chunk_offsets=STARTS[:0:-1]
    )
    assert output.layout == "DHWC"
    assert np.array_equal(output.samples[0], np.stack(IMAGES[:0:-1]))


def test_no_blocks_are_an_empty_sequence() -> None:
    assert inflated(SEQUENCE, chunk_sizes=[]).samples[0].shape == (0, 5, 4, 3)


def test_rest_of_a_larger_array_is_zero() -> None:
    (result,) = inflated(BLOCKS[1], shape=80).samples
    assert np.array_equal(result[:60], IMAGES[1].ravel())
    assert not result[60:].any()


def test_shapes_may_differ_from_sample_to_sample() -> None:
    def graph(fn: Any, types: Any, data: Any, shape: Any) -> Any:
        return fn.decoders.inflate(data, shape=shape)

    arrays = [np.arange(6, dtype=np.uint8), np.zeros(0, np.uint8)]
    (output,) = run_ours(graph, [compress(array) for array in arrays], [np.array([2, 3]), np.array([0, 3])])
    assert [sample.tolist() for sample in output.samples] == [[[0, 1, 2], [3, 4, 5]], []]


def test_experimental_inflate_is_a_deprecated_name() -> None:
    def graph(fn: Any, types: Any, data: Any) -> Any:
        return fn.experimental.inflate(data, shape=60, dtype=types.INT16)

    with pytest.warns(DeprecationWarning, match="fn.decoders.inflate"):
        (output,) = run_ours(graph, [BLOCKS[0]])
    assert np.array_equal(output.samples[0], IMAGES[0].ravel())


@pytest.mark.parametrize(
    ("sample", "arguments", "match"),
    [
        (BLOCKS[0], {"algorithm": "zip"}, "Unknown inflate algorithm 'zip'"),
        (BLOCKS[0], {"sequence_axis_name": "AB"}, "'sequence_axis_name' must be a single character, not 'AB'"),
        (BLOCKS[0].astype(np.float32), {}, "must be 1-D uint8, not float32"),
        (BLOCKS[0], {"shape": -1}, "The shape argument must be a number or a list of extents"),
        (BLOCKS[0], {"layout": "HW"}, "the layout 'HW' doesn't have the 3 dimensions of the shape"),
        (BLOCKS[0], {"chunk_sizes": [9999]}, "a block from byte 0 to 9999 isn't in the sample"),
        (BLOCKS[0], {"chunk_sizes": [3, -1]}, "a block from byte 3 to 2 isn't in the sample"),
        (BLOCKS[0], {"chunk_offsets": [1, 1]}, "a block from byte 1 to 1 isn't in the sample, .* or is empty"),
        (BLOCKS[0], {"chunk_offsets": [-5], "chunk_sizes": [5]}, "a block from byte -5 to 0 isn't in the sample"),
        (BLOCKS[0], {"chunk_offsets": [1], "chunk_sizes": [1, 1]}, "there are 1 'chunk_offsets', but 2 'chunk_sizes'"),
        (BLOCKS[0], {"shape": 59}, "sample 0: a block of .* isn't LZ4, or contains more than 118 bytes"),
        (BLOCKS[0], {"shape": [0]}, "a block"),
        (BLOCKS[0][:20], {}, "isn't LZ4"),
        (np.full(40, 255, np.uint8), {}, "isn't LZ4"),
    ],
)
def test_bad_block_or_argument_is_an_error(sample: Array, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        inflated(sample, **arguments)


def test_missing_package_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lz4.block", None)
    with pytest.raises(PipelineError, match=r"needs the package 'lz4'.*'dali-proxy\[lz4\]'"):
        inflated(BLOCKS[0])
