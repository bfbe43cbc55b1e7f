"""Advice on a server's speed: what limits it, and what to change; and on the cache of decoded samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dali_proxy._server.counters import Counters, OperatorTimes

_LARGE = 0.2  # share of the workers' time that waiting for shared memory may take
_OBSERVED = 0.2  # seconds of measurements of the cores that are enough
_IDLE = 0.1  # share of the cores that is idle if they aren't all in use
_OTHERS = 0.25  # share of the cores that other programs use if they matter
_WAITING = 0.5  # share of the workers' time without a core, and without the wish for one, if they mostly wait
_WAITS = 2.0  # elapsed time over processor time of an operator that mostly waits
_PROCESSES = "pass parallel=True to it, and py_num_workers to the pipeline"
_FUNCTION = {
    "thread": "It waits, or it holds the GIL: {processes}.",
    "processes": "Its processes use no core meanwhile: raise py_num_workers, also beyond the {cores} of the machine.",
    "": "Its threads use no core meanwhile: raise num_threads ({threads} now), also beyond the {cores} of the machine.",
}


_DECODES = 0.3  # share of the processor time of all operators that a cache may save, from which it may help
_LEAST_DECODED = 1.0  # seconds of that time that are enough to know it
_ALMOST_ALL = 0.9  # share of samples that the cache has if it has almost all


def advise(stats: Counters) -> str:
    """Return a few sentences for users: what limits the speed, and the remedy."""
    limits = {"training": _training, "workers": _workers, "pipeline": _pipeline}
    limit = stats.limited_by
    if not limit:
        return "Nothing is measured yet: take a few batches from a loader."
    return limits[limit](stats)


def others_load(stats: Counters) -> str:
    """Return advice for cores that other programs use while no core is idle; empty if that isn't the case."""
    if not _is_full(stats) or stats.cores_other < _OTHERS * stats.cores * stats.observed:
        return ""
    return (
        f"The machine is overloaded: other programs use {stats.cores_other / stats.observed:.1f} of "
        f"{_counted(stats.cores, 'core')}, and no core is idle. End them, or use another machine."
    )


def advise_remote(stats: Counters) -> str:
    """Return a sentence for users: what the server reads behind URLs, and whether that limits the speed."""
    text = (
        f"{stats.remote_reads:,} requests answered, {stats.remote_bytes / 1e6:,.1f} MB, "
        f"{stats.remote_seconds / stats.remote_reads * 1e3:,.0f} ms each; {stats.remote_repeats:,} sent again"
    )
    waits = any(_mostly_waits(times, stats) for times in stats.operators.values())
    if stats.limited_by == "pipeline" and waits and stats.remote_seconds > stats.busy:
        at_once = stats.remote_seconds / max(stats.busy, 1e-9)
        return (
            f"{text}. The store limits the speed: {at_once:,.0f} requests wait for it at a time, on average, and "
            f"at most {stats.remote_limit} are sent at once"
        )
    return text


def advise_cache(stats: Counters) -> str:
    """Return a sentence or two for users: what the cache saves, and which size would save more.

    Without a cache, they say whether one may help; empty if not.
    """
    if not stats.cache_limit:
        return _advise_without_cache(stats)
    used = f"{_gigabytes(stats.cache_bytes)} of {_gigabytes(stats.cache_limit)} are in use"
    looked_up = stats.cache_hits + stats.cache_misses
    if not looked_up:
        return f"The cache wasn't used: {used}."
    found = stats.cache_hits / looked_up
    text = f"{found:.0%} of {looked_up:,} samples came from the cache, which saved {stats.cache_seconds_saved:.1f} s"
    if not stats.cache_hits:
        text = "The cache has had no sample twice so far"
    if not stats.cache_refused:
        return f"{text}; {used}."
    # Each epoch finds what is in the cache and refuses the rest.
    needed = stats.cache_bytes * (stats.cache_hits + stats.cache_refused) / max(stats.cache_hits, 1)
    hint = f" About {_gigabytes(needed)} would hold all." if stats.cache_hits and found < _ALMOST_ALL else ""
    return f"{text}; it is full with {_gigabytes(stats.cache_bytes)}.{hint}"


def _is_full(stats: Counters) -> bool:
    """Return whether no core was idle, as far as that was measured."""
    return stats.observed > _OBSERVED and stats.cores_idle < _IDLE * stats.cores * stats.observed


def _has_idle_cores(stats: Counters) -> bool:
    return stats.observed > _OBSERVED and not _is_full(stats)


def _knows_waits(stats: Counters, runnable: float) -> bool:
    """Return whether processes that don't run wait for something else than a core.

    Args:
        stats: the counters.
        runnable: time that they were ready to run; 0 if the system doesn't count it.
    """
    return runnable > 0 or _has_idle_cores(stats)


def _waiting(stats: Counters) -> float:
    """Return the share of the loops' time that they wait."""
    waited = stats.worker_wait + stats.result_wait
    return waited / max(waited + stats.training, 1e-9)


def _training(stats: Counters) -> str:
    text = (
        f"The training itself limits the speed: only {_waiting(stats):.0%} of the time are waits for data. "
        "A faster loader wouldn't help."
    )
    return f"{text} {others_load(stats)}".rstrip()


