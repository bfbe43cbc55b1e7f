"""`readers.file`: the files that it finds, their labels, refused arguments, and unreadable files."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline import Pipeline, errors, fn, ops
from tests.pipeline.readers.data import reading, take, write_files

NAMES = [
    *("a/1.jpg", "a/0.JPG", "a/.hidden.jpg", "a/n.txt", "a/B.png", "a/b.png", "a/sub/deep.jpg", "B/x.jpeg", "b/y.webp"),
    *("empty/none.txt", ".hid/z.jpg", "10/q.jpg", "9/q.jpg", "top.jpg", "c d/sp ace.jpg", "e/e.jpg", "Ünï/ü.jpg"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a folder with files of all kinds in folders of all kinds, and a folder of links."""
    made = tmp_path / "root"
    for name in NAMES:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    (made / "e" / "folder.jpg").mkdir()
    (made / "e" / "link.jpg").symlink_to(made / "a" / "1.jpg")
    (made / "linked").symlink_to(made / "a")
    return made


def ours(**arguments: Any) -> Any:
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(*fn.readers.file(name="r", **arguments))
    return pipe


def dalis(**arguments: Any) -> Any:
    from nvidia.dali import Pipeline as DaliPipeline
    from nvidia.dali import fn as dali_fn

    pipe = DaliPipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(*dali_fn.readers.file(name="r", **arguments))
    pipe.build()
    return pipe


def found(make: Callable[..., Any], **arguments: Any) -> Any:
    """Return the contents and labels of all files, or "refused"."""
    pipe = None
    try:
        pipe = make(**arguments)
        made = []
        for _ in range(pipe.epoch_size("r")):
            data, labels = pipe.run()
            assert np.asarray(labels[0]).dtype == np.int32
            assert np.asarray(data[0]).dtype == np.uint8
            made.append((bytes(np.asarray(data[0])).decode(), np.asarray(labels[0]).tolist()))
    except RuntimeError:
        return "refused"
    finally:
        if isinstance(pipe, Pipeline):
            pipe.close()
    return made


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"case_sensitive_filter": True},
        {"dir_filters": ["a*", "B"]},
        {"dir_filters": "b", "case_sensitive_filter": True},
        {"file_filters": "*.txt"},
        {"file_filters": ["[01].jp?"]},
        {"file_filters": ["[!a-z]*.png", "x.*"], "case_sensitive_filter": True},
        {"file_filters": ["*.TXT"], "case_sensitive_filter": True},
        {"file_filters": []},
        {"dir_filters": []},
        {"dir_filters": ["nothing"]},
        {"labels": [1]},
        {"files": []},
        {"files": ["a/1.jpg"]},
        {"files": "a/1.jpg", "labels": 7},
        {"files": ["a/1.jpg", "b/y.webp", "a/1.jpg"], "labels": [5, -6, 5]},
        {"files": ["a/1.jpg"], "labels": [5, 6]},
        {"files": ["a/1.jpg"], "labels": []},
        {"files": ["a/nothing.jpg"]},
        {"files": ["a"]},
    ],
    ids=str,
)
def test_found_files_equal_dali(arguments: dict[str, Any], root: Path) -> None:
    expected = found(dalis, file_root=str(root), **arguments)
    assert found(ours, file_root=str(root), **arguments) == expected
    assert found(ours, file_root=f"{root}{os.sep}", **arguments) == expected


