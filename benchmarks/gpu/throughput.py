"""Rates of all rivals for each kind of input, in turn."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.gpu.session import Session, without_paths
from benchmarks.report import table
from benchmarks.rivals.base import Rival
from benchmarks.rivals.decoder import DecoderAlone
from benchmarks.rivals.nvidia_proxy import NvidiaProxy
from benchmarks.rivals.nvidia_reader import NvidiaReader
from benchmarks.rivals.ours import Ours
from benchmarks.rivals.torch_best import TorchBest
from benchmarks.rivals.yardsticks import DecodeOnly
from benchmarks.runner import KindResult, run_kind
from benchmarks.workload import READER_KIND

KINDS = ("bytes", "paths", READER_KIND, "decoded")
SLOW_KINDS = ("decoded",)
"""Kinds that need eight seconds per round with NVIDIA's proxy: they get one round less."""

REFERENCE = "dali-proxy"
RIVALS: tuple[Rival, ...] = (
    Ours(), NvidiaReader(), NvidiaProxy(), TorchBest(), DecodeOnly(), DecoderAlone(),
)  # fmt: skip


def measure_throughput(
    session: Session, kinds: Sequence[str] = KINDS, rivals: Sequence[Rival] = RIVALS
) -> list[KindResult]:
    """Measure rivals with each kind of input, and print a table for each.

    Args:
        session: Setup and durations.
        kinds: Kinds of input.
        rivals: Rivals to compare, each with the kinds that it can load.

    Returns:
        The results of each kind that there was time for.
    """
    results = []
    for kind in kinds:
        what = f"throughput, {kind}"
        if not session.budget.allows(what):
            continue
        with session.guarded(what):
            result = run_kind(
                rivals,
                session.of_kind(kind),
                rounds=max(1, session.rounds - (kind in SLOW_KINDS)),
                seconds=session.seconds,
                say=session.say,
                go_on=lambda what=what: session.budget.allows(f"rounds of {what}"),
            )
            print(table(result, REFERENCE) + "\n", flush=True)
            for name, text in result.failures.items():
                session.failures[f"{what}, {name}"] = without_paths(text)
            results.append(result)
    return results
