"""Preparation for a loader's workers, done in the training process while it waits for the server."""

from __future__ import annotations

import importlib
import linecache
import sys

_MODULES = (
    "multiprocessing.popen_fork",
    "multiprocessing.queues",
    "multiprocessing.synchronize",
    "numpy.random",  # torch seeds it in each worker; importing it there would take as long as the fork
)
# torch records the stack where a worker seeds it, with lines of these source files.
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
    """Import the modules and read the source files that each forked worker would otherwise load itself."""
    for name in _MODULES:
        importlib.import_module(name)
    for name in _SOURCES:
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__file__", None):
            linecache.getlines(str(module.__file__))
