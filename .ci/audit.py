"""Report what a run of pip-audit found, and which versions it could not check.

    python .ci/audit.py REPORT [INDEX]

REPORT is the output of `pip-audit --format=json`. Some indices (mirrors, for example) have no advisories for a version,
but have those of each package's newest version. INDEX is the address of such data; the default is PyPI's.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

INDEX = "https://pypi.org/pypi"
PATIENCE_S = 30.0


def newest(index: str, name: str) -> tuple[str, list[str]]:
    """Return a package's newest version, and the advisories for it; an empty version if the index has no data."""
    try:
        with urllib.request.urlopen(f"{index}/{name}/json", timeout=PATIENCE_S) as answer:
            data: dict[str, Any] = json.load(answer)
    except (urllib.error.URLError, TimeoutError, ValueError):
        return "", []
    return str(data["info"]["version"]), [str(each["id"]) for each in data.get("vulnerabilities", ())]


def main() -> int:
    """Print the report. Return 0 if all versions were checked and have no advisory."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    index = sys.argv[2] if len(sys.argv) > 2 else INDEX
    found: list[str] = []
    unchecked: list[str] = []
    for each in report["dependencies"]:
        name, version = each["name"], each.get("version", "")
        advisories = [str(one["id"]) for one in each.get("vulns", ())]
        if "skip_reason" in each:
            # Its text is the only place that has the version: "Dependency not found ...: numpy (2.4.6)".
            version = version or each["skip_reason"].rpartition("(")[2].rstrip(")")
            latest, advisories = newest(index, name)
            if latest != version:
                unchecked.append(f"{name} {version}" + (f" (newest: {latest})" if latest else ""))
                continue
        if advisories:
            found.append(f"{name} {version}: {', '.join(advisories)}")
    count = len(report["dependencies"])
    print(f"{count - len(unchecked)} of {count} versions were checked. {len(found)} have advisories.")
    print(*(f"  {line}" for line in found), sep="\n", end="\n" if found else "")
    if unchecked:
        print(f"{len(unchecked)} could not be checked, because {index} has no advisories for a version there:")
        print(*(f"  {line}" for line in unchecked), sep="\n")
        print("Audit them where PyPI itself can be reached, as the workflow Audit does.")
    return 1 if found or unchecked else 0


if __name__ == "__main__":
    sys.exit(main())
