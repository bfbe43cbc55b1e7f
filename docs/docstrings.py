"""An extension that griffe runs on each docstring of the reference."""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames sections "Example:" to griffe's "Examples:", which are shown as code."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
