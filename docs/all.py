"""Writes all files that are generated from the code and from results: stubs, tables, pages, figures, images.

    python -m docs.all

`python -m docs.operators --list` and `make operators` also look up DALI's operators and compare with them.
"""

from __future__ import annotations

import os
import runpy
import sys

__all__ = ["GENERATORS"]

#: Modules of this folder, each of which writes some of the files. Pages come after the stubs.
GENERATORS = (
    "stubs",
    "map",
    "operators",
    "names",
    "migrating",
    "torchvision",
    "operators_speed",
    "graphs_speed",
    "comparison",
    "drawings",
    "images",
    "recipes",
)


def main() -> None:
    """Run the generators."""
    os.environ.pop("DALI_EXTRA_PATH", None)  # it has other photographs
    for name in GENERATORS:
        sys.argv = [name]
        print(f"docs.{name}", flush=True)
        runpy.run_module(f"docs.{name}", run_name="__main__")


if __name__ == "__main__":
    main()
