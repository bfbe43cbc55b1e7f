"""Lists the videos of a reader, with their labels and frame ranges."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind
from dali_proxy.pipeline._readers.file_lists import list_files, list_folders, matcher, read_file_list
from dali_proxy.pipeline._remote.urls import join
from dali_proxy.pipeline._video.index import FrameIndex
from dali_proxy.pipeline.errors import ArgumentValueError, BuildError

_VIDEOS = (
    *("*.mp4", "*.m4v", "*.mov", "*.mkv", "*.webm", "*.avi", "*.mpg", "*.mpeg", "*.ts", "*.m2ts"),
    *("*.wmv", "*.flv", "*.3gp", "*.ogv", "*.h264", "*.h265", "*.hevc"),
)

VIDEO_FILE_ARGUMENTS = (
    Argument("filenames", Kind.STRINGS, "Paths of the videos."),
    Argument(
        "labels",
        Kind.INTS,
        "Labels of `filenames`, returned as an additional output. With an empty list, videos are numbered.",
    ),
    Argument(
        "file_root",
        Kind.STRING,
        "Folder with one subfolder of videos per label, in the order of their names; or a folder of videos, which all "
        "get label 0.",
    ),
    Argument(
        "file_list",
        Kind.STRING,
        "Text file with `path label [start [end]]` on each line. Paths are relative to the folder of this text file.",
    ),
    Argument(
        "file_list_frame_num",
        Kind.BOOL,
        "Read start and end in `file_list` as frame numbers instead of seconds. Negative numbers count from the end. "
        "The end is exclusive.",
        False,
    ),
    Argument(
        "file_list_include_preceding_frame",
        Kind.BOOL,
        "Round a start between two frames down and an end up, instead of the start up and the end down.",
        False,
    ),
)


@dataclass(frozen=True)
class VideoFile:
    """A video that a reader reads.

    Attributes:
        path: path of the file.
        label: label of its sequences.
        bounds: function that returns the first frame to read and the end of the range; None for all frames.
    """

    path: str
    label: int = 0
    bounds: Callable[[FrameIndex], tuple[int, int]] | None = None


@dataclass(frozen=True)
class ListFormat:
    """The meaning of the start and end in a `file_list`.

    Attributes:
        frames: whether they are frame numbers instead of seconds.
        start_up: whether a start between two frames is rounded up.
        end_up: whether an end between two frames is rounded up; the end is exclusive.
    """

    frames: bool = False
    start_up: bool = True
    end_up: bool = False


def has_labels(argument: Callable[[str], Any]) -> bool:
    """Return whether the arguments request labels."""
    return argument("labels") is not None or bool(argument("file_root")) or bool(argument("file_list"))


def list_videos(argument: Callable[[str], Any], form: ListFormat) -> list[VideoFile]:
    """Return the videos that the arguments select.

    Raises:
        ArgumentValueError: not exactly one of `filenames`, `file_root` and `file_list` is given, or labels don't fit.
        BuildError: the list or the folder can't be read, or names no videos.
    """
    names = [name for name in ("filenames", "file_root", "file_list") if argument(name)]
    if len(names) != 1:
        wrong = f"{names[0]!r} and {names[1]!r} are mutually exclusive" if names else "none is given"
        raise ArgumentValueError(f"one of the arguments 'filenames', 'file_root' and 'file_list' is required; {wrong}")
    if argument("labels") is not None and names != ["filenames"]:
        raise ArgumentValueError("argument 'labels' needs 'filenames'")
    if names == ["file_root"]:
        return _in_folders(argument("file_root"))
    if names == ["file_list"]:
        return _in_list(argument("file_list"), form)
    paths: Sequence[str] = argument("filenames")
    labels = argument("labels") or range(len(paths))
    if len(labels) != len(paths):
        raise ArgumentValueError(f"Provided {len(labels)} labels for {len(paths)} files")
    return [VideoFile(path, label) for path, label in zip(paths, labels, strict=True)]


def _in_folders(root: str) -> list[VideoFile]:
    fits = matcher(_VIDEOS, case_sensitive=False)
    folders = [os.path.join(root, name) for name in list_folders(root)] or [root]
    found = [
        VideoFile(os.path.join(folder, name), label)
        for label, folder in enumerate(folders)
        for name in list_files(folder, fits)
    ]
    if not found:
        raise BuildError(
            f"no videos below file_root {root!r}: videos are recognised by their file extensions, such as .mp4"
        )
    return found


def _in_list(path: str, form: ListFormat) -> list[VideoFile]:
    lines = read_file_list(path)
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            name, label, *ends = _words(line)
            bounds = _Bounds([float(end) for end in ends], form) if ends else None
            np.int32(int(label))  # an integer, and not too large
            found.append(VideoFile(join(os.path.dirname(path), name), int(label), bounds))
        except (ValueError, OverflowError) as error:
            raise BuildError(
                f"file_list {path!r}, line {number}: expected a path, a label, and at most a start and an end, not "
                f"{line!r}"
            ) from error
    if not found:
        raise BuildError(f"file_list {path!r} names no files")
    return found


def _words(line: str) -> list[str]:
    """Split a line into a path, which may contain spaces, and the numbers after it.

    Raises:
        ValueError: there are no numbers, or too many.
    """
    words = line.split()
    numbers: list[str] = []
    while len(words) > 1 and len(numbers) < 3 and _is_number(words[-1]):
        numbers.insert(0, words.pop())
    if not numbers:
        raise ValueError("no label")
    head = line.strip()
    for number in reversed(numbers):
        head = head[: head.rindex(number)].rstrip()
    return [head, *numbers]


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


@dataclass(frozen=True)
class _Bounds:
    """The range of a video between two points in time, or two frames."""

    ends: Sequence[float]
    form: ListFormat

    def __call__(self, index: FrameIndex) -> tuple[int, int]:
        first = self._start(index, self.ends[0])
        end = self._end(index, self.ends[1]) if len(self.ends) > 1 else len(index)
        return max(0, first), min(end, len(index))

    def _start(self, index: FrameIndex, start: float) -> int:
        if self.form.frames:
            return int((np.ceil if self.form.start_up else np.floor)(start)) + (len(index) if start < 0 else 0)
        times = np.round(index.seconds, 6)
        if self.form.start_up:
            return int(np.searchsorted(times, start))
        return int(np.searchsorted(times, start, side="right")) - 1

    def _end(self, index: FrameIndex, end: float) -> int:
        if self.form.frames:
            return int((np.ceil if self.form.end_up else np.floor)(end)) + (len(index) if end < 0 else 0)
        times = np.round(index.seconds, 6)
        if self.form.end_up:
            return int(np.searchsorted(times, end))
        if end >= times[-1]:  # no later frame exists to search for
            return len(index) if end > times[-1] else len(index) - 1
        return int(np.searchsorted(times, end, side="right")) - 1
