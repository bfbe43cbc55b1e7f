"""``dali-proxy doctor``."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from dali_proxy._cli.command import Command

_DESCRIPTION = """\
Check the installation, the limits of this machine and its GPU, and say what to do about each problem.

The exit status is 0 if nothing that is required is missing, else 1."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _execute(options: argparse.Namespace) -> int:
    from dali_proxy._doctor import examine

    checks = []
    for check in examine():
        checks.append(check)
        if not options.json:
            print(f"{check.status:<9} {check.name:<24} {check.detail}", flush=True)
            if check.advice:
                print(f"{'':34} -> {check.advice}")
    healthy = all(check.status != "missing" for check in checks)
    if options.json:
        print(json.dumps({"ready": healthy, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        print("Ready." if healthy else "A required component is missing.")
    return 0 if healthy else 1


COMMAND = Command("check this machine, and say what to do about problems", _execute, _add_arguments, _DESCRIPTION)
