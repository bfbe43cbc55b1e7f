"""What griffe runs on each docstring that the reference shows."""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Calls a section "Example:" as griffe does, which then shows it as code."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
