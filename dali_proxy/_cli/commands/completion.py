"""``dali-proxy completion``."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from dali_proxy._cli.command import Command, CommandError

_DESCRIPTION = """\
Print a script that completes this command in a shell. To install it, for all new shells:

  bash  dali-proxy completion bash > ~/.local/share/bash-completion/completions/dali-proxy
  zsh   dali-proxy completion zsh > "${fpath[1]}/_dali-proxy"
  fish  dali-proxy completion fish > ~/.config/fish/completions/dali-proxy.fish"""

_FOLDERS = frozenset({"FOLDER"})
_FILES = frozenset({"PIPELINE", "SCRIPT"})


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def _execute(options: argparse.Namespace) -> int:
    from dali_proxy._cli.command import find_commands
    from dali_proxy._cli.command_line import parser

    try:
        import shtab
    except ImportError:
        raise CommandError("needs the package shtab: pip install 'dali-proxy[completion]'") from None

    commands = find_commands()
    for command, each in commands.items():  # shells show a line for each command
        commands[command] = dataclasses.replace(each, description=f"{each.purpose[0].upper()}{each.purpose[1:]}.")
    top = parser(commands)
    _mark_paths(top, shtab)
    print(shtab.complete(top, options.shell))
    return 0


def _mark_paths(parser: argparse.ArgumentParser, shtab: Any) -> None:
    """Make the shell complete files and folders, in subcommands too."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                _mark_paths(each, shtab)
        elif action.metavar in _FOLDERS:
            vars(action)["complete"] = shtab.DIRECTORY
        elif action.metavar in _FILES or getattr(action.type, "__name__", "") == "Path":
            vars(action)["complete"] = shtab.FILE


COMMAND = Command("print a script that completes this command in a shell", _execute, _add_arguments, _DESCRIPTION)
