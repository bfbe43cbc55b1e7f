"""Times of a pipeline's operators for image files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dali_proxy.pipeline._definition.file_inputs import FileInputs
from dali_proxy.pipeline._definition.pipeline import Pipeline

_BATCH = 16


def measure_operators(
    pipeline: Pipeline, files: Sequence[Path], inputs: Mapping[str, Any], batches: Iterable[int]
) -> dict[int, float]:
    """Run batches, and return the processor time of each operator in milliseconds per sample, by its number.

    Operators that run as one have equal parts of its time. A copy of the pipeline runs. The first batch, which fills
    caches, isn't counted.

    Args:
        pipeline: the pipeline.
        files: image files for its inputs; they may be repeated. Empty if it has none.
        inputs: data for other inputs, as for `Pipeline.preview`.
        batches: numbers of the batches to run, from 0.
    """
    graph = pipeline._internals.graph
    copy: Pipeline = pipeline._internals.for_trial(_BATCH)
    reader = FileInputs(graph, inputs) if graph.fed_inputs else None
    first: dict[str, float] = {}
    done = 0
    try:
        for number in batches:
            if reader is None:
                copy.run()
            else:
                samples = [reader.read(files[(number * _BATCH + index) % len(files)]) for index in range(_BATCH)]
                copy.run(**{name: [sample[name] for sample in samples] for name in graph.fed_inputs})
            first = first or _seconds(copy)
            done += 1
        seconds, labels = _seconds(copy), copy._internals.runner.executor.statistics.labels
    finally:
        copy.close()
    sharing = Counter(labels.values())  # operators that one line calls, or that run as one, have one time
    scale = 1000 / (max(done - 1, 1) * _BATCH)
    return {
        index: (seconds[label] - (first.get(label, 0.0) if done > 1 else 0.0)) * scale / sharing[label]
        for index, label in labels.items()
        if label in seconds
    }


def _seconds(pipeline: Pipeline) -> dict[str, float]:
    return {times.name: times.seconds for times in pipeline._internals.runner.executor.statistics.operators()}
