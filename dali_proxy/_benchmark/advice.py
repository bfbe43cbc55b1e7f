"""Choice of configurations to measure, and advice from the measurements."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dali_proxy._benchmark.trials import Bench, Configuration, Placement, Result
from dali_proxy._common.core_budget import allowed_cores
from dali_proxy.pipeline.errors import GraphError

_TICK = 1e-3  # milliseconds; the operating system may count none in a short time
_CLOSE = 0.95  # a configuration that is this fast, and uses fewer processes and threads, is preferred
_STEADY = 1.25  # largest ratio of the rates of a configuration on a quiet machine


@dataclass(frozen=True)
class Report:
    """The measurements and the advice.

    Attributes:
        results: measurements of the pipeline, one for each configuration.
        ours: measurements of the best configuration, in turn with `plain`.
        plain: measurements of torch's loader.
        plain_work: what torch's loader does for a sample.
        advice: sentences for the user.
    """

    results: tuple[Result, ...]
    ours: tuple[Result, ...]
    plain: tuple[Result, ...]
    plain_work: str
    advice: tuple[str, ...]

    @property
    def speedup(self) -> float:
        """Median of the ratios of the rates of neighbours."""
        return statistics.median(a.rate / b.rate for a, b in zip(self.ours, self.plain, strict=True))

    @property
    def cpu_ratio(self) -> float:
        """Median of the ratios of the processor times of neighbours."""
        return statistics.median(b.cpu / max(a.cpu, _TICK) for a, b in zip(self.ours, self.plain, strict=True))


def recommend(
    bench: Bench, workers: Sequence[int] = (), threads: Sequence[int] = (), rounds: int = 3
) -> Iterator[Report | str]:
    """Measure several configurations, then the best one in turn with torch's loader.

    Args:
        bench: measures.
        workers: numbers of workers to try; empty for a choice.
        threads: numbers of threads to try; empty for a choice.
        rounds: measurements of the best configuration and of torch's loader.

    Yields:
        What is measured next, in words, and at the end the report.
    """
    count = len(allowed_cores())
    workers = workers or sorted({1, 2, min(4, count), max(1, count // 2)})
    threads = threads or sorted({1, max(1, count // 2), count})
    results: list[Result] = []

    def measure(configurations: list[Configuration]) -> Iterator[str]:
        for configuration in configurations:
            if configuration not in [result.configuration for result in results]:
                yield str(configuration)
                results.append(bench.measure(configuration))

    yield from measure([Configuration(each, max(threads)) for each in workers])
    chosen = _choose(results).configuration
    yield from measure([Configuration(chosen.workers, each) for each in threads])
    if bench.pipeline._internals.graph.uses_gpu:
        chosen = _choose(results).configuration
        others: tuple[Placement, ...] = ("engine", "cores", "consumer")
        for each in others:
            with suppress(GraphError):  # not all operators can run there
                yield from measure([Configuration(chosen.workers, chosen.threads, each)])
    best = _choose(results).configuration
    plain_workers = max(best.workers, count)
    ours, plain = [], []
    for number in range(1, rounds + 1):
        yield f"round {number} of {rounds} beside torch"
        ours.append(bench.measure(best))
        plain.append(bench.measure_torch(plain_workers))
    fastest = max(results, key=lambda each: each.rate)
    same = [each for each in results if each.configuration == best] + ours
    advice = (*_advice(best, ours[-1], fastest, count), *_doubts(same))
    yield Report(tuple(results), tuple(ours), tuple(plain), bench.plain_work, advice)


def _choose(results: Sequence[Result]) -> Result:
    """Return the smallest configuration that is about as fast as the fastest one."""
    limit = _CLOSE * max(result.rate for result in results)
    fast = [result for result in results if result.rate >= limit]
    return min(fast, key=lambda each: (each.configuration.workers + each.configuration.threads, -each.rate))


def _advice(best: Configuration, result: Result, fastest: Result, count: int) -> Iterator[str]:
    yield f"Use {best}."
    if fastest.configuration != best:
        yield f"It is as fast as {fastest.configuration} within 5 %, with fewer processes and threads."
    if result.limited_by == "workers":
        yield (
            "The dataset workers limit the speed: they read the files. More workers help if cores are idle; otherwise "
            "move work from the dataset into the pipeline, or put the files on a faster disk."
        )
    elif result.operators:
        name, share = next(iter(result.operators.items()))
        yield (
            f"The pipeline limits the speed: {name} takes {share:.0%} of its processor time. Make that operator "
            "cheaper (`dali-proxy graph` shows all); more threads help only if cores are idle."
        )
    if best.workers + best.threads >= 2 * count:
        yield f"All {count} cores are busy: training on this CPU will slow the loader down."


def _doubts(results: Sequence[Result]) -> Iterator[str]:
    """Yield a warning if measurements of the same configuration differ."""
    rates = [result.rate for result in results]
    if max(rates) <= _STEADY * min(rates):
        return
    reason = next(filter(None, (result.others for result in results)), "")
    reason = reason or "Other programs, or the processor's clock, may be the reason."
    yield (
        f"Measurements of this configuration differ, from {min(rates):,.0f} to {max(rates):,.0f} samples/s. {reason} "
        "Measure again, or compare the processor times, which differ less."
    )
