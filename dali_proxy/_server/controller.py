"""Controls a running server by what the loops of this process measure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from dali_proxy._server.pool_sizing import PoolSizing
from dali_proxy.errors import ProxyError

if TYPE_CHECKING:
    from dali_proxy._cluster.cluster_consumer import ClusterConsumer
    from dali_proxy._consumer.consumer import ConsumerClient
    from dali_proxy._consumer.consumer_group import ConsumerGroup
    from dali_proxy._server.life import Life
    from dali_proxy._server.placement import Placing
    from dali_proxy._server.telemetry import LoopTimes, Losses

_REPORT_INTERVAL = 0.5  # seconds


class Controller:
    """Changes the placement of a server's pipeline and the numbers of its dataset workers and threads while loops run.

    One change is measured at a time: `Trial` chooses the placement first, and then `PoolSizing` the two numbers.
    What the user has fixed isn't touched. The process that started the server decides; the others only report.

    Args:
        times: counters of the loops of this process.
        losses: failures that these loops have handled.
        life: resources of the server.
        placing: placement of the pipeline's stages.
        connect: returns the connection of this process.
    """

    def __init__(
        self, times: LoopTimes, losses: Losses, life: Life, placing: Placing, connect: Callable[[], ConsumerClient]
    ) -> None:
        self._times, self._losses, self._life, self._placing = times, losses, life, placing
        self._connect = connect
        self._sizing: PoolSizing | None = None
        self._report_at = 0.0  # time of the next report

    def begin(self, sizes_pool: bool, threads: int) -> None:
        """Begin to control the server, which has started.

        Args:
            sizes_pool: whether the number of dataset workers may change.
            threads: number of the pipeline's threads, if that may change, too; else 0.
        """
        if sizes_pool:
            self._sizing = PoolSizing(self._times, self._life, self._connect, threads)
        self._placing.begin_trial(self._choose, self._refused)

    def take(
        self,
        consumer: ConsumerClient | ConsumerGroup | ClusterConsumer,
        loader: object,
        stays: str | None,
        modules: Callable[[], tuple[str, ...]],
    ) -> None:
        """Record that a loop of this process has taken a batch.

        Args:
            consumer: connection that the batch came through.
            loader: identifies the loader.
            stays: see `InnerLoader`.
            modules: see `InnerLoader`.
        """
        sizing = None if stays is None else self._sizing
        if sizing is not None and os.getpid() == self._life.owner and self._placing.is_settled:
            with suppress(ProxyError):  # the server is gone: the loop raises that
                sizing.take(loader, stays or "", modules)
        if time.monotonic() > self._report_at:
            self._report()
        if self._placing.trial is not None:
            self._placing.trial.take(consumer.variant, consumer.computed)

    def pause(self) -> None:
        """Record that a loop of this process begins or ends."""
        self._times.pause()
        self._report(0.0)  # the next batch begins a measurement
        if self._placing.trial is not None:
            self._placing.trial.pause()

    def _report(self, interval: float = _REPORT_INTERVAL) -> None:
        """Send the counters of this process's loops to the server, for monitors in other processes."""
        self._report_at = time.monotonic() + interval
        consumer = self._life.consumers.get(os.getpid())
        if consumer is None or consumer.ended:
            return
        consumer.report_loops(self._times.report(self._losses, self._placing.placement, self._placing.reason))

    def _choose(self, number: int, measured: bool) -> None:
        with suppress(ProxyError):  # the server is gone: the loop raises that
            self._connect().place(number, measured)

    def _refused(self, number: int) -> str:
        with suppress(ProxyError):
            return self._connect().refused.get(number, "")
        return ""
