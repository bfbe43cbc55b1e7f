"""Sums of the counters that several servers, or several processes of one, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MEANS = frozenset({"seconds", "depth"})  # of all; other numbers are sums
# Of the processes of one server, which see the same machine and clients, and share the batches.
_MEANS_HERE = _MEANS | {
    *("busy", "occupancy", "host", "cores", "load", "observed", "cores_idle", "cores_other"),
    *("worker_elapsed", "worker_processor", "worker_runnable"),
}
_MOST_HERE = frozenset({"consumers", "workers"})


def summed(reports: Sequence[Mapping[str, Any]], *, here: bool = False) -> dict[str, Any]:
    """Return the sums of the numbers of reports. The number of seconds, for example, is a mean.

    Args:
        reports: the reports of servers, by the names of the counters.
        here: whether they are those of the processes of one server.

    Example:
        >>> summed([{"batches": 1, "seconds": 2.0}, {"batches": 3, "seconds": 4.0}])
        {'batches': 4, 'seconds': 3.0}
    """
    if len(reports) == 1:
        return dict(reports[0])
    merged: dict[str, Any] = {}
    for report in reports:
        for name, value in report.items():
            if isinstance(value, Mapping):
                known = merged.setdefault(name, {})
                for part, numbers in value.items():
                    known[part] = _sum(known.get(part, {}), numbers)
            else:
                merged[name] = _sum({name: merged[name]} if name in merged else {}, {name: value})[name]
    for name in (_MEANS_HERE if here else _MEANS).intersection(merged):
        merged[name] = type(merged[name])(merged[name] / len(reports))
    if here:
        merged |= {name: max(report[name] for report in reports) for name in _MOST_HERE & merged.keys()}
        merged |= {"pid": reports[0]["pid"], "processes": len(reports)} if "pid" in merged else {}
    return merged


def _sum(total: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Add the numbers of two mappings; keep the first of other values that isn't empty."""
    return {
        **total,
        **{
            name: total[name] + value if name in total and isinstance(value, int | float) else total.get(name) or value
            for name, value in more.items()
        },
    }
