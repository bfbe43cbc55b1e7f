"""What a loader's workers need, done in the training process while it waits for the server anyway."""

from __future__ import annotations

import importlib
import linecache
import sys

__all__ = ["prepare_for_forks"]

_MODULES = (
    "multiprocessing.popen_fork",
    "multiprocessing.queues",
    "multiprocessing.synchronize",
    "numpy.random",  # torch seeds it in each worker, which would import it there: as long as a fork takes
)
# torch notes where a worker seeds it, with the lines of the sources that lead there.
_SOURCES = (
    "multiprocessing.context",
    "multiprocessing.popen_fork",
    "multiprocessing.process",
    "torch.cuda",
    "torch.cuda.random",
    "torch.mtia",
    "torch.random",
    "torch.utils.data._utils.worker",
    "torch.utils.data.dataloader",
    "torch.xpu",
    "torch.xpu.random",
)


def prepare_for_forks() -> None:
    """Import and read what each forked worker would import and read for itself."""
    for name in _MODULES:
        importlib.import_module(name)
    for name in _SOURCES:
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__file__", None):
            linecache.getlines(str(module.__file__))
