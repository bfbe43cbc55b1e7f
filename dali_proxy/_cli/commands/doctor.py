"""``dali-proxy doctor``."""

from __future__ import annotations

import argparse

from dali_proxy._cli.command import Command

__all__ = ["COMMAND"]


def _execute(options: argparse.Namespace) -> int:
    from dali_proxy._doctor import examine

    healthy = True
    for check in examine():
        print(f"{check.status:<9} {check.name:<24} {check.detail}")
        healthy = healthy and check.status != "missing"
    print("Ready." if healthy else "A required component is missing.")
    return 0 if healthy else 1


COMMAND = Command("report what is installed on this machine and what is missing", _execute)
