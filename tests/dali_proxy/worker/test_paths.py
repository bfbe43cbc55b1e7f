"""Relative paths that datasets pass to the proxy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import Dataset, default_collate

from dali_proxy import BatchError, DALIServer, DataLoader
from dali_proxy._transport.endpoint import InputSpec
from dali_proxy._worker.proxy import as_input_array
from dali_proxy.pipeline._bulk.read_file import read_file
from pipeline import Pipeline, dynamic, fn
from pipeline.errors import PipelineError


class Files(Dataset[Any]):
    """Passes a relative path, and opens the same file itself."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return self.transform(b"image"), len(Path("image").read_bytes())


@pytest.mark.combinations
@pytest.mark.parametrize("workers", [{"loader": 0}, {"loader": 1}, {"server": 1}])
def test_relative_path_belongs_to_the_directory_of_the_dataset(
    workers: dict[str, int], serve: Callable[..., DALIServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size, name in enumerate(("old", "new"), 1):
        (tmp_path / name).mkdir()
        (tmp_path / name / "image").write_bytes(bytes(size))
    monkeypatch.chdir(tmp_path / "old")
    with Pipeline(batch_size=4, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.io.file.read(fn.external_source(name="path")))
    server = serve(pipe, num_workers=workers.get("server", 0))
    loader = DataLoader(server, Files(server.proxy), 2, num_workers=workers.get("loader", 0))
    for size, name in enumerate(("old", "new"), 1):
        monkeypatch.chdir(tmp_path / name)
        [(contents, sizes)] = loader
        assert contents.shape == (2, size)
        assert sizes.tolist() == [size, size]
    (tmp_path / "new" / "image").unlink()
    with pytest.raises(BatchError, match=re.escape(f"can't read the file '{tmp_path}/new/image'")):
        server.produce_data(default_collate([server.proxy(np.frombuffer(b"image\0", np.uint8))]))


def test_served_function_takes_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DALIServer(lambda path: dynamic.io.file.read(path), batch_size=2, num_threads=1) as server:
        monkeypatch.chdir(tmp_path)
        Path("image").write_bytes(b"abc")
        for name in (b"image", "image", Path("image"), str(tmp_path / "image")):
            assert server.produce_data(default_collate([server.proxy(name)])).tolist() == [[97, 98, 99]]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"a/b", b"/tmp/a/b"),
        (b"file://a", b"/tmp/a"),
        (b"/a", b"/a"),
        (b"file:///a", b"file:///a"),
        (b"s3://bucket/a", b"s3://bucket/a"),
        (b"", b""),
        (b"\xff", b"/tmp/\xff"),
    ],
)
def test_paths_become_absolute(path: bytes, expected: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    found = as_input_array(np.frombuffer(path, np.int8), InputSpec("x", is_path=True))
    assert found.dtype == np.int8
    assert found.tobytes().removeprefix(b"file://") == expected.removeprefix(b"file://")
    assert as_input_array(path, InputSpec("x")).tobytes() == path


def test_error_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message = f"can't read the file 'missing' in the directory '{tmp_path}': No such file"
    with pytest.raises(PipelineError, match=re.escape(message)):
        read_file("missing")
