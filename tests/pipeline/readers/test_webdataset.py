"""readers.webdataset compared with NVIDIA DALI, with and without indices."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline.errors import PipelineError

FILES = {
    "a.tar": [
        ("dir", None),
        ("dir/0.jpg", b"abc"),
        ("dir/0.cls", b"12"),
        ("1.JPG", b"ABCD"),
        ("1.seg.png", b"xy"),
        (".hidden.jpg", b"zz"),
        ("2.png", b"png"),
        ("2.jpg", b"jpg2"),
        ("2.cls", b"1234"),
        ("noext", b"q"),
    ],
    "b.tar": [("long" * 40 + "/3.jpg", b"b3"), ("long" * 40 + "/3.cls", b"99"), ("4.cls", b"4444")],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("webdataset")
    for name, files in FILES.items():
        with tarfile.open(folder / name, "w", format=tarfile.GNU_FORMAT) as archive:
            for path, data in files:
                member = tarfile.TarInfo(path)
                if data is None:
                    member.type = tarfile.DIRTYPE
                member.size = len(data or b"")
                archive.addfile(member, io.BytesIO(data or b""))
    (folder / "a.idx").write_text(
        "v1.2 2\njpg 1024 3 dir/0.jpg cls 2048 2 dir/0.cls\npng 6144 3 2.png cls 8192 4 2.cls\n"
    )
    (folder / "b.idx").write_text("v1.1 1\njpg 1536 2 cls 3584 2\n")
    return folder


def outputs(side: str, root: Path, batch_size: int = 5, types: Any = None, **arguments: Any) -> Any:
    dali = pipeline if side == "ours" else pytest.importorskip("nvidia.dali")
    if types:
        arguments["dtypes"] = [getattr(dali.types, name) for name in types]
    for name in ("paths", "index_paths"):
        if name in arguments or name == "paths":
            arguments[name] = [str(root / each) for each in arguments.get(name, FILES)]
    pipe = dali.Pipeline(batch_size=batch_size, num_threads=1, device_id=None, seed=1)
    with pipe:
        made = dali.fn.readers.webdataset(name="R", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list | tuple) else (made,)))
    pipe.build()
    try:
        batches = [pipe.run() for _ in range(2)]
        arrays = [[np.array(output.at(index)) for index in range(len(output))] for batch in batches for output in batch]
        sources = [output[index].source_info() for output in batches[0][:1] for index in range(len(output))]
        return pipe.epoch_size("R"), arrays, sources
    finally:
        if side == "ours":
            pipe.close()


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {"ext": ["jpg", "cls"]},
        {"ext": ["jpg;png", "cls"]},
        {"ext": ["jpg", "cls"], "missing_component_behavior": "skip"},
        {"ext": "jpg", "case_sensitive_extensions": False},
        {"ext": "seg.png"},
        {"ext": ["cls", "jpg"], "types": ["INT16", "UINT8"]},
        {"ext": ["jpg", "jpg"]},
        {"ext": "zzz"},
        {"ext": "png;jpg", "num_shards": 2, "shard_id": 1, "pad_last_batch": True},
        {"ext": ["jpg;png", "cls"], "index_paths": ["a.idx", "b.idx"]},
    ],
)
def test_samples_are_those_of_dali(root: Path, arguments: dict[str, Any]) -> None:
    (size, ours, our_sources), (their_size, theirs, their_sources) = (
        outputs(side, root, **arguments) for side in ("ours", "dali")
    )
    assert size == their_size
    for our_output, their_output in zip(ours, theirs, strict=True):
        for our, their in zip(our_output, their_output, strict=True):
            assert our.dtype == their.dtype
            assert np.array_equal(our, their)
    if "index_paths" not in arguments:
        assert our_sources == their_sources


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"ext": ["jpg", "cls"], "missing_component_behavior": "error"}, "lacks a file; it has JPG, seg.png"),
        ({"ext": ["jpg"], "missing_component_behavior": "zero"}, 'must be "empty", "skip" or "error"'),
        ({"ext": ["cls"], "types": ["INT32"]}, "2 bytes isn't an array of int32"),
        ({"ext": ["jpg", "cls"], "types": ["UINT8"]}, "1 dtypes for 2 outputs"),
        ({"ext": ["jpg"], "index_paths": ["a.idx"]}, "1 index_paths for 2 archives"),
        ({"ext": ["jpg"], "index_paths": ["a.tar", "b.tar"]}, "isn't an index of an archive"),
        ({"ext": ["jpg"], "paths": ["nowhere.tar"]}, "can't read the file"),
        ({"ext": ["jpg"], "paths": ["a.idx"]}, "can't read the archive"),
        ({"ext": ["zzz"], "missing_component_behavior": "skip"}, "no samples in"),
    ],
)
def test_bad_archives_are_refused(root: Path, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        outputs("ours", root, **arguments)


def test_archive_that_ends_too_early_is_the_error_of_its_batch(root: Path, tmp_path: Path) -> None:
    (tmp_path / "short.tar").write_bytes((root / "a.tar").read_bytes()[:1026])
    with pytest.raises(PipelineError, match="ends within"):
        outputs("ours", root, paths=[str(tmp_path / "short.tar")], index_paths=["a.idx"], ext="jpg", batch_size=1)


def test_archive_truncated_while_it_is_read_is_an_error_of_its_samples(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes((root / "a.tar").read_bytes())
    pipe = pipeline.Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(
            *pipeline.fn.readers.webdataset(
                paths=[str(path)], index_paths=[str(root / "a.idx")], ext=["jpg;png", "cls"], lazy_init=True
            )
        )
    pipe.build()
    reader = next(iter(pipe.reader_meta().values()))
    assert reader["epoch_size"] == 2
    os.truncate(path, 6145)
    with pytest.raises(PipelineError, match=r"a.tar' ends within .*2\.png"):
        pipe.run()
    pipe.close()
