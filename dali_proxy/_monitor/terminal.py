"""The live view of servers in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dali_proxy._monitor.observation import Observation

_COLUMNS = (
    "    PID      UP  SAMPLES/S  BATCHES/S  IN FLIGHT  BUSY  TRAIN  WAIT WORKERS/RESULTS   CPU    MEMORY  ERRORS  LIMIT"
)
_OPERATORS = 3  # the most expensive ones


def render(observations: Sequence[Observation], width: int = 120) -> str:
    """Return a table of servers, with the advice, the most expensive operators and the last error of each."""
    if not observations:
        return "You have no running server. Start one: with DALIServer(pipeline) as server: ..."
    lines = [_COLUMNS]
    for each in observations:
        shares = each.loop_shares
        waits = f"{shares['workers']:.0%} / {shares['results']:.0%}"
        lines.append(
            f"{each.pid:7} {_duration(each.total.seconds):>7} {each.samples_per_second:10,.0f} "
            f"{each.batches_per_second:10,.1f} {each.in_flight:10} {each.busy:5.0%} {shares['training']:6.0%} "
            f"{waits:>21} {each.processor:5.0%} {each.total.memory / 1e6:6,.0f} MB {each.total.errors:7,}  "
            f"{each.recent.limited_by or '-'}"
        )
    for each in observations:
        workers = each.total.num_workers or each.total.workers
        owner = f"  (process {each.owner}, {workers} worker{'' if workers == 1 else 's'})"
        lines += ["", f"{each.pid}  {_in_one_line(each.command, width - len(f'{each.pid}  {owner}'))}{owner}"]
        lines += _indented(each.advice, width)
        lines += _indented(each.total.cache_advice, width)
        if each.total.num_workers_reason and each.total.num_workers_reason not in each.advice:
            lines += _indented(f"Workers: {each.total.num_workers_reason}", width)
        if each.total.num_threads_reason:
            lines += _indented(f"Threads: {each.total.num_threads_reason}", width)
        operators = sorted(each.recent.operators.items(), key=lambda item: -item[1].seconds)
        total = sum(times.seconds for _, times in operators)
        shown = [f"{name} {times.seconds / total:.0%}" for name, times in operators[:_OPERATORS] if times.seconds > 0]
        if shown:
            lines += _indented(f"Processor time of operators: {', '.join(shown)}", width)
        lines += each.recent.latency_lines()
        if each.total.last_error:
            lines += _indented(f"Last error: {each.total.last_error}", width)
    return "\n".join(line[:width] for line in lines)


def _in_one_line(command: str, width: int) -> str:
    """Return a command line, which may contain a whole program, without line breaks and in at most `width` columns."""
    line = _printable(command)
    return line if len(line) <= width else f"{line[: max(width - 3, 0)]}..."


def _indented(text: str, width: int) -> list[str]:
    return textwrap.wrap(_printable(text), max(width, 40), initial_indent="  ", subsequent_indent="  ")


def _printable(text: str) -> str:
    """Return text that may come from anywhere without line breaks and control characters of terminals."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
