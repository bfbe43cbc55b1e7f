"""Writes docs/operators.md: every operator of NVIDIA DALI's `fn`, and its state in this project.

    python -m docs.operators            write the page
    python -m docs.operators --list     look up the operators of an installed DALI first

`make operators` also runs the parity tests first. They record the largest differences in docs/parity.json.
"""

from __future__ import annotations

import argparse
import json
import re
import types
from pathlib import Path
from typing import Any

from dali_proxy._nvidia.differences import DIFFERENCES
from dali_proxy.pipeline._catalog import all_schemas
from docs.arguments import look_up_arguments, rows
from tests.parity.exceptions import EXCEPTIONS
from tests.parity.tolerances import EXACT, TOLERANCES, TOLERANCES_ON_GPU

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "operators.md"
#: DALI's operators, their devices and arguments.
NAMES = FOLDER / "dali_operators.json"
#: The results of the parity tests: by device and operator, the largest difference by dtype.
FOUND = FOLDER / "parity.json"

HEAD = """# Comparison with NVIDIA DALI's operators

This table lists every operator of `nvidia.dali.fn` {version} and its state here. {there} of {count} are implemented;
these counts include old names. `make operators` writes this page. [The reference](reference/operators.md) has the
arguments.

- **here**: the devices on which the operator runs; *mixed* takes bytes from the CPU and returns results on the GPU.
- **allowed** and **found**: the largest difference from DALI on the CPU that the tests allow, and the largest that they
  have found in {examples} random calls of the operator with every documented argument. For integers it is the absolute
  difference; with 32 bits and more, only the part that exceeds the precision of a float32 counts. For real numbers
  it is a fraction of the largest value. 0 means bit-identical.
- **GPU**: the same for our GPU against our CPU, in {on_gpu} random calls, if that was run.
"""
FOOT = """
## Arguments

All arguments that DALI documents are implemented. They have the same defaults and accept the same values, including
one value per sample or per frame. These are the exceptions:

| argument | operators | in DALI | here |
| --- | --- | --- | --- |
{arguments}

## Why differences are allowed

| operator | why |
| --- | --- |
{reasons}

## Differences from DALI

These differences are intended or can't be avoided. [Formats](formats.md#differences-from-dali) lists those of images.

| operator | difference |
| --- | --- |
{differences}
"""


def page() -> str:
    """Return the page, from the declarations and the files beside this one."""
    listed, found = json.loads(NAMES.read_text()), json.loads(FOUND.read_text())
    ours = {schema.name: schema for schema in all_schemas() if not schema.hidden}
    theirs: dict[str, list[str]] = listed["operators"]
    table = ["| operator | DALI | here | allowed | found | GPU |", "| --- | --- | --- | --- | --- | --- |"]
    for name in sorted({*theirs, *ours}):
        here = "missing" if name not in ours else ", ".join(ours[name].devices)
        devices = ", ".join(theirs[name]) if name in theirs else "missing"
        alias = ours[name].alias_of if name in ours else None
        cells = [f"`{name}`", devices or "any", here]
        cells += [f"as `{alias}`", "", ""] if alias else _differences(name, found, name in ours)
        table.append("| " + " | ".join(cells) + " |")
    reasons = [f"| `{name}` | {TOLERANCES[name].reason} |" for name in sorted(TOLERANCES)]
    for name, bound in sorted(TOLERANCES_ON_GPU.items()):
        allowed = _largest({"int": bound.integers, "float": bound.reals})
        reasons.append(f"| `{name}`, GPU from CPU | up to {allowed}: {bound.reason} |")
    differences = [f"| `{name}` | {text} |" for name, text in DIFFERENCES.items()]
    head = HEAD.format(
        version=listed["version"],
        there=len(set(theirs) & set(ours)),
        count=len(theirs),
        examples=found["examples"]["cpu"],
        on_gpu=found["examples"]["gpu"],
    )
    foot = FOOT.format(
        arguments="\n".join(rows(listed)), reasons="\n".join(reasons), differences="\n".join(differences)
    )
    return "\n".join([head, *table]) + "\n" + foot


def _differences(name: str, found: dict[str, Any], there: bool) -> list[str]:
    """Return the allowed difference, and the differences found on the CPU and the GPU."""
    if not there:
        return ["", "", ""]
    on_gpu = _largest(found["gpu"].get(name))
    if name in EXCEPTIONS:
        return [EXCEPTIONS[name].partition(":")[0].partition(" in ")[0], "", on_gpu]
    bound = TOLERANCES.get(name, EXACT)
    return [_largest({"int": bound.integers, "float": bound.reals}), _largest(found["cpu"].get(name)), on_gpu]


def _largest(by_dtype: dict[str, float] | None) -> str:
    """Return the largest differences of integers and of real numbers as text."""
    if not by_dtype:
        return ""
    whole = [value for dtype, value in by_dtype.items() if "int" in dtype or dtype == "bool"]
    real = [value for dtype, value in by_dtype.items() if "float" in dtype]
    if not any((*whole, *real)):
        return "0"
    return "; ".join(
        [*([f"{max(whole):g}"] if whole else []), *([f"{max(real):.0e}" if max(real) else "0"] if real else [])]
    )


def look_up() -> dict[str, Any]:
    """Return DALI's version, its operators with their devices (none if unknown), and the arguments of those we have."""
    from nvidia import dali

    operators: dict[str, list[str]] = {}
    arguments: dict[str, Any] = {}
    ours = {schema.name for schema in all_schemas()}

    def walk(module: types.ModuleType, prefix: str) -> None:
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or name == "hidden":
                continue
            if isinstance(value, types.ModuleType):
                if value.__name__.startswith("nvidia.dali.fn"):
                    walk(value, f"{prefix}{name}.")
            elif callable(value) and not isinstance(value, type):
                found = re.search(r"Supported backends\n((?: \* '\w+'\n)+)", value.__doc__ or "")
                operators[prefix + name] = re.findall(r"'(\w+)'", found[1]) if found else []
                if prefix + name in ours:
                    arguments[prefix + name] = look_up_arguments(value)

    walk(dali.fn, "")
    return {"version": dali.__version__, "operators": operators, "arguments": arguments}


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="look up DALI's operators first")
    if parser.parse_args().list:
        NAMES.write_text(json.dumps(look_up(), indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
