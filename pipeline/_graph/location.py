"""Where in the user's code a node was made, so that errors can say so."""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass

__all__ = ["SourceLocation"]

# Frames of these packages are ours: the user's line is the first one outside.
_OURS = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), package) + os.sep
    for package in ("pipeline", "dali_proxy")
)


@dataclass(frozen=True)
class SourceLocation:
    """A line of the user's code.

    Attributes:
        file: path as Python knows it.
        line: number of the line, from 1; 0 when unknown.
        function: name of the function.
        text: the line itself, stripped; empty when the source can't be read.
    """

    file: str = ""
    line: int = 0
    function: str = ""
    text: str = ""

    @classmethod
    def of_caller(cls) -> SourceLocation:
        """Return the innermost line of the call stack that isn't in these packages."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_OURS):
            if frame.f_back is None:
                break
            frame = frame.f_back
        code = frame.f_code
        text = linecache.getline(code.co_filename, frame.f_lineno).strip()
        return cls(code.co_filename, frame.f_lineno, code.co_name, text)

    def __str__(self) -> str:
        if not self.line:
            return ""
        return f"{self.file}:{self.line} in {self.function}" + (f": {self.text}" if self.text else "")