def _workers(stats: Counters) -> str:
    if stats.starts_limit:
        return (
            f"The start of workers limits the speed: loops waited {stats.start_wait:.1f} s for the first batches of "
            f"epochs, of {stats.start_wait + stats.training + stats.worker_wait + stats.result_wait:.1f} s. Workers "
            "start again for each epoch: use one loader with persistent_workers=True, or make epochs longer."
        )
    text = (
        f"The dataset limits the speed: the loop waits {_waiting(stats):.0%} of the time, and the pipeline is busy "
        f"only {stats.busy_share:.0%}. "
    )
    workers = stats.num_workers or stats.workers  # they end with their epoch
    if stats.arena_wait > _LARGE * stats.seconds * max(workers, 1):
        return (
            f"{text}The workers wait for shared memory: raise arena_bytes_limit of DALIServer, or shrink the batches."
        )
    if stats.num_workers_reason:
        now = f"it has {_counted(stats.num_workers, 'worker')} now"
        return f"{text}The server chooses the number of workers; {now}: {stats.num_workers_reason}."
    if stats.loop_batches and not stats.num_workers:
        return f"{text}The training process reads the samples itself: pass num_workers=1 or more to the loader."
    elapsed = stats.worker_elapsed
    waited = elapsed - stats.worker_processor - stats.worker_runnable
    if elapsed > _OBSERVED and waited > _WAITING * elapsed and _knows_waits(stats, stats.worker_runnable):
        return (
            f"{text}The workers wait {waited / elapsed:.0%} of their time, for a disk or a network, and use no core "
            f"meanwhile: raise num_workers ({workers} now), also beyond the {_counted(stats.cores, 'core')} of the "
            "machine."
        )
    move = "move work from the dataset to the pipeline, for example decoding, or store smaller samples"
    if others := others_load(stats):
        return f"{text}{others} Else {move}."
    if _is_full(stats):
        return f"{text}All {_counted(stats.cores, 'core')} are in use: {move}."
    if not stats.cores or workers < stats.cores or _has_idle_cores(stats):
        of = f", up to the number of cores ({stats.cores})" if workers < stats.cores else f" ({workers} now)"
        return f"{text}Raise num_workers{of}. If that isn't enough, {move}."
    return f"{text}There are as many workers as cores ({stats.cores}): {move}."


def _pipeline(stats: Counters) -> str:
    text = f"The pipeline limits the speed: it is busy {stats.busy_share:.0%} of the time"
    others = others_load(stats)
    if not stats.operators:
        return f"{text}. {others or _more_threads(stats)}"
    name, times = max(stats.operators.items(), key=lambda item: item[1].seconds)
    share = times.seconds / max(sum(each.seconds for each in stats.operators.values()), 1e-9)
    text += f", and {name} takes {share:.0%} of its processor time. "
    if times.device != "cpu":
        return f"{text}That is the host's time to issue GPU work: use larger batches, or fewer operators."
    waiting, spent = max(stats.operators.items(), key=lambda item: item[1].wall - item[1].seconds)
    if _mostly_waits(spent, stats):
        remedy = _FUNCTION[spent.function].format(
            cores=_counted(stats.cores, "core"), threads=stats.threads, processes=_PROCESSES
        )
        return (
            f"{text}{waiting} mostly waits: it ran for {spent.wall:.1f} s, but used a core for only "
            f"{spent.seconds:.1f} s. {remedy}"
        )
    if others:
        return text + others
    if times.function == "thread" and not _is_full(stats):
        return f"{text}One thread at a time runs this Python function: {_PROCESSES}."
    return text + _more_threads(stats)


def _mostly_waits(times: OperatorTimes, stats: Counters) -> bool:
    """Return whether an operator waits most of the time, and most of the time of all operators."""
    wall = sum(each.wall for each in stats.operators.values())
    least = max(_WAITS * times.seconds, wall / 2)
    waits = times.wall - stats.server_runnable > least
    return times.device == "cpu" and waits and _knows_waits(stats, stats.server_runnable)


def _more_threads(stats: Counters) -> str:
    if not _is_full(stats) and (not stats.cores or stats.threads < stats.cores):
        return f"Raise num_threads of the pipeline ({stats.threads} now, {_counted(stats.cores, 'core')})."
    if _has_idle_cores(stats):
        return (
            f"There are as many threads as cores ({stats.cores}), but some wait for others: use larger batches, or "
            "crop or resize before expensive operators."
        )
    return (
        f"All {_counted(stats.cores, 'core')} are in use: crop or resize before expensive operators, lower "
        f"num_workers if the dataset is cheap, or run operators on a GPU."
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _advise_without_cache(stats: Counters) -> str:
    total = sum(times.seconds for times in stats.operators.values())
    share = sum(times.seconds for times in stats.operators.values() if times.cacheable) / max(total, _LEAST_DECODED)
    if total < _LEAST_DECODED or share < _DECODES or not stats.cacheable_bytes:
        return ""
    known = stats.samples - stats.repeated
    needed = _gigabytes(stats.cacheable_bytes * known)
    if stats.repeated:
        return (
            f"{share * stats.repeated / stats.samples:.0%} of the operators' processor time decodes {known:,} samples "
            f"that were decoded before: {needed} would hold them, see DALIServer(cache=...)."
        )
    return (
        f"{share:.0%} of the operators' processor time decodes. If epochs or jobs repeat the {known:,} samples so far, "
        f"{needed} would hold them, see DALIServer(cache=...)."
    )


def _gigabytes(count: float) -> str:
    return f"{count / (1 << 30):.1f} GB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MB"
