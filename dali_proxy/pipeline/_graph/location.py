"""`SourceLocation`: the user's line that created a node or raised an error, for messages."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from dali_proxy.pipeline.errors import GraphError, PipelineError

# Frames of these packages are ours: the user's line is the first one outside.
_OURS = tuple(
    os.path.join(Path(__file__).resolve().parents[3], package) + os.sep for package in ("pipeline", "dali_proxy")
)

_AT = "\n  at "  # before the location in a message

_INSTALLED = {"dist-packages", "site-packages"}
_SCRIPTS = os.path.join(sysconfig.get_path("scripts"), "")  # of commands, whose files have no line of the user

#: Warnings that were shown, for each file: `warnings` shows those of one line only once.
_SHOWN: dict[str, dict[Any, Any]] = {}

# Operators call these packages, and these call our functions, so their frames don't show whose code it is. The user may
# have modules with names of Python's library.
_LIBRARIES = {"PIL", "cupy", "cupyx", "cv2", "numpy", "nvidia", "torch"}
_PYTHONS = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")} | {"<frozen "})


@dataclass(frozen=True)
class SourceLocation:
    """A line of the user's code.

    Attributes:
        file: path of the file.
        line: number of the line, from 1; 0 if unknown.
        function: name of the function.
        text: the line itself, stripped; empty if the source can't be read.
        module: name of the module; empty if unknown.
    """

    file: str = ""
    line: int = 0
    function: str = ""
    text: str = ""
    module: str = ""

    @classmethod
    def from_caller(cls) -> SourceLocation:
        """Return the innermost line of the call stack outside of these packages, Python's library, NumPy and torch.

        The location is empty if there is none: in a thread of Python's pools, or in one of our commands. If the call
        stack enters these packages through an `at_location`, return its location.
        """
        frame: FrameType | None = sys._getframe(1)
        context = _CONTEXTS.innermost
        while frame is not None:
            if context is not None and frame is context.frame:
                return context.location
            if _is_foreign(frame):
                break
            frame = frame.f_back
        if frame is None or frame.f_code.co_filename.startswith(_SCRIPTS):
            return cls()
        return cls._of_line(frame.f_code, frame.f_lineno, str(frame.f_globals.get("__name__", "")))

    @classmethod
    def from_error(cls, error: BaseException) -> SourceLocation:
        """Return the line of the user's code that raised an error, or that called the function that raised it.

        This is the innermost line outside of installed packages. If all lines are in installed packages, it is the
        outermost of them. The location is empty if only our code was involved.
        """
        lines: list[tuple[CodeType, int]] = []
        traceback = error.__traceback__
        while traceback is not None:
            if _is_foreign(traceback.tb_frame):
                lines.append((traceback.tb_frame.f_code, traceback.tb_lineno))
            traceback = traceback.tb_next
        own = [line for line in lines if not _INSTALLED.intersection(Path(line[0].co_filename).parts)]
        if not lines:
            return cls()
        return cls._of_line(*(own[-1] if own else lines[0]))

    @classmethod
    def _of_line(cls, code: CodeType, line: int, module: str = "") -> SourceLocation:
        text = linecache.getline(code.co_filename, line).strip()
        return cls(code.co_filename, line, code.co_name, text, module)

    def warn(self, message: str, category: type[Warning] = UserWarning) -> None:
        """Warn the user: the warning belongs to this line."""
        file, module = self.file or "<unknown>", self.module or "<unknown>"
        warnings.warn_explicit(message, category, file, self.line, module, _SHOWN.setdefault(file, {}))

    @property
    def short(self) -> str:
        """The file's name and the line, as in "train.py:12"."""
        return f"{os.path.basename(self.file)}:{self.line}"

    def __str__(self) -> str:
        if not self.line:
            return ""
        return f"{self.file}:{self.line} in {self.function}" + (f": {self.text}" if self.text else "")


class at_location:
    """A context in which `SourceLocation.from_caller` returns a given location. It may be nested.

    An error of the graph whose message has no location gets this one.

    Args:
        location: the location. If the context calls code of the user that calls us in turn, `from_caller` returns the
            line of that code.
    """

    def __init__(self, location: SourceLocation) -> None:
        self.location = location
        self.frame: FrameType | None = None
        self._outer: at_location | None = None

    def __enter__(self) -> None:
        self.frame = sys._getframe(1)
        self._outer, _CONTEXTS.innermost = _CONTEXTS.innermost, self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.frame = None
        _CONTEXTS.innermost = self._outer
        if isinstance(error, GraphError) and self.location.line and _AT not in str(error):
            error.args = (f"{error}{_AT}{self.location}",)


class _Contexts(threading.local):
    innermost: at_location | None = None


_CONTEXTS = _Contexts()


def _is_foreign(frame: FrameType) -> bool:
    """Return whether a frame belongs neither to our packages nor to libraries that they call."""
    file = frame.f_code.co_filename
    if file.startswith(_OURS):
        return False
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    if package in sys.stdlib_module_names:
        return not file.startswith(_PYTHONS)
    return package not in _LIBRARIES


def user_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error without the frames that say nothing to the user.

    The message of our own errors says everything about our part, so only frames of the user's code remain. Of a foreign
    error that the user's code raised, our frames are removed. Other errors keep all frames: they may be bugs.
    """
    entries = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    if not isinstance(error, PipelineError):
        if not any(_is_foreign(each.tb_frame) for each in entries):
            return error.__traceback__
        entries = [each for each in entries if not each.tb_frame.f_code.co_filename.startswith(_OURS)]
    else:
        entries = [each for each in entries if _is_foreign(each.tb_frame)]
    result: TracebackType | None = None
    for each in reversed(entries):
        result = TracebackType(result, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return result


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn the user: the warning belongs to the line of `SourceLocation.from_caller`."""
    SourceLocation.from_caller().warn(message, category)
