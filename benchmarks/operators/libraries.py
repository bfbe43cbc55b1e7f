"""Compare operators with OpenCV, torch, SciPy, soxr and DALI: ``python -m benchmarks.operators.libraries --help``."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.operators.cases import Case, PerSample
from benchmarks.operators.data import Array, layout_of, make, write_files
from benchmarks.operators.equivalents import EQUIVALENTS, Call
from benchmarks.operators.forms import FORMS
from benchmarks.operators.session import OURS, THEIRS, has_dali
from benchmarks.operators.side import Side
from benchmarks.report import save
from benchmarks.session import RESULTS

SAMPLES = 8
"""Samples of a batch, fewer than in `benchmarks.operators`, because volumes are large."""

BOUND = 0.02
"""Largest mean difference of a library's results from ours, as a part of our largest value."""


@dataclass
class Comparison:
    """The results of a case.

    Attributes:
        case: The case.
        milliseconds: Processor time of each library for a batch, one figure per round.
        differences: Mean difference of each library's first results from ours, as a part of our largest value.
        failures: Reasons, by library.
    """

    case: Case
    milliseconds: dict[str, list[float]] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, name: str) -> float:
        """Return the median time of a library."""
        return statistics.median(self.milliseconds[name])

    def best(self) -> str | None:
        """Return the fastest other library with our results."""
        others = [name for name in self.milliseconds if name != OURS]
        return min(others, key=self.median) if others and OURS in self.milliseconds else None

    def speed(self) -> float | None:
        """Return our speed divided by that of the fastest other library."""
        best = self.best()
        return None if best is None else self.median(best) / self.median(OURS)

    def line(self) -> str:
        """Return a line of text."""
        speed = self.speed()
        text = f"{self.case.name:<52}" + ("      " if speed is None else f"{speed:>6.2f}")
        for name in self.milliseconds:
            text += f"  {name} {self.median(name):.3f}"
            if name in self.differences and not self.case.random:
                text += f" ({self.differences[name]:.1g})"
        return text + "".join(f"  [{name}: {reason}]" for name, reason in self.failures.items())


def compare(case: Case, folder: Path, rounds: int, seconds: float) -> Comparison:
    """Check and measure a case with all libraries, in turn."""
    result = Comparison(case)
    calls: dict[str, Callable[[], Any]] = {}
    first: dict[str, list[Array]] = {}
    names = (OURS, THEIRS) if has_dali() else (OURS,)
    sides = [Side(name, folder, 1, on_gpu=False, batch_size=SAMPLES) for name in names]
    for name, side in zip(names, sides, strict=True):
        try:
            side.open(case)
            first[name] = side.samples(2)
            calls[name] = side.run
        except Exception as error:  # noqa: BLE001 - a library's exceptions are results
            result.failures[name] = _first_line(error)
    samples = [_call(case, folder, number) for number in range(SAMPLES)]
    for name, function in EQUIVALENTS.get(case.operator, {}).items():
        try:
            first[name] = [np.asarray(function(sample)) for sample in samples[:2]]
        except NotImplementedError:
            continue
        except Exception as error:  # noqa: BLE001
            result.failures[name] = _first_line(error)
            continue
        calls[name] = lambda function=function: [function(sample) for sample in samples]
    for name, found in first.items():
        if name != OURS and OURS in first:
            reason = _check(result, name, first[OURS], found)
            if reason is not None:
                result.failures[name] = reason
                calls.pop(name)
    for number in range(rounds):
        for name in list(calls)[:: 1 if number % 2 else -1]:
            result.milliseconds.setdefault(name, []).append(_measure(calls[name], seconds))
    result.milliseconds = {name: result.milliseconds[name] for name in calls if name in result.milliseconds}
    for side in sides:
        side.close()
    return result


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:100]


