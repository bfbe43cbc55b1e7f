"""``dali-proxy check``."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from dali_proxy._cli.command import Command, CommandError
from dali_proxy._cli.progress import progress

_DESCRIPTION = """\
List what scripts for NVIDIA DALI use that is missing here or can change their results, without running them.

The exit status is 0 if nothing is missing, else 1. Names and arguments that a script computes aren't checked."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("scripts", metavar="SCRIPT", nargs="+", help="FILE.py, FOLDER, MODULE, or one of FILE.py and MODULE with :NAME")
    add("--json", action="store_true", help="print JSON")
    add("--all", action="store_true", help="also list differences that don't change results, or only with rare data")


def _execute(options: argparse.Namespace) -> int:
    from dali_proxy._nvidia.check import check_script

    findings, uses = [], 0
    for path, name in progress([each for text in options.scripts for each in _scripts(text)], "files"):
        try:
            found, count = check_script(path, name)
        except (OSError, ValueError) as error:
            raise CommandError(f"can't read {path}: {error}", status=2) from error
        except SyntaxError as error:
            where = f"can't read {path}" if error.lineno is None else f"{path}:{error.lineno}"  # a binary file
            raise CommandError(f"{where}: {error.msg}", status=2) from error
        except LookupError:
            raise CommandError(f"{path} has no function or class {name!r}", status=2) from None
        findings += found
        uses += count
    missing = sum(finding.kind == "missing" for finding in findings)
    notes = sum(finding.kind == "note" for finding in findings)
    differs = len(findings) - missing - notes
    if not options.all:
        findings = [finding for finding in findings if finding.kind != "note"]
    if options.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings], "uses": uses}, indent=2))
    else:
        for finding in findings:
            print(finding)
        counts = f"{missing} missing, {differs} different; {uses} uses of DALI's names checked"
        hidden = f"; --all lists {notes} more" if notes and not options.all else ""
        print(f"{counts}{hidden}" if uses else "Nothing of NVIDIA DALI is used.")
    return 1 if missing else 0


def _scripts(text: str) -> Iterator[tuple[Path, str]]:
    """Yield the files that an argument names, with the name of the function to check."""
    place, colon, name = text.rpartition(":")
    path = Path(place if colon else text)
    if path.is_dir():
        files = sorted(path.rglob("*.py"))
        if not files:
            raise CommandError(f"the folder {text!r} contains no Python files", status=2)
        yield from ((each, "") for each in files)
    elif path.is_file():
        yield path, name if colon else ""
    else:
        yield _source(str(path)), name if colon else ""


def _source(module: str) -> Path:
    """Return the file of a module, which isn't imported."""
    relative = Path(*module.split("."))
    for path in (relative.with_suffix(".py"), relative / "__init__.py"):
        if path.is_file():
            return path
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    for folder in () if spec is None else spec.submodule_search_locations or ():
        for path in (Path(folder).parent / relative.with_suffix(".py"), Path(folder).parent / relative / "__init__.py"):
            if path.is_file():
                return path
    if spec is not None and "." not in module and spec.origin is not None and Path(spec.origin).is_file():
        return Path(spec.origin)
    raise CommandError(f"there is no file, folder or module {module!r}", status=2)


COMMAND = Command(
    "list what a script for NVIDIA DALI uses that is missing here or differs", _execute, _add_arguments, _DESCRIPTION
)
