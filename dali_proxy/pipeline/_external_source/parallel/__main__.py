"""A worker as a fresh interpreter: `python -m pipeline._external_source.parallel FD`, started by a pool."""

from __future__ import annotations

import os
import socket
import sys

from dali_proxy.pipeline._external_source.parallel.protocol import CODEC, Start
from dali_proxy.pipeline._external_source.parallel.worker import Specs, Worker, prepare_process
from dali_proxy.pipeline._ipc import pickling
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.interpreter import adopt_import_path
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline.errors import SerializationError


def main() -> int:
    """Receive the sources and functions, then work until the pool is gone."""
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.stderr.write("a pipeline starts pipeline._external_source.parallel; don't run it directly\n")
        return 2
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    channel = Channel(connection, CODEC, peer_pid=os.getppid())
    prepare_process(channel)
    received = channel.receive(timeout=60)
    start = received.message
    assert isinstance(start, Start)
    os.environ.pop("PYTHONSAFEPATH", None)
    adopt_import_path(start.sys_path)
    with SharedBlock.attach(received.fds[0], start.nbytes) as block:
        data = block.array.tobytes()
    specs: Specs | SerializationError
    try:
        specs = pickling.loads(data)
    except SerializationError as error:
        specs = error  # every task fails with it
    Worker(channel, specs, start.max_batch_size).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
