"""The host's process: `python -m dali_proxy._host FD`, started by `ProcessHost` and of no use by itself."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress

from dali_proxy._common.folders import remove_folder
from dali_proxy._host.control import CONTROL_CODEC, Ready, Start, StartFailed, Stop
from dali_proxy._host.driver_files import remove_driver_files
from dali_proxy._host.host import Host
from dali_proxy._host.options import HostOptions
from pipeline import Pipeline
from pipeline._codecs import nobody_trains_here
from pipeline._ipc.channel import Channel, Received
from pipeline._ipc.errors import ChannelClosedError, IPCError
from pipeline._ipc.interpreter import listen_to_signals, restore_python_path
from pipeline._ipc.memory import SharedBlock

_PATIENCE = 8.0  # seconds that batches on their way may take when the host ends


def main() -> int:
    """Run the host that the parent describes, until the parent says stop or is gone."""
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.stderr.write("DALIServer starts dali_proxy._host; don't run it by hand\n")
        return 2
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    listen_to_signals()
    _allow_descriptors()
    control = Channel(socket.socket(fileno=int(sys.argv[1])), CONTROL_CODEC)
    received = control.receive(timeout=60)
    start = received.message
    _become_like_parent(start)
    nobody_trains_here()
    try:
        pipeline, planned_half = _read(received)
        host = Host(
            Pipeline.from_host_bytes(pipeline),
            HostOptions(
                path=start.path,
                key=start.key,
                server=start.server,
                unclaimed_bytes=start.unclaimed_bytes,
                arena_bytes_limit=start.arena_bytes_limit,
                is_half=start.is_half,
                planned_half=planned_half,
            ),
        )
    except Exception as error:  # noqa: BLE001  # whatever it is, the parent raises it
        if not _tell(control, StartFailed.of(error, traceback.format_exc())):
            _remove_traces(start)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: host.stop("its process was terminated"))
    if not _serve(host, control):  # nobody else is left to do so; it can't wait for the executor, which may never end
        _remove_traces(start)
    # What still runs is the executor. It must not keep the process for ever.
    watchdog = threading.Timer(_PATIENCE, os._exit, (1,))
    watchdog.daemon = True
    watchdog.start()
    host.close()
    return 0


def _allow_descriptors() -> None:
    """Allow as many descriptors as this process may have: each result that is on its way keeps some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _become_like_parent(start: Start) -> None:
    """Take over what the user's callables may rely on."""
    if start.directory:
        with suppress(OSError):  # it can't be entered (any more): what is there can't be opened in the parent, either
            os.chdir(start.directory)
    sys.path[:] = start.sys_path
    restore_python_path()


def _read(received: Received) -> tuple[bytes, bytes]:
    """Return the pipeline, and the half that is planned here."""
    start = received.message
    nbytes = start.nbytes + start.planned_nbytes
    block = SharedBlock.attach(received.fds[0], nbytes or 1)
    data = block.array[:nbytes].tobytes()
    block.close()
    return data[: start.nbytes], data[start.nbytes :]


def _tell(control: Channel, message: object) -> bool:
    """Send to the parent. Return whether it is still there."""
    try:
        control.send(message, timeout=10)
    except ChannelClosedError:
        return False
    return True


def _remove_traces(start: Start) -> None:
    """Remove what the parent would have removed."""
    remove_folder(os.path.dirname(start.path))
    remove_driver_files(os.getpid())


def _serve(host: Host, control: Channel) -> bool:
    """Serve until told to stop. Return whether the parent is still there."""
    orphaned = False
    fd = control.fileno()

    def listen() -> None:
        nonlocal orphaned
        try:
            stop = any(isinstance(received.message, Stop) for received in control.receive_ready())
        except IPCError as error:
            orphaned = isinstance(error, ChannelClosedError)
            stop = True
        if stop:
            host.unwatch(fd)
            host.stop("it was stopped" if not orphaned else "the process that started it has ended")

    host.watch(fd, listen)
    if not _tell(control, Ready(os.getpid())):
        return False
    host.run()
    return not orphaned


if __name__ == "__main__":
    sys.exit(main())
