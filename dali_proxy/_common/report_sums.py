"""Sums of the counters that several servers, or several processes of one, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MEANS = frozenset({"seconds", "depth"})  # of all; other numbers are sums
_MOST = frozenset({"cacheable_bytes"})  # of a sample; 0 for those that have measured none
# Of the processes of one server, which see the same machine and clients, and share the batches.
_MEANS_HERE = _MEANS | {"busy", "occupancy", "host", "cores", "load"}
_MOST_HERE = _MOST | {
    *("consumers", "workers", "observed", "cores_idle", "cores_other"),
    *("worker_elapsed", "worker_processor", "worker_runnable"),
}


def summed(reports: Sequence[Mapping[str, Any]], *, here: bool = False) -> dict[str, Any]:
    """Return the sums of the numbers of reports, and all items of their lists. Seconds, for example, are a mean.

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
    for name in (_MOST_HERE if here else _MOST).intersection(merged):
        merged[name] = max(report.get(name, 0) for report in reports)
    if here:
        merged |= {"pid": reports[0]["pid"], "processes": len(reports)} if "pid" in merged else {}
    return merged


def _sum(total: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Add the numbers and the lists of two mappings; keep the first of other values that isn't empty."""
    return {**total, **{name: _added(total[name], value) if name in total else value for name, value in more.items()}}


def _added(first: Any, second: Any) -> Any:
    if isinstance(second, int | float | list) and not isinstance(second, bool):
        return first + second
    return first or second
