"""A server's counters as metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._optional import optional_package

if TYPE_CHECKING:
    from dali_proxy._server.telemetry import ServerStats

_PREFIX = "dali_proxy_"
_COUNTERS = {
    "batches": "finished batches, including failed ones",
    "samples": "samples in finished batches",
    "errors": "failed batches",
    "damaged": "JPEGs that are damaged in their middle and were decoded",
    "remote_reads": "requests for content behind URLs that were answered",
    "remote_bytes": "bytes of these answers",
    "remote_repeats": "requests of these that failed and were sent again",
    "dropped": "batches that were no longer needed",
    "shared": "batches that got the result of an equal one",
    "repeated": "samples in epochs after the first one",
    "skipped": "samples that on_error skipped",
    "replaced": "samples that on_error replaced",
    "bytes_in": "bytes of samples",
    "bytes_out": "bytes of results",
    "video_decoded": "frames that io.video decoded",
    "video_used": "frames that samples got from io.video",
    "video_hits": "frames of these that were in its pool",
    "cache_hits": "decoded samples that the cache had",
    "cache_misses": "samples that the cache didn't have",
}
_SECONDS = {
    "busy": "time during which the pipeline was busy",
    "arena_wait": "time that workers waited for shared memory",
    "training": "time between batches in loops",
    "worker_wait": "time that loops waited for workers",
    "result_wait": "time that loops waited for results",
    "start_wait": "time that loops waited for the first batches of epochs",
}
_QUANTILES = (0.5, 0.95, 0.99)
_GAUGES = {
    "workers": "connected processes that submit batches",
    "queued": "batches that wait for the pipeline",
    "running": "batches in the pipeline",
    "remote_limit": "requests to one store at once",
    "waiting_results": "batches that were submitted and not fetched",
}


class MetricsCollector:
    """A collector for `prometheus_client`, from `DALIServer.metrics`.

    Args:
        stats: returns the server's counters.
        labels: labels of all metrics.

    Raises:
        BuildError: `prometheus_client` isn't installed.
    """

    def __init__(self, stats: Callable[[], ServerStats], labels: dict[str, str]) -> None:
        self._stats = stats
        self._labels = labels
        self._families: Any = optional_package("prometheus_client.core", "metrics", "telemetry")

    def describe(self) -> list[Any]:
        """Return nothing: the registry must not call `collect` before the server runs."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the metrics. While the server isn't running, there is only ``dali_proxy_up 0``."""
        try:
            stats = self._stats()
        except ProxyError:
            yield self._gauge("up", "whether the server runs", 0)
            return
        yield self._gauge("up", "whether the server runs", 1)
        for name, text in _COUNTERS.items():
            yield self._counter(name, text, getattr(stats, name))
        for name, text in _SECONDS.items():
            yield self._counter(f"{name}_seconds", text, getattr(stats, name))
        for name, text in _GAUGES.items():
            yield self._gauge(name, text, getattr(stats, name))
        yield self._gauge("memory_bytes", "memory of the server's process", stats.memory)
        yield self._gauge("cache_bytes", "bytes of the cache in use", stats.cache_bytes)
        names = [*self._labels, "limit"]
        limit = self._families.GaugeMetricFamily(f"{_PREFIX}limited_by", "the part that limits the speed", labels=names)
        for part in ("training", "pipeline", "workers"):
            limit.add_metric([*self._labels.values(), part], float(stats.limited_by == part))
        yield limit
        names = [*self._labels, "operator", "device", "clock"]
        times = self._families.CounterMetricFamily(f"{_PREFIX}operator_seconds", "time of an operator", labels=names)
        for operator, spent in stats.operators.items():
            for clock, seconds in (("processor", spent.seconds), ("wall", spent.wall)):
                times.add_metric([*self._labels.values(), operator, spent.device, clock], seconds)
        yield times
        names = [*self._labels, "stage", "quantile"]
        gauge, text = self._families.GaugeMetricFamily, "time of a batch in a stage"
        latency = gauge(f"{_PREFIX}batch_seconds", text, labels=names)
        of_ranks = gauge(f"{_PREFIX}rank_batch_seconds", f"{text}, by rank", labels=["rank", *names])
        for quantile in _QUANTILES:
            for stage, each in stats.latency.items():
                latency.add_metric([*self._labels.values(), stage, str(quantile)], each.percentile(100 * quantile))
            for rank, stages in stats.ranks.items():
                for stage, each in stages.items():
                    labels = [str(rank), *self._labels.values(), stage, str(quantile)]
                    of_ranks.add_metric(labels, each.percentile(100 * quantile))
        yield latency
        yield of_ranks

    def _counter(self, name: str, text: str, value: float) -> Any:
        family = self._families.CounterMetricFamily(f"{_PREFIX}{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Any:
        family = self._families.GaugeMetricFamily(f"{_PREFIX}{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family
