"""The live page of a server: a process that serves it to browsers of this machine."""

from __future__ import annotations

import subprocess

from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._closing import Closing
from dali_proxy.pipeline._ipc.interpreter import child_environment, interpreter_path
from dali_proxy.pipeline._ipc.signals import deferred_signals

_PROGRAM = "from dali_proxy._monitor.web import main; main()"
_PATIENCE = 5.0  # seconds that the process may take to end


class Dashboard(Closing):
    """A live page, from `DALIServer.dashboard`. A context manager; it also ends with the server.

    The page runs in a separate process, which reads the server's reports. So it takes no time of the training.

    Args:
        path: path of the server's socket.
        port: TCP port on the loopback interface; 0 for a free one.

    Raises:
        ProxyError: the port isn't free, or the process can't start.

    Attributes:
        url: address of the page. It contains a token; anyone on this machine who knows it can see the page.
    """

    def __init__(self, path: str, port: int = 0) -> None:
        with deferred_signals:
            self._process = subprocess.Popen(
                [interpreter_path(), "-c", _PROGRAM, path, str(port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=child_environment(),
                cwd="/",  # nothing there shadows a module
                start_new_session=True,
            )
        assert self._process.stdout is not None
        try:
            line = self._process.stdout.readline().decode().strip()
        except BaseException:
            self.close()
            raise
        if not line.startswith("http:"):
            self.close()
            raise ProxyError(f"the page can't start: {line or 'see the output of its process above'}")
        self.url = line

    def close(self) -> None:
        """End the page. Further calls do nothing."""
        process = self._process
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank" rel="noreferrer">{self.url}</a>'

    def __repr__(self) -> str:
        return f"<Dashboard {self.url}>"