def _call(case: Case, folder: Path, number: int) -> Call:
    arguments = {
        name: make(value.data, folder, SAMPLES)[number] if isinstance(value, PerSample) else value
        for name, value in case.arguments.items()
    }
    inputs = [make(name, folder, SAMPLES)[number] for name in case.inputs if isinstance(name, str)]
    layout = layout_of(case.inputs[0]) if case.inputs and isinstance(case.inputs[0], str) else None
    return Call(inputs, arguments, layout or "")


def _check(result: Comparison, name: str, ours: list[Array], theirs: list[Array]) -> str | None:
    """Note the difference of two results; return why they can't be compared."""
    if result.case.random:
        return None
    for our, their in zip(ours, theirs, strict=True):
        our, their = np.squeeze(our), np.squeeze(their)
        if result.case.operator == "audio_resample" and our.shape != their.shape and abs(len(our) - len(their)) < 4:
            our, their = our[: len(their)], their[: len(our)]
        if our.shape != their.shape:
            return f"the shape is {their.shape}, not {our.shape}"
        scale = float(np.abs(our.astype(np.float64)).max()) or 1.0
        difference = float(np.abs(our.astype(np.float64) - their.astype(np.float64)).mean()) / scale
        result.differences[name] = max(result.differences.get(name, 0.0), difference)
    if not result.differences[name] <= BOUND:
        return f"the results differ by {result.differences[name]:.2g}"
    return None


def _measure(call: Callable[[], Any], seconds: float) -> float:
    """Return the milliseconds of processor time that a call takes."""
    call()
    count, begin = 0, time.process_time()
    while not count or time.process_time() - begin < seconds:
        call()
        count += 1
    return (time.process_time() - begin) / count * 1e3


def main() -> int:
    """Compare case after case, print a line for each, and save the JSON."""
    import cv2
    import torch

    options = parser().parse_args()
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    results: list[Comparison] = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dali-proxy-libraries-") as name:
        folder = Path(name)
        write_files(folder)
        for case in FORMS:
            if options.only and case.operator not in options.only.split(","):
                continue
            if time.monotonic() - begin > options.limit:
                print(f"The time is over before {case.name}.")
                break
            results.append(compare(case, folder, options.rounds, options.seconds))
            print(results[-1].line(), flush=True)
    if not options.only:
        save(as_json(results), options.output, None, "-libraries")
    return 0


def as_json(results: list[Comparison]) -> dict[str, Any]:
    """Return all results as one JSON object."""
    from benchmarks.machine import describe_machine, describe_versions

    return {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.operators.libraries",
        "machine": describe_machine(),
        "versions": describe_versions(),
        "batch_size": SAMPLES,
        "operators": [
            {
                "operator": one.case.operator,
                "variant": one.case.variant,
                "cpu_milliseconds": {
                    key: [round(value, 4) for value in each] for key, each in one.milliseconds.items()
                },
                "differences": {key: float(f"{value:.2g}") for key, value in one.differences.items()},
                "failures": one.failures,
                "speed": None if (speed := one.speed()) is None else round(speed, 3),
                "best": one.best(),
            }
            for one in results
        ],
    }


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.operators.libraries",
        description="Compare the processor time of operators with the same calls of OpenCV, torch, SciPy, soxr and "
        "DALI, on one thread each: our speed divided by that of the fastest, then milliseconds of a batch, and in "
        "parentheses the mean difference from our results.",
    )
    made.add_argument("--only", default="", help="operators, separated by commas; saves no JSON")
    made.add_argument("--rounds", type=int, default=3, help="measurements of each library (default: %(default)s)")
    made.add_argument("--seconds", type=float, default=0.05, help="length of a measurement (default: %(default)s)")
    made.add_argument(
        "--limit", type=float, default=600, help="seconds after which no case starts (default: %(default)s)"
    )
    made.add_argument("--output", type=Path, default=RESULTS, help="folder of the JSON (default: benchmarks/results)")
    return made


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when NumPy is imported
        os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.operators.libraries", *sys.argv[1:]])
    sys.exit(main())
