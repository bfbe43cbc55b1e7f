"""The address of a server in a file of its folder, for other processes of the same user."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path

from dali_proxy._transport.endpoint import Endpoint
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline.errors import ArgumentMismatchError

_NAME = "endpoint"


def publish(endpoint: Endpoint) -> None:
    """Let other processes of this user find a server. The file disappears with the server's folder."""
    path = os.path.join(os.path.dirname(endpoint.path), _NAME)
    with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
        file.write(pickle.dumps(endpoint))


def is_published(endpoint: Endpoint) -> bool:
    """Return whether other processes may have found a server by its file."""
    return os.path.exists(os.path.join(os.path.dirname(endpoint.path), _NAME))


def read_published(folder: str, own: Endpoint) -> Endpoint:
    """Return the endpoint of the server in a folder, for a process that would otherwise start a server itself.

    Args:
        folder: the folder of a server that was published.
        own: endpoint that the process's own server would have.

    Raises:
        ArgumentMismatchError: the server's pipeline has other inputs, outputs or batch sizes.
        ProxyError: the folder belongs to another user.
    """
    path = Path(folder) / _NAME
    if path.stat().st_uid != os.getuid():
        raise ProxyError(f"{path} belongs to another user")
    found: Endpoint = pickle.loads(path.read_bytes())
    for name in ("inputs", "outputs", "max_batch_size"):
        here, there = getattr(own, name), getattr(found, name)
        if here != there:
            raise ArgumentMismatchError(
                f"all ranks must pass the same pipeline, but for rank {own.rank} {name} is {here!r}, and for the rank "
                f"that started the server it is {there!r}"
            )
    return replace(own, **{name: getattr(found, name) for name in ("path", "key", "processes", "ranks")})
