"""Reading of many ranges of open files at once."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._bulk.native import compiled
from dali_proxy.pipeline._bulk.ranges import FileRanges, Ranges
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool

pytestmark = pytest.mark.skipif(compiled is None, reason="the package was installed without a C compiler")
CONTENT = np.random.default_rng(0).integers(0, 256, 100_000, np.uint8)
POSITIONS = np.array([[0, 8], [100, 0], [99_000, 50_000], [3, 7]])
SIZES = np.array([[40_000, 16], [0, 8], [1000, 48_000], [1, 8]])


@pytest.fixture
def file(tmp_path: Path) -> int:
    path = tmp_path / "data"
    path.write_bytes(CONTENT.tobytes())
    return os.open(path, os.O_RDONLY)


def test_ranges_are_read_in_the_order_of_the_entries(file: int) -> None:
    table = FileRanges(np.full_like(SIZES, file), POSITIONS, SIZES, BufferPool())
    with ThreadPool(3, "ranges") as pool:
        gc.disable()
        for _ in range(3):
            ranges = Ranges(table, [2, 0, 3, 1, 2])
            assert ranges.start(pool).wait() == []
            assert ranges.complete
            for number, dtype in enumerate((np.uint8, np.uint64)):
                samples = ranges.output(number, np.dtype(dtype)).samples
                for entry, sample in zip([2, 0, 3, 1, 2], samples, strict=True):
                    first, size = POSITIONS[entry, number], SIZES[entry, number]
                    assert sample.tobytes() == CONTENT[first : first + size].tobytes()
            del ranges, samples, sample
        gc.enable()
    assert table.buffers.allocated == 1  # memory is free again without garbage collection
    os.close(file)


def test_range_beyond_the_end_is_not_complete(file: int) -> None:
    beyond, refused = POSITIONS + np.array([[0, 0], [0, 0], [1, 0], [0, 0]]), SIZES.copy()
    refused[3] = -1
    with ThreadPool(1, "ranges") as pool:
        for positions, sizes in ((beyond, SIZES), (POSITIONS, refused)):
            ranges = Ranges(FileRanges(np.full_like(SIZES, file), positions, sizes, BufferPool()), [0, 1, 2, 3])
            assert ranges.start(pool).wait() == []
            assert not ranges.complete
    os.close(file)


@pytest.mark.parametrize(("offset", "size"), [(-1, 2), (9, 2), (0, -1), (1 << 62, 1), (0, 11)])
def test_range_that_exceeds_the_buffer_is_an_error(offset: int, size: int) -> None:
    columns = (np.array([each], np.int64) for each in (0, 0, size, offset, 0))
    assert compiled is not None
    with pytest.raises(ValueError, match="doesn't fit into the buffer"):
        compiled.read_ranges(1, bytearray(10), *columns)
