"""The command line of ``dali-proxy``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

import dali_proxy
from dali_proxy._cli.command import Command, CommandError, find_commands
from dali_proxy._cli.interrupts import interrupts

_STATUSES = """\
exit status: 0 for success, 1 for a failure that was reported or if something is missing, 2 for wrong arguments,
130 after Ctrl-C"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns:
        The exit status: 0 for success, 1 for a failure that was reported or if something is missing, 2 for wrong
        arguments, 130 after Ctrl-C.
    """
    try:
        with interrupts():
            commands = find_commands()
            top = parser(commands)
            options = top.parse_args(arguments)
            if options.command is None:
                top.print_help(sys.stderr)
                return 2
            command = commands[options.command]
            if not command.handles_interrupts:
                status = command.execute(options)
                print(end="", flush=True)  # a full disk is reported below, not at exit
                return status
    except KeyboardInterrupt:
        print("\ndali-proxy: interrupted", file=sys.stderr)
        exec("")  # else Python ends by SIGINT, not by a status, if the interrupt met text that C code executes
        return 130
    except OSError as error:  # those of the user's code are `PipelineError` or `CommandError`
        if not isinstance(error, BrokenPipeError):  # the reader of our output, such as `head`, has ended
            where = "" if error.filename is None else f": {error.filename}"
            print(f"dali-proxy {options.command}: {error.strerror or error}{where}", file=sys.stderr)
        _discard_unwritable_output()
        return 1
    except CommandError as error:
        print(f"dali-proxy {options.command}: {error}", file=sys.stderr)
        return error.status
    except RuntimeError as error:
        errors = importlib.import_module("dali_proxy.pipeline.errors")
        if not isinstance(error, errors.PipelineError):
            raise
        print(f"dali-proxy {options.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, errors.ArgumentTypeError | errors.ArgumentValueError) else 1
    except ImportError as error:
        if error.name != "dali-proxy":
            raise
        print(f"dali-proxy: {error}", file=sys.stderr)  # a package is too old
        return 1
    return command.execute(options)


def _discard_unwritable_output() -> None:
    """If the rest of the standard output can't be written, discard it: Python would report that again at exit."""
    try:
        print(end="", flush=True)  # does nothing if the standard output is closed
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def parser(commands: dict[str, Command]) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="dali-proxy",
        description="GPU and CPU data loading for PyTorch.",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"dali-proxy {dali_proxy.__version__}")
    choices = top.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in commands.items():
        command.add_arguments(
            choices.add_parser(
                name,
                help=command.purpose,
                description=command.description or f"{command.purpose[0].upper()}{command.purpose[1:]}.",
                usage=command.usage,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    return top
