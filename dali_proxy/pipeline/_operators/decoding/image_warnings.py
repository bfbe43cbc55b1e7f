"""Warnings of decoded images, which name the image and the user's line."""

from __future__ import annotations

from collections import defaultdict

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.decode import DAMAGED
from dali_proxy.pipeline._operator_api.batch import Batch

_MOST_DAMAGED = 20  # images that a decoder names
_lock = new_lock(Level.LEAF, "damaged images")
_damaged = 0


def damaged_images() -> int:
    """Return how many JPEGs that are damaged in their middle this process has decoded."""
    return _damaged


class ImageWarnings:
    """The warnings of a decoder. Advice is shown once, for the first image; damage for each image, up to a limit."""

    def __init__(self, node: GraphNode) -> None:
        self._node = node
        self._shown: defaultdict[str, set[str]] = defaultdict(set)  # titles of images, by warning

    def show(self, batch: Batch, sample: int, message: str) -> None:
        """Show a warning of an image. Any thread may call this."""
        global _damaged
        most = _MOST_DAMAGED if message == DAMAGED else 1
        with _lock:
            _damaged += message == DAMAGED
        shown = self._shown[message]
        if len(shown) >= most or (title := batch.title(self._node, sample)) in shown:
            return
        rest = ". Further ones are only counted" if len(shown) + 1 == most > 1 else ""
        self._node.location.warn(f"{self._node.display}, {title}: {message}{rest}")
        shown.add(title)  # not if a filter makes it an error
