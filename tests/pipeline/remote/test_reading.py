"""Readers and `io.file.read` of URLs: the same data as from local files, in spite of latency and faults."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import sys
import tarfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from dali_proxy.pipeline._remote.data_file import Blocks
from dali_proxy.pipeline._remote.request_limit import MOST_REQUESTS
from dali_proxy.pipeline._remote.totals import remote_totals
from pipeline import Pipeline, fn, tfrecord
from pipeline.errors import BuildError, OperatorError, PipelineError
from tests.clips import Clips
from tests.pipeline.readers.wire import image_record, write_recordio
from tests.remote import WebServer, serving

asyn = pytest.importorskip("fsspec.asyn", reason="needs fsspec")
pytest.importorskip("aiohttp", reason="needs aiohttp")
asyn.get_loop()  # its thread lasts until the interpreter ends


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """A server of images of two classes, records, an archive and an array."""
    monkeypatch.setattr("dali_proxy.pipeline._remote.reading._FIRST_PAUSE", 0.001)
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for number in range(40):
            (tmp_path / label / f"{number:02}.jpg").write_bytes(f"{label}{number}".encode() * 10)
    records = []
    for number in range(10):
        feature = bytes([10, 1, number])  # a list of bytes with one item
        entry = b"\x0a\x01x\x12" + bytes([len(feature) + 2]) + b"\x0a" + bytes([len(feature)]) + feature
        features = b"\x0a" + bytes([len(entry)]) + entry
        example = b"\x0a" + bytes([len(features)]) + features
        records.append(struct.pack("<Q", len(example)) + bytes(4) + example + bytes(4))
    (tmp_path / "x.tfrecord").write_bytes(b"".join(records))
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for number in range(10):
            for extension, content in (("jpg", bytes([number]) * 100), ("cls", str(number).encode())):
                member = tarfile.TarInfo(f"{number}.{extension}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    np.save(tmp_path / "x.npy", np.arange(100).reshape(10, 10))
    with serving(tmp_path) as server:
        yield server


def outputs(batches: int, *nodes: Any, pipe: Pipeline) -> list[list[Any]]:
    with pipe:
        pipe.set_outputs(*nodes)
    found = [[np.asarray(sample).tolist() for output in pipe.run() for sample in output] for _ in range(batches)]
    pipe.close()
    return found


def new_pipe(batch_size: int = 8) -> Pipeline:
    return Pipeline(batch_size=batch_size, num_threads=2, device_id=None, seed=3)


READERS: dict[str, Any] = {
    "file_root": lambda root: fn.readers.file(file_root=root, random_shuffle=True),
    "files": lambda root: fn.readers.file(files=[f"{root}/a/01.jpg", f"{root}/b/02.jpg"]),
    "file_list": lambda root: fn.readers.file(file_list=f"{root}/list.txt"),
    "tfrecord": lambda root: [
        *fn.readers.tfrecord(
            path=f"{root}/x.tfrecord", features={"x": tfrecord.FixedLenFeature((), tfrecord.string, "")}
        ).values()
    ],
    "webdataset": lambda root: fn.readers.webdataset(paths=[f"{root}/x.tar"], ext=["jpg", "cls"]),
    "shuffled webdataset": lambda root: fn.readers.webdataset(
        paths=[f"{root}/x.tar"], ext=["jpg", "cls"], random_shuffle=True
    ),
    "numpy": lambda root: fn.readers.numpy(file_root=root, files=["x.npy"]),
    "numpy region": lambda root: fn.readers.numpy(files=[f"{root}/x.npy"], roi_start=[2, 3], roi_shape=[4, 2]),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("scheme", ["http", "file"])
def test_reader_of_urls_returns_the_same_data(reader: str, scheme: str, web: WebServer, tmp_path: Path) -> None:
    def read(root: str) -> list[list[Any]]:
        pipe = new_pipe()
        with pipe:
            made = READERS[reader](root)
            nodes = made if isinstance(made, list | tuple) else [made]
        return outputs(3, *nodes, pipe=pipe)

    (tmp_path / "list.txt").write_text("a/01.jpg 4\nb/03.jpg 5\n")
    assert read(web.url if scheme == "http" else f"file://{tmp_path}") == read(str(tmp_path))


MEDIA: dict[str, Any] = {
    "mxnet": lambda root: fn.readers.mxnet(path=[f"{root}/x.rec"], index_path=[f"{root}/x.idx"]),
    "coco": lambda root: fn.readers.coco(file_root=f"{root}/a", annotations_file=f"{root}/x.json"),
    "sequence": lambda root: fn.readers.sequence(file_root=f"{root}/frames", sequence_length=3),
    "nemo_asr": lambda root: fn.readers.nemo_asr(manifest_filepaths=[f"{root}/manifest.json"], read_text=False),
    "fits": lambda root: fn.experimental.readers.fits(file_root=root, files=["x.fits"]),
    "video": lambda root: fn.readers.video(filenames=[f"{root}/x.mp4"], sequence_length=3),
}


@pytest.mark.filterwarnings("ignore:.*readers.sequence. is now deprecated")
@pytest.mark.parametrize("reader", MEDIA)
def test_reader_of_media_behind_urls_returns_the_same_data(
    reader: str, web: WebServer, clips: Clips, tmp_path: Path
) -> None:
    if reader == "mxnet":
        write_recordio(tmp_path / "x.rec", [image_record(number, bytes([number]) * 9) for number in range(5)])
    elif reader == "coco":
        image = {"id": 1, "file_name": "03.jpg", "width": 64, "height": 40}
        box = {"id": 1, "image_id": 1, "category_id": 7, "bbox": [1, 2, 3, 4], "iscrowd": 0, "area": 12}
        content = {"images": [image], "categories": [{"id": 7, "name": "x"}], "annotations": [box]}
        (tmp_path / "x.json").write_text(json.dumps(content))
    elif reader == "sequence":
        (tmp_path / "frames" / "one").mkdir(parents=True)
        for number in range(4):
            cv2.imwrite(str(tmp_path / "frames" / "one" / f"{number}.png"), np.full((4, 6, 3), number, np.uint8))
    elif reader == "nemo_asr":
        soundfile = pytest.importorskip("soundfile")
        soundfile.write(tmp_path / "x.wav", np.sin(np.arange(500) / 9), 8000)
    elif reader == "fits":
        fits = pytest.importorskip("astropy.io.fits")
        hdus = [fits.PrimaryHDU(), fits.ImageHDU(np.arange(24).reshape(4, 6).astype("i4"))]
        fits.HDUList(hdus).writeto(tmp_path / "x.fits")
    else:
        shutil.copy(clips.path("h264.mp4"), tmp_path / "x.mp4")

    def read(root: str) -> list[list[Any]]:
        (tmp_path / "manifest.json").write_text(json.dumps({"audio_filepath": f"{root}/x.wav", "duration": 0.0625}))
        pipe = new_pipe(2)
        with pipe:
            made = MEDIA[reader](root)
        return outputs(2, *(made if isinstance(made, list | tuple) else [made]), pipe=pipe)

    local = read(str(tmp_path))
    assert local[0]
    assert read(web.url) == local


def read_paths(paths: list[str]) -> list[bytes]:
    pipe = new_pipe(len(paths))
    with pipe:
        pipe.set_outputs(fn.io.file.read(fn.external_source(name="paths")))
    try:
        (files,) = pipe.run(paths=[np.frombuffer(os.fsencode(path), np.uint8) for path in paths])
        return [np.asarray(sample).tobytes() for sample in files]
    finally:
        pipe.close()


def test_files_of_a_batch_are_read_at_once(web: WebServer, tmp_path: Path) -> None:
    web.gate = 16  # answers only when that many requests wait
    names = [f"a/{number:02}.jpg" for number in range(32)]
    assert read_paths([f"{web.url}/{name}" for name in names]) == [(tmp_path / name).read_bytes() for name in names]
    assert web.most_at_once <= MOST_REQUESTS


def test_passing_faults_are_tried_again(web: WebServer, tmp_path: Path) -> None:
    web.faults = {"/a/00.jpg": [503, "truncate", 429], "/x.tfrecord": [500, 500]}
    before, content = Counter(remote_totals()), (tmp_path / "a/00.jpg").read_bytes()
    assert read_paths([f"{web.url}/a/00.jpg"]) == [content]
    counted = {name: value - before[name] for name, value in remote_totals().items()}
    assert counted.pop("remote_seconds") > 0
    assert counted.pop("remote_limit") == 0  # nothing changed it
    assert counted == {"remote_reads": 1, "remote_bytes": len(content), "remote_repeats": 3}
    test_reader_of_urls_returns_the_same_data("tfrecord", "http", web, tmp_path)


@pytest.mark.parametrize(("fault", "requests"), [([404], 1), ([403], 1), ([503] * 9, 6)])
def test_lasting_faults_are_errors_that_name_the_url(fault: list[int | str], requests: int, web: WebServer) -> None:
    web.faults = {"/a/00.jpg": fault}
    with pytest.raises(OperatorError, match=r"can't read 'http://[^']*/a/00\.jpg'"):
        read_paths([f"{web.url}/a/00.jpg"])
    assert web.requests["/a/00.jpg"] == requests


@pytest.mark.parametrize("fault", [403, 503])
def test_error_does_not_show_secrets_of_the_url(fault: int, web: WebServer) -> None:
    path = "/a/00.jpg?X-Amz-Signature=SECRET"
    web.faults = {path: [fault] * 9}
    url = web.url.replace("://", "://me:PASSWORD@") + path
    with pytest.raises(OperatorError, match=r"http://\*\*\*@127\.0\.0\.1:\d+/a/00\.jpg\?\*\*\*'") as raised:
        read_paths([url])
    text = "".join(traceback.format_exception(raised.value))
    assert "SECRET" not in text
    assert "PASSWORD" not in text


def test_missing_dataset_is_an_error_when_the_pipeline_is_built(web: WebServer) -> None:
    for node in (
        lambda: fn.readers.file(file_root=f"{web.url}/nowhere"),
        lambda: [fn.readers.webdataset(paths=[f"{web.url}/nowhere.tar"], ext=["jpg"])],
    ):
        pipe = new_pipe()
        with pipe:
            pipe.set_outputs(*node())
        with pytest.raises(PipelineError, match="nowhere"):
            pipe.build()


def test_server_without_ranges_is_read(web: WebServer, tmp_path: Path) -> None:
    web.ranges = False
    test_reader_of_urls_returns_the_same_data("shuffled webdataset", "http", web, tmp_path)


def test_second_run_reads_from_the_cache(web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALI_PROXY_CACHE", str(tmp_path / "cache"))
    urls = [f"{web.url}/a/{number:02}.jpg" for number in range(4)]
    first = read_paths(urls)
    before = web.requests.total()
    assert read_paths(urls) == first
    assert web.requests.total() == before


def test_blocks_in_memory_are_limited(web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy.pipeline._remote.data_file._BLOCK", 100)
    content = np.random.default_rng(1).bytes(1000)
    (tmp_path / "big").write_bytes(content)
    blocks = Blocks(300)
    for offset, count in ((0, 1000), (95, 10), (950, 100), (100, 100), (1000, 5)):
        assert blocks.read(f"{web.url}/big", 1000, offset, count) == content[offset : offset + count]
        assert len(blocks._held) <= 3


def test_missing_package_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(OperatorError, match=r"pip install 'dali-proxy\[remote\]'"):
        read_paths(["s3://bucket/key"])


@pytest.mark.parametrize("url", ["reference::http://localhost/list.json", "simplecache::dask://localhost/a.jpg"])
def test_protocols_that_run_code_are_refused(url: str) -> None:
    with pytest.raises(OperatorError, match=r"isn't read: what the protocol '\w+' reads may run code on this machine"):
        read_paths([url])


def test_databases_must_be_local() -> None:
    pytest.importorskip("lmdb")
    pipe = new_pipe()
    with pipe:
        pipe.set_outputs(*fn.readers.caffe(path="s3://bucket/db"))
    with pytest.raises((BuildError, PipelineError), match="LMDB reads only local files"):
        pipe.build()
