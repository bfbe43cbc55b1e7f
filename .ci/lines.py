"""Turns the output of `git diff --numstat`, from stdin, into a table of lines added and removed by folder.

Only code counts; generated stubs don't.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict

CODE = (".py", ".c", ".h", ".cu", ".cuh")


def table(numstat: str) -> str:
    """Return the table, as Markdown."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for line in numstat.splitlines():
        added, removed, path = line.split("\t")
        path = re.sub(r"\{.* => (.*)\}", r"\1", path).replace("//", "/")  # of a renamed file
        path = path.rpartition(" => ")[2]
        if path.endswith(CODE) and added != "-":
            top = path.partition("/")[0] if "/" in path else "."
            sums[top][0] += int(added)
            sums[top][1] += int(removed)
    rows = [(f"`{top}`", *sums[top]) for top in sorted(sums)]
    rows.append(("**sum**", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    head = "Lines of code that this pull request changes:\n\n"
    head += "| folder | added | removed | difference |\n| --- | ---: | ---: | ---: |\n"
    return head + "".join(f"| {name} | {new} | {old} | {new - old:+} |\n" for name, new, old in rows)


if __name__ == "__main__":
    print(table(sys.stdin.read()), end="")
