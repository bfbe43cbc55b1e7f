"""What iterators of loaders and pipelines refuse: copies, and a second thread."""

from __future__ import annotations

from typing import Any

from dali_proxy.errors import ProxyError

#: The thread that runs the code, under the key "thread". To begin, set it unless another thread has. It isn't a lock:
#: if a handler raises before the code has begun, the same thread may begin again. To end, run ``if owner: del
#: owner["thread"]``: no signal handler runs meanwhile, unlike at the end of a `with` block.
Owner = dict[str, int]


def shared_by_threads(what: str) -> ProxyError:
    """Return the error for a thread that finds another one in the code. Generators raise one, too, and don't wait."""
    return ProxyError(
        f"another thread is in next() of this {what}. Give each thread its own loop, or let the threads share a "
        "lock and call next() while they hold it"
    )


class Uncopyable:
    """Base of iterators: a copy would take batches from the original, or end its epoch. torch's error is the same."""

    def __getstate__(self) -> dict[str, Any]:
        raise NotImplementedError(
            f"a {type(self).__name__} cannot be copied or pickled: it is connected to processes or threads that make "
            "its batches. Copy the loader or the pipeline's arguments instead, and begin an epoch"
        )
