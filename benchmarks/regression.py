"""``make bench-check``: compare ratios with the last committed results of the same kind of device."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import short_name
from benchmarks.session import RESULTS, add_options, device_id, measure_all
from benchmarks.targets import Figure, figure_of

MARGIN = 0.05
"""Fraction of a ratio that may be lost without a report, for any ranges."""

COST_RATIOS = ("workers_start_ratio", "workers_start_later_ratio")
"""The costs that are ratios. The others are absolute times, which can't be compared with those of another day."""


@dataclass(frozen=True)
class Change:
    """Old and new value of a ratio.

    Attributes:
        kind: The kind of input, or ``"costs"``.
        name: The rival, or the name of the cost.
        old: Committed values.
        new: Values measured now; None if that failed.
    """

    kind: str
    name: str
    old: Figure
    new: Figure | None

    @property
    def worse(self) -> bool:
        """Return whether the ratio fell by more than the margin, and its best new round is below the worst old one."""
        if self.new is None:
            return True
        return self.new.high < self.old.low and self.new.median < self.old.median * (1 - MARGIN)

    def __str__(self) -> str:
        then = f"{self.old.median:.2f} ({self.old.low:.2f}..{self.old.high:.2f})"
        now = f"{self.new.median:.2f} ({self.new.low:.2f}..{self.new.high:.2f})" if self.new else "failed"
        return f"{self.kind + ' / ' + self.name:<36}{then:<24}{now:<24}{'WORSE' if self.worse else ''}".rstrip()


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Compare the ratios of two documents, where both have the same setup.

    Args:
        old: The committed document.
        new: The document that was measured now.

    Returns:
        A change for each ratio of the old document whose kind was measured again. Rivals that aren't installed now are
        left out; a rival that failed now, or our own failure, is a change for the worse.
    """
    changes = []
    for kind, before in old["kinds"].items():
        after = new["kinds"].get(kind)
        if after is None or after["setup"] != before["setup"]:
            continue
        for name in before["rivals"]:
            figure = figure_of(old, kind, name)
            found = figure_of(new, kind, name)
            asked = name in after["rivals"] or "not installed" not in after["failures"].get(name, "not installed")
            if figure is not None and asked:
                changes.append(Change(kind, name, figure, found))
    for name in COST_RATIOS:
        figure, found = figure_of(old, "costs", name), figure_of(new, "costs", name)
        if figure is not None and found is not None:
            changes.append(Change("costs", name, figure, found))
    return changes


def last_committed(folder: Path, device: str) -> dict[str, Any] | None:
    """Read the newest committed results of a kind of device from git, independent of the working tree.

    Args:
        folder: Folder with results.
        device: Device name from `short_name`.

    Returns:
        The document; None if there is none.
    """

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout

    pattern = re.compile(rf"\d{{4}}-\d\d-\d\d-{re.escape(device)}\.json")
    names = [name for name in git("ls-tree", "--name-only", "HEAD", ".").split() if pattern.fullmatch(name)]
    if not names:
        return None
    document: dict[str, Any] = json.loads(git("show", f"HEAD:./{max(names)}"))
    return document


def other_machine(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Describe how the machines of two documents differ; empty if they agree."""
    before, now = old["machine"], new["machine"]
    return ", ".join(f"{key} {before.get(key)}, now {value}" for key, value in now.items() if before.get(key) != value)


def main() -> int:
    """Measure, measure again where a ratio looks worse, and print a line for each ratio.

    Returns:
        1 if a ratio got worse, 2 if there is nothing to compare with, else 0.
    """
    options = parser().parse_args()
    device = short_name(device_id(options))
    old = last_committed(RESULTS, device)
    if old is None:
        print(f"No results of {device} are committed: run the benchmarks and commit their JSON.", file=sys.stderr)
        return 2
    new = measure_all(options)
    changes = compare(old, new)
    if not changes:
        print("Nothing was measured in the way that the committed results were.", file=sys.stderr)
        return 2
    suspects = {(change.kind, change.name) for change in changes if change.worse}
    if suspects:
        print("Measuring again the ratios that look worse.\n")
        options.kinds = [kind for kind in options.kinds if any(kind == suspect for suspect, _ in suspects)]
        options.costs = any(kind == "costs" for kind, _ in suspects)
        again = {(change.kind, change.name): change for change in compare(old, measure_all(options))}
        changes = [again[key] if (key := (one.kind, one.name)) in suspects & again.keys() else one for one in changes]
    print(f"Throughput of dali-proxy in units of the others', {old['date']} and now:")
    print("\n".join(f"  {change}" for change in changes))
    worse = [change for change in changes if change.worse]
    print(
        f"\n{len(worse)} of {len(changes)} ratios got worse beyond the spread of both."
        if worse
        else "\nNothing got worse."
    )
    if worse and (differing := other_machine(old, new)):
        print(f"The committed results come from another machine: {differing}. Measure their commit here, too.")
    return 1 if worse else 0


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.regression",
        description="Compare ratios with the last committed results; exit status 1 if something got worse.",
    )
    add_options(made, rounds=3, seconds=1.0)
    return made


if __name__ == "__main__":
    sys.exit(main())