@pytest.mark.parity
@pytest.mark.parametrize(
    "lines",
    [
        "a/1.jpg 3\nb/y.webp 0\n",
        "a/1.jpg 3\n\n   \nb/y.webp 007",
        "a/1.jpg\t3\n",
        "a/1.jpg   3  \r\nc d/sp ace.jpg 2\r\n",
        "Ünï/ü.jpg 1\n./a/../a/1.jpg 2\n",
        "a/1.jpg\n",
        "a/1.jpg x\n",
        "# a comment\na/1.jpg 1\n",
        "a/1.jpg 1.5\n",
        "a/1.jpg -4\n",
        "a/1.jpg +4\n",
        "a/1.jpg 1 2\n",
        '"a/1.jpg" 1\n',
        "  a/1.jpg 1\n",
        "3\n",
        "",
    ],
)
def test_file_lists_equal_dali(lines: str, root: Path, tmp_path: Path) -> None:
    inside = root / "list.txt"
    inside.write_text(lines)
    outside = tmp_path / "list.txt"
    outside.write_text(lines)
    expected = found(dalis, file_list=str(inside))
    assert found(ours, file_list=str(inside)) == expected
    assert found(ours, file_list=str(outside), file_root=str(root)) == expected
    assert found(dalis, file_list=str(outside), file_root=str(root)) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "``file_root`` argument is required when not using ``files`` or ``file_list``"),
        ({"file_root": "{tmp}/nothing"}, "can't list the folder '{tmp}/nothing': No such file or directory"),
        ({"file_root": "{tmp}"}, "no folders below file_root '{tmp}'"),
        ({"file_root": "{root}", "file_filters": "*.foo"}, "no files that match *.foo in the 11 folders below"),
        ({"files": ["x"], "file_list": "y"}, "``files`` or ``file_list`` but not both"),
        ({"files": ["x", "y"], "labels": [1]}, "Provided 1 labels for 2 files"),
        ({"files": ["x"], "labels": [2**31]}, "the label 2147483648 doesn't fit into int32"),
        ({"files": []}, "argument 'files' is an empty list"),
        ({"file_list": "{tmp}/nothing.txt"}, "can't read file_list '{tmp}/nothing.txt': No such file"),
        (
            {"files": ["x"], "num_shards": 2},
            "number of input samples: 1, needs to be at least equal to the requested number of shards: 2",
        ),
        ({"files": ["x"], "shard_id": 1}, "argument 'shard_id' must be 0 or more and less than num_shards=1, not 1"),
        ({"files": ["x"], "prefetch_queue_depth": 0}, "'prefetch_queue_depth' must be 1 or more, not 0"),
        ({"files": ["x"], "initial_fill": 0, "random_shuffle": True}, "'initial_fill' must be 1 or more, not 0"),
        (
            {"files": ["x"], "random_shuffle": True, "shuffle_after_epoch": True},
            "shuffle_after_epoch and random_shuffle cannot be both true",
        ),
    ],
    ids=str,
)
def test_errors_when_built(arguments: dict[str, Any], message: str, root: Path, tmp_path: Path) -> None:
    def filled(value: Any) -> Any:
        return (
            value.replace("{tmp}", str(tmp_path / "x")).replace("{root}", str(root))
            if hasattr(value, "format")
            else value
        )

    (tmp_path / "x").mkdir()
    pipe = ours(**{key: filled(value) for key, value in arguments.items()})
    with pytest.raises(errors.PipelineError) as caught:
        pipe.build()
    assert filled(message) in str(caught.value)
    assert "fn.readers.file (name='r')" in str(caught.value)
    assert "test_file.py" in str(caught.value)
    pipe.close()


def test_vanished_file_fails_its_batch_only(tmp_path: Path) -> None:
    files = write_files(tmp_path, 10)
    for gone in (files[2], files[3], files[7]):
        os.unlink(gone)
    os.mkdir(files[7])
    pipe = reading(files, 2)
    assert take(pipe, 1) == [[0, 1]]
    with pytest.raises(errors.OperatorError) as caught:
        pipe.run()
    text = str(caught.value)
    assert f"fn.readers.file (name='r') failed for sample 0: can't read the file {files[2]!r}: No such file" in text
    assert "(and 1 more sample of this batch)" in text
    assert "data.py" in text  # the line that created the reader
    assert [failure.sample for failure in caught.value.failures] == [0, 1]
    assert take(pipe, 1) == [[4, 5]]
    with pytest.raises(errors.OperatorError, match=r"sample 1: can't read the file .*007\.jpg': Is a directory"):
        pipe.run()
    Path(files[2]).write_bytes(b"\x02")
    Path(files[3]).write_bytes(b"\x03")
    assert take(pipe, 3) == [[8, 9], [0, 1], [2, 3]]  # files that were restored
    pipe.close()


