"""The host's process: `python -m dali_proxy._host FD`. Only `ProcessHost` starts it."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from functools import partial

from dali_proxy._common.folders import remove_folder
from dali_proxy._common.process_exit import TERMINATED, describe_exit
from dali_proxy._host.allocator import keep_freed_memory
from dali_proxy._host.control import CONTROL_CODEC, Failed, Ready, Serve, Start, StartFailed, Stop
from dali_proxy._host.driver_files import remove_driver_files
from dali_proxy._host.host import Host
from dali_proxy._host.jobs import Jobs
from dali_proxy._host.starting import make_host, read_bytes, read_start
from dali_proxy._transport.fields import clip
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.switching import begin_short_turns
from dali_proxy.pipeline._definition.server_process import declare_server_process
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, IPCError
from dali_proxy.pipeline._ipc.interpreter import adopt_import_path, listen_to_signals

_PATIENCE = 8.0  # seconds that running batches may take when the host stops
_GPU_PATIENCE = 2.0  # the same, if only the GPU still works: no client gets the results
_GLANCE = 0.01  # seconds between looks at the GPU


def main() -> int:
    """Run the host that the parent describes, until the parent sends `Stop` or ends."""
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.stderr.write("DALIServer starts dali_proxy._host; don't run it directly\n")
        return 2
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    listen_to_signals()
    keep_freed_memory()
    _allow_descriptors()
    control = Channel(socket.socket(fileno=int(sys.argv[1])), CONTROL_CODEC)
    try:
        received = control.receive(timeout=60)
    except ChannelClosedError:  # the parent ended while this process started
        return 1
    start = received.message
    if isinstance(start, Serve):
        return _serve_jobs(start, read_bytes(received.fds[0], start.description_nbytes), control)
    _restore_environment(start)
    declare_server_process()
    try:
        host = make_host(*read_start(received), partial(_fail, control))
    except Exception as error:  # noqa: BLE001  # the parent raises it
        if not _send(control, StartFailed.from_error(error, traceback.format_exc())):
            _remove_traces(start)
        return 1
    if host.may_use_gpu:
        begin_short_turns()
    status = 0

    def terminate(*_: object) -> None:
        nonlocal status
        status = TERMINATED
        host.stop("its process was terminated")

    signal.signal(signal.SIGTERM, terminate)
    if not _serve(host, control):  # the parent is gone, so remove its files now: the executor may never end
        _remove_traces(start)
    if status:  # the parent may have been terminated, too, so it can't remove the folder
        _send(control, Failed(describe_exit(status)))
        remove_folder(os.path.dirname(start.path))
    # Only the executor still runs. It must not keep the process alive forever.
    _await_gpu(host, control, status or 1)
    watchdog = threading.Thread(
        target=_end_late, args=(host, control, status or 1), name=f"{THREAD_PREFIX}watchdog", daemon=True
    )
    watchdog.start()
    host.close()
    return status


def _serve_jobs(serve: Serve, description: bytes, creator: Channel) -> int:
    """Run a server with a name. It outlives the process that creates it."""
    fd = os.dup(creator.fileno())
    if os.fork():
        os._exit(0)  # the creator waits for this process, and init for the other one
    creator = Channel(socket.socket(fileno=fd), CONTROL_CODEC)
    _restore_environment(serve)
    declare_server_process()
    try:
        jobs = Jobs(serve, description)
    except Exception as error:  # noqa: BLE001  # the creator raises it
        _send(creator, StartFailed.from_error(error, traceback.format_exc()))
        return 1
    signal.signal(signal.SIGTERM, lambda *_: jobs.terminate())
    _send(creator, Ready(os.getpid()))
    status = jobs.run(creator)
    remove_driver_files(os.getpid())
    return status


def _allow_descriptors() -> None:
    """Raise the limit of open descriptors to the maximum: each result in flight holds a few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _restore_environment(start: Start | Serve) -> None:
    """Restore the parent's environment, which the user's callables may rely on."""
    if start.directory:
        with suppress(OSError):  # it was removed or can't be entered, so the parent can't open files there, either
            os.chdir(start.directory)
    adopt_import_path(start.sys_path)


def _send(control: Channel, message: object) -> bool:
    """Send a message to the parent. Return whether the parent still runs."""
    try:
        control.send(message, timeout=10)
    except ChannelClosedError:
        return False
    return True


def _fail(control: Channel, reason: str) -> None:
    """End at once: what is left to do needs CUDA, which fails. The parent raises the reason, or starts another host."""
    with suppress(IPCError):
        control.send(Failed(clip(reason, 1 << 16)), timeout=1)
    os._exit(1)


def _await_gpu(host: Host, control: Channel, status: int) -> None:
    """Wait until the GPU is idle; end the process if that takes long: a kernel may never end.

    Nothing may be freed before. CUDA would wait for the kernel and meanwhile answer no other thread.
    """
    end = time.monotonic() + _GPU_PATIENCE
    while host.is_gpu_busy():
        if time.monotonic() > end:
            _end_busy(control, status)
        time.sleep(_GLANCE)


def _end_busy(control: Channel, status: int) -> None:
    with suppress(IPCError):
        control.send(Failed("didn't wait for the GPU when it stopped"), timeout=1)
    os._exit(status)


def _end_late(host: Host, control: Channel, status: int) -> None:
    """End the process if its batches don't end. A kernel may never end, and then only the driver can end it."""
    time.sleep(_GPU_PATIENCE)
    if host.is_gpu_busy():
        _end_busy(control, status)
    time.sleep(_PATIENCE - _GPU_PATIENCE)
    os._exit(status)


def _remove_traces(start: Start) -> None:
    """Remove the files that the parent would have removed."""
    remove_folder(os.path.dirname(start.path))
    remove_driver_files(os.getpid())


def _serve(host: Host, control: Channel) -> bool:
    """Serve until the parent sends `Stop` or ends. Return whether the parent still runs."""
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
            host.server.unwatch(fd)
            host.stop("it was stopped" if not orphaned else "the process that started it has ended")

    host.server.watch(fd, listen)
    if not _send(control, Ready(os.getpid())):
        return False
    host.run()
    return not orphaned


if __name__ == "__main__":
    sys.exit(main())
