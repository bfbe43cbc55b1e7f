"""Advice on a server's speed: what limits it, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dali_proxy._server.telemetry import ServerStats

__all__ = ["advise", "overload"]

_LARGE = 0.2  # share of the workers' time that waiting for shared memory may take
_OVERLOADED = 1.5  # processes per core
_WAITS = 2.0  # elapsed time over processor time of an operator that mostly waits


def advise(stats: ServerStats) -> str:
    """Return a sentence or two for users: what limits the speed, and the remedy."""
    limits = {"training": _training, "workers": _workers, "pipeline": _pipeline}
    limit = stats.limited_by
    if not limit:
        return "Nothing is measured yet: take a few batches from a loader."
    return limits[limit](stats)


def _waiting(stats: ServerStats) -> float:
    """Return the share of the loops' time that they wait."""
    waited = stats.worker_wait + stats.result_wait
    return waited / max(waited + stats.training, 1e-9)


def overload(load: float) -> str:
    """Return advice for a machine with so many processes per core, or an empty string if it isn't overloaded."""
    if load <= _OVERLOADED:
        return ""
    return (
        f"The machine is overloaded: {load:.1f} processes share each core. Use fewer workers and threads, or end "
        f"other programs."
    )


def _training(stats: ServerStats) -> str:
    return (
        f"The training itself limits the speed: it waits for data only {_waiting(stats):.0%} of the time. "
        f"A faster loader wouldn't help."
    )


def _workers(stats: ServerStats) -> str:
    text = (
        f"The dataset limits the speed: the loop waits {_waiting(stats):.0%} of the time, and the pipeline is busy "
        f"only {stats.busy_share:.0%}. "
    )
    if stats.arena_wait > _LARGE * stats.seconds * max(stats.workers, 1):
        return (
            f"{text}The workers wait for shared memory: raise arena_bytes_limit of DALIServer, or shrink the batches."
        )
    overloaded = overload(stats.load)
    if overloaded:
        return text + overloaded
    if not stats.cores or stats.workers < stats.cores:  # they end with their epoch, so their number may be 0
        most = f", up to the number of cores ({stats.cores})" if stats.cores else ""
        return f"{text}Raise num_workers{most}. If that isn't enough, move work from the dataset to the pipeline."
    return (
        f"{text}There are as many workers as cores ({stats.cores}): move work from the dataset to the pipeline, for "
        f"example decoding, or store smaller samples."
    )


def _pipeline(stats: ServerStats) -> str:
    text = f"The pipeline limits the speed: it is busy {stats.busy_share:.0%} of the time. "
    if stats.operators:
        overloaded = overload(stats.load)
        name, times = max(stats.operators.items(), key=lambda item: item[1].wall)
        if times.device == "cpu" and times.wall > _WAITS * times.seconds and not overloaded:
            return (
                f"{text[:-2]}, and {name} mostly waits for a disk, a core or the GIL: its threads ran for "
                f"{times.wall:.1f} s, but used a core for only {times.seconds:.1f} s. Give the server more cores, or "
                f"pass parallel=True to Python functions that hold the GIL."
            )
        name, times = max(stats.operators.items(), key=lambda item: item[1].seconds)
        share = times.seconds / max(sum(each.seconds for each in stats.operators.values()), 1e-9)
        text = f"{text[:-2]}, and {name} takes {share:.0%} of its processor time. "
        if times.device != "cpu":
            return f"{text}That is the host's time to issue GPU work: use larger batches, or fewer operators."
        if overloaded:
            return text + overloaded
    if not stats.cores or stats.threads < stats.cores:
        return f"{text}Raise num_threads of the pipeline ({stats.threads} now, {_counted(stats.cores, 'core')})."
    return (
        f"{text}All {_counted(stats.cores, 'core')} are in use: crop or resize before expensive operators, lower "
        f"num_workers if the dataset is cheap, or run operators on a GPU."
    )


def _counted(count: int, noun: str) -> str:
    plural = "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{'' if count == 1 else plural}"
