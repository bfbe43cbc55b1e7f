"""A trace of all processes of a server: training, workers, and the server with its threads."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dali_proxy._server.telemetry import LoopTimes
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._operator_api.trace import Span, Trace, profiler, profiler_trace
from dali_proxy.pipeline._operator_api.trace_file import ProcessSpans, save_spans

if TYPE_CHECKING:
    from dali_proxy._cluster.cluster_consumer import ClusterConsumer
    from dali_proxy._consumer.consumer import ConsumerClient
    from dali_proxy._consumer.consumer_group import ConsumerGroup


@contextmanager
def traced(
    consumer: ConsumerClient | ConsumerGroup | ClusterConsumer, loops: LoopTimes, path: str | Path
) -> Iterator[None]:
    """Record a trace inside the block, and write it to a file at the end; see `DALIServer.trace`."""
    file = Path(path)
    file.touch()  # raises now if it can't be written
    consumer.statistics("trace")
    loops.trace = training = Trace(profiler=profiler())
    consumer.trace(training)
    try:
        yield
    finally:
        loops.trace = profiler_trace()
        consumer.trace(None)
        processes = [ProcessSpans(os.getpid(), "training", training.spans())]
        dropped = training.dropped
        with suppress(ProxyError):  # the server died: write what this process knows
            more = True
            while more:
                report = consumer.statistics("end trace")
                more = report["more"]
                dropped += report["dropped"]
                processes += [
                    ProcessSpans(pid, name, [Span(*span) for span in spans]) for pid, name, spans in report["processes"]
                ]
        save_spans(file, processes)
        if dropped:
            text = f"the trace is full: {dropped:,} spans at its end were left out; trace fewer batches"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
