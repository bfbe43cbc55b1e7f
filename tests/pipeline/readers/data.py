"""Shared code of the readers' tests: a data set of files that contain their numbers, and the contents of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipeline import Pipeline, fn


def write_files(folder: Path, count: int) -> list[str]:
    """Create files of one byte, which is the file's number; return their paths."""
    paths = [folder / f"{number:03}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]))
    return [str(path) for path in paths]


def reading(files: list[str], batch_size: int, name: str = "r", **arguments: Any) -> Pipeline:
    """Create a pipeline that reads files; arguments of `Pipeline` begin with ``pipe_``."""
    of_pipe = {key[5:]: value for key, value in arguments.items() if key.startswith("pipe_")}
    of_reader = {key: value for key, value in arguments.items() if not key.startswith("pipe_")}
    with Pipeline(**{"batch_size": batch_size, "num_threads": 2, "device_id": None, **of_pipe}) as pipe:
        pipe.set_outputs(*fn.readers.file(files=files, name=name, **of_reader))
    return pipe


def take(pipe: Any, batches: int) -> list[list[int]]:
    """Run batches; return the file numbers in each, on which the contents and the labels must agree."""
    made = []
    for _ in range(batches):
        data, labels = pipe.run()
        numbers = [int(np.asarray(label)[0]) for label in labels]
        assert [np.asarray(sample).tolist() for sample in data] == [[number] for number in numbers]
        made.append(numbers)
    return made


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]
