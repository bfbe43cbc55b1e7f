"""Objects that can't be copied or pickled."""

from __future__ import annotations

from typing import Any


class Uncopyable:
    """Base of iterators: a copy would take batches from the original, or end its epoch. torch's error is the same."""

    def __getstate__(self) -> dict[str, Any]:
        raise NotImplementedError(
            f"a {type(self).__name__} cannot be copied or pickled: it is connected to processes or threads that make "
            "its batches. Copy the loader or the pipeline's arguments instead, and begin an epoch"
        )
