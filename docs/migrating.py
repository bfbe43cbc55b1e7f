"""Writes the table of differences in docs/howto/from-dali.md: `python -m docs.migrating`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from dali_proxy._nvidia.differences import BEHAVIOUR, IMPROVEMENTS
from dali_proxy.pipeline._catalog import all_schemas
from docs.operators import NAMES

__all__ = ["PAGE", "with_table"]

PAGE = Path(__file__).resolve().parent / "howto" / "from-dali.md"
BEGIN, END = "<!-- differences: python -m docs.migrating -->", "<!-- end of differences -->"


def with_table(text: str) -> str:
    """Return the text of the page with the current table."""
    head = ["| subject | in DALI | here |", "| --- | --- | --- |"]
    table = "\n".join([*head, *(f"| {' | '.join(row)} |" for row in (*_operators(), *BEHAVIOUR, *IMPROVEMENTS))])
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table}\n{END}", text, flags=re.DOTALL)


def _operators() -> list[tuple[str, str, str]]:
    """Return the rows about operators that are missing or run on other devices."""
    theirs: dict[str, list[str]] = json.loads(NAMES.read_text())["operators"]
    ours = {schema.name: schema for schema in all_schemas() if not schema.hidden}
    missing = [name for name in theirs if name not in ours]
    fewer = [name for name, devices in theirs.items() if name in ours and set(devices) - set(ours[name].devices)]
    more = [
        name for name, devices in theirs.items() if devices == ["gpu"] and name in ours and "cpu" in ours[name].devices
    ]
    rows = [
        (missing, "available", "missing: a call raises an `AttributeError` that names the operator"),
        (fewer, "have a GPU version", "run on the CPU; a call for a GPU copies the data there and back"),
        (more, "run on the GPU only", "run on the CPU, too"),
    ]
    return [(f"operators: {_listed(names)}", there, here) for names, there, here in rows if names]


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