def test_empty_and_large_files_are_read_without_a_copy(tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(0, 256, 3_000_000, dtype=np.uint8)
    (tmp_path / "large").write_bytes(content.tobytes())
    (tmp_path / "empty").touch()
    pipe = ours(files=["large", "empty"], file_root=str(tmp_path))
    data, labels = pipe.run()
    np.testing.assert_array_equal(data.at(0), content)
    assert labels.dense is not None
    assert labels.shape() == [(1,)]
    data, _ = pipe.run()
    assert data.shape() == [(0,)]
    pipe.close()


def test_lazy_init_lists_files_on_demand(tmp_path: Path) -> None:
    folder = tmp_path / "root" / "0"
    pipe = ours(file_root=str(folder.parent), lazy_init=True)
    pipe.build()
    for number in range(2):  # two batches were started
        with pytest.raises(errors.OperatorError, match=r"can't list the folder .*\n.*test_file.py"):
            pipe.run()
        if number == 0:
            folder.mkdir(parents=True)
            write_files(folder, 3)
    assert [bytes(pipe.run()[0].at(0))[0] for _ in range(4)] == [0, 1, 2, 0]
    assert pipe.epoch_size("r") == 3
    pipe.close()


def test_ops_create_the_same_reader(tmp_path: Path) -> None:
    files = write_files(tmp_path, 4)
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(*ops.readers.File(files=files, shard_id=1, num_shards=2)())
    assert take(pipe, 1) == [[2, 3]]
    pipe.close()


def test_threads_of_a_reader_end_with_the_pipeline(tmp_path: Path) -> None:
    pipe = reading(write_files(tmp_path, 4), 2)
    pipe.build()
    assert not [each for each in threading.enumerate() if each.name.startswith("dali-r-")]
    pipe.run()
    assert [each for each in threading.enumerate() if each.name.startswith("dali-r-")]
    del pipe
    assert not [each for each in threading.enumerate() if each.name.startswith("dali-r-")]


def test_operator_that_fails_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        data, _ = fn.readers.file(files=["broken.jpg"], file_root=str(tmp_path))
        pipe.set_outputs(fn.resize(fn.decoders.image(data), size=(2, 2)))
    with pytest.raises(errors.OperatorError, match=r"fn.decoders.image failed for sample 0 \(broken.jpg\): "):
        pipe.run()
    pipe.close()


def test_readers_stay_in_step_when_one_of_them_cannot_begin(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1) as pipe:
        first, second = (fn.readers.file(file_root=str(root), name=name) for name in ("first", "second"))
        pipe.set_outputs(first[1], second[1])
    pipe.build()
    start = threading.Thread.start

    def start_others(thread: threading.Thread) -> None:
        if "first" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_others)  # simulates the system's limit
        with pytest.raises(errors.OperatorError, match=r"first.*can't start new thread"):
            pipe.run()
    assert [len(output) for output in pipe.run()] == [1, 1]
    pipe.close()


@pytest.mark.parametrize("separator", ["\u2028", "\u0085", "\x0c", "\x1e", "\r"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_a_list_end_with_line_feeds_only(separator: str, end: str, tmp_path: Path) -> None:
    name = f"a{separator}b.jpg"
    (tmp_path / name).write_text("data")
    (tmp_path / "list.txt").write_text(f"{name} 3{end}{name} 4", newline="")
    pipe = ours(file_list=str(tmp_path / "list.txt"))
    for label in (3, 4):
        files, labels = pipe.run()
        assert bytes(np.array(files.at(0))) == b"data"
        assert np.array(labels.at(0)).tolist() == [label]
    pipe.close()


def broken_links(root: Path) -> dict[str, dict[str, Any]]:
    """Create links whose target is missing. Return the arguments of readers."""
    for folder in ("files/cat", "frames/clip", "arrays", "classes/a", "videos/a"):
        (root / folder).mkdir(parents=True)
    (root / "classes" / "a" / "1.jpg").write_bytes(b"1")
    for link in ("files/cat/2.jpg", "frames/clip/2.png", "arrays/2.npy", "classes/b", "videos/a/2.mp4"):
        (root / link).symlink_to("/missing/target")
    return {
        "files": {"reader": "file"},
        "classes": {"reader": "file"},
        "frames": {"reader": "sequence", "sequence_length": 1},
        "arrays": {"reader": "numpy"},
        "videos": {"reader": "video", "sequence_length": 1},
    }


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("folder", ["files", "classes", "frames", "arrays", "videos"])
def test_link_whose_target_is_missing_is_an_error(folder: str, tmp_path: Path) -> None:
    arguments = broken_links(tmp_path)[folder]
    reader = getattr(pipeline.fn.readers, arguments.pop("reader"))
    pipe = pipeline.Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        made = reader(file_root=str(tmp_path / folder), **arguments)
        pipe.set_outputs(*(made if isinstance(made, list | tuple) else (made,)))
    with pytest.raises(errors.PipelineError, match=rf"the target of the link '.*{folder}/.*' is missing: '/missing/"):
        pipe.build()
    pipe.close()


def test_links_that_no_filter_selects_may_be_broken(tmp_path: Path) -> None:
    broken_links(tmp_path)
    (tmp_path / "classes" / "a" / "note.txt").symlink_to("/missing/note")
    (tmp_path / "classes" / ".#list").symlink_to("user@host")  # an editor's lock
    pipe = ours(file_root=str(tmp_path / "classes"), dir_filters=["a*"])
    pipe.build()
    assert pipe.epoch_size("r") == 1
    pipe.close()
