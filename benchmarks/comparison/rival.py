"""The interface of a rival: a loader that does the jobs."""

from __future__ import annotations

import importlib
import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.comparison.job import Arrays, Job, Tensors

Batch = tuple[torch.Tensor, Tensors]
"""The indices of the samples, and the outputs of the job."""


Stream = Generator[Batch, None, None]


OF_LOADERS = ("jpeg-small", "audio", "arrays", "short-epochs")
"""Jobs of loaders that run the same Python functions as others: their transport and their epochs differ."""


@dataclass(frozen=True)
class Cores:
    """How many processes and threads a loader may use.

    Attributes:
        workers: Processes of loaders that have processes.
        threads: Threads of loaders that have threads, or pipelines.
    """

    workers: int = 2
    threads: int = 2


class Rival(ABC):
    """A loader.

    Attributes:
        name: Its name in tables and on the command line.
        title: How it is used, for the page.
        packages: The distributions that it needs; the first one's version is printed.
        modules: The modules that it imports; the rival is left out if one of them fails.
        jobs: The jobs in which it takes part; all if empty.
    """

    name: str
    title: str
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()

    def does(self, job: Job) -> bool:
        """Return whether the rival takes part in a job."""
        return not self.jobs or job.name in self.jobs

    def unavailable(self) -> str | None:
        """Return why it can't run here, or None if it can."""
        for module in self.modules:
            try:
                importlib.import_module(module)
            except Exception as error:  # noqa: BLE001  # packages fail in many ways
                lines = str(error).strip().splitlines()
                return f"{module} can't be imported: {type(error).__name__}: {lines[0] if lines else ''}"
        return None

    def version(self) -> str:
        """Return the name and version of the package."""
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in self.packages)

    def prepare(self, job: Job) -> None:  # noqa: B027  # few rivals have a format
        """Write files in the rival's own format, if it has one. This isn't measured."""

    @abstractmethod
    def stream(self, job: Job, cores: Cores) -> Stream:
        """Yield the batches of one epoch after the other, in the order of the dataset, without end.

        A batch may become invalid when the next one is requested. Closing the generator ends everything.
        """


class Samples(torch.utils.data.Dataset[Any]):
    """The dataset of loaders that run Python functions: the whole work for one sample, then its index."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __len__(self) -> int:
        return self.job.length

    def __getitem__(self, index: int) -> tuple[Arrays, int]:
        return self.job.transform(*self.job.inputs(index)), index


def stack(samples: Iterable[tuple[Arrays, int]]) -> Batch:
    """Collate samples as torch's ``default_collate`` does: in a worker, into shared memory."""
    outputs, indices = torch.utils.data.default_collate([(outputs, index) for outputs, index in samples])
    return indices, tuple(outputs)


def finished(batches: Iterable[Batch], job: Job) -> Iterator[Batch]:
    """Do the work that is left for each batch."""
    finish = job.finisher()
    for indices, outputs in batches:
        yield as_tensor(indices), finish(tuple(map(as_tensor, outputs)))


def as_tensor(array: Any) -> torch.Tensor:
    """Return a tensor of the same memory."""
    return array if isinstance(array, torch.Tensor) else torch.from_numpy(np.asarray(array))


def one_thread() -> None:
    """Let torch's kernels use only the calling thread, for loaders whose threads each make a sample."""
    torch.set_num_threads(1)


def repeat(loader: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of one epoch after the other."""
    while True:
        yield from loader
