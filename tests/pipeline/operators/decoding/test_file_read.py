"""`io.file.read`: forms of paths, and files that can't be read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn


def path_of(path: Path | str) -> np.ndarray:
    return np.frombuffer(os.fsencode(str(path)), np.uint8)


def read(paths: Sequence[np.ndarray]) -> list[bytes]:
    with Pipeline(batch_size=len(paths), num_threads=2, device_id=None) as pipe:
        pipe.set_outputs(fn.io.file.read(fn.external_source(name="path")))
    try:
        pipe.feed_input("path", list(paths))
        (made,) = pipe.run()
        assert made.ndim == 1
        return [bytes(np.asarray(sample)) for sample in made]
    finally:
        pipe.close()


def test_all_forms_of_paths_are_read(jpeg_folder: Path) -> None:
    paths = sorted(jpeg_folder.rglob("*.jpg"))[:40]
    given = [path_of(path) if number % 2 else path_of(f"file://{path}\0") for number, path in enumerate(paths)]
    assert read(given) == [path.read_bytes() for path in paths]
    assert read([each.view(np.int8) for each in given[:3]]) == [path.read_bytes() for path in paths[:3]]


def test_errors_name_the_samples_that_fail(jpeg_folder: Path) -> None:
    good = path_of(next(jpeg_folder.rglob("*.jpg")))
    with pytest.raises(errors.OperatorError, match=r"for sample 17: .*no-a.*1 more sample ") as caught:
        read([good] * 17 + [path_of("/no-a"), good, path_of("/no-b")])
    assert [failure.sample for failure in caught.value.failures] == [17, 19]
    with pytest.raises(errors.OperatorError, match="must be an array of uint8"):
        read([good.astype(np.int32)])
