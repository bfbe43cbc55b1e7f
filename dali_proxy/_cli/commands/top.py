"""``dali-proxy top``."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from typing import TYPE_CHECKING

from dali_proxy._cli.command import Command, CommandError
from dali_proxy._cli.numbers import number

if TYPE_CHECKING:
    from dali_proxy._monitor.servers import Servers

_CLEAR = "\x1b[H\x1b[J"
_DESCRIPTION = """\
Show the servers that you have started on this machine, in any process: throughput, batches in flight, how long the
training waits, memory, errors, and which part limits the speed, with advice.

--json prints one line of JSON for each interval. --web shows the same as a page with charts."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--once", action="store_true", help="print once, after one interval, instead of until Ctrl-C")
    add("--json", action="store_true", help="print JSON for programs")
    add(
        "--interval", type=number(0.1, 3600.0), default=1.0, metavar="SECONDS", help="time between updates (default: 1)"
    )
    add("--web", action="store_true", help="serve a page for browsers of this machine, and print its address")
    add("--port", type=number(0, 65535), default=0, help="TCP port of the page (default: a free one)")


def _execute(options: argparse.Namespace) -> int:
    from dali_proxy._monitor.servers import Servers

    servers = Servers()
    try:
        return _serve(servers, options.port) if options.web else _print(servers, options)
    finally:
        servers.close()


def _serve(servers: Servers, port: int) -> int:
    from dali_proxy._monitor.web import WebServer

    try:
        web = WebServer(servers, port)
    except OSError as error:
        raise CommandError(f"port {port}: {error.strerror}") from error
    print(
        f"Open {web.url}\nThe page is for this machine only; the address contains its token. Ctrl-C ends it.",
        flush=True,
    )
    with web:
        web.serve_forever()
    return 0


def _print(servers: Servers, options: argparse.Namespace) -> int:
    from dali_proxy._monitor.terminal import render

    clears = sys.stdout.isatty() and not options.once and not options.json
    servers.observations()  # the next ones cover an interval
    while True:
        time.sleep(options.interval)
        observations = servers.observations(newer=True)
        if options.json:
            text = json.dumps([each.to_dict() for each in observations])
        else:
            text = render(observations, shutil.get_terminal_size((160, 50)).columns)
        print(f"{_CLEAR if clears else ''}{text}", flush=True)
        if options.once:
            return 0


COMMAND = Command(
    "show running servers, live: throughput, waits, memory, errors", _execute, _add_arguments, _DESCRIPTION
)
