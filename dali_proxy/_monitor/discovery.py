"""Finds the running servers of this user."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from dali_proxy._common.folders import server_sockets

#: A server's socket, as the kernel lists it: under the name that it was bound to, before it was renamed.
_BOUND = re.compile(r"(/\S*/dali-proxy-[0-9a-f]{16})/socket\.new$")


def find_sockets() -> list[str]:
    """Return the paths of the sockets of this user's servers.

    Servers of processes with another temporary folder (TMPDIR) are found in the kernel's list of sockets, unless their
    paths are long.
    """
    found = set(server_sockets())
    with suppress(OSError):
        for line in Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            match = _BOUND.search(line)
            if match is not None:
                found.add(os.path.join(match[1], "socket"))
    return sorted(path for path in found if _is_own(path))


def _is_own(path: str) -> bool:
    try:
        return os.stat(path).st_uid == os.getuid()
    except OSError:  # of another user or mount namespace, or it has ended
        return False
