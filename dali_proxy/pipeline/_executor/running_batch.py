"""A batch that an executor runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dali_proxy.pipeline._compiler.steps.step import Step
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.request import BatchResult

OnDone = Callable[[BatchResult], None]


class RunningBatch:
    """A batch and its progress through the phases."""

    phase = 0
    step: Step | None = None  # the one that runs, or ran last
    stream: Any = None  # the `BatchStream`, once the batch has one
    members: tuple[RunningBatch, ...] = ()  # the batches that run as this one, if it isn't a batch of the user
    taken = False  # whether the merger must learn when it ends
    alone = False  # whether it must not run together with others
    failure: Exception | None = None  # why it failed together with others
    suspects: list[RunningBatch]  # those that failed together and have not succeeded alone; they share it
    given_up = False  # whether it has ended although a thread is still in a call for it
    on_caller = False  # whether the thread that submitted it still runs it, and may run more of it

    def __init__(self, batch: Batch, on_done: OnDone) -> None:
        self.batch = batch
        self.on_done = on_done
        self.started = time.perf_counter()
