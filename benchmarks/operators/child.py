"""Run one library in a separate process, so that a crash or hang of one case doesn't end the others."""

from __future__ import annotations

import multiprocessing
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from benchmarks import child
from benchmarks.operators.cases import Case
from benchmarks.operators.side import OutputSummary, Side, Timing

#: Seconds that a case may take to start, and to answer after its measurement.
PATIENCE = 30.0


class SideError(RuntimeError):
    """A case failed on one side."""


class Child:
    """A `Side` in a process, which restarts after a crash or a hang.

    Args:
        name: name of the library.
        folder: folder from `data.write_files`.
        threads: threads of the pipelines.
        on_gpu: whether operators run on GPU 0.
    """

    def __init__(self, name: str, folder: Path, threads: int, on_gpu: bool) -> None:
        self.name = name
        self._arguments = (name, folder, threads, on_gpu)
        self._start()

    def open(self, case: Case) -> list[OutputSummary]:
        """Create the pipeline of a case and run one batch.

        Raises:
            SideError: it failed, or didn't answer in time.
        """
        answer = self._ask("open", case, patience=PATIENCE)
        assert isinstance(answer, list)
        return answer

    def measure(self, seconds: float) -> Timing:
        """Take batches for a given time. Raise as `open` does."""
        answer = self._ask("measure", seconds, patience=seconds + PATIENCE)
        assert isinstance(answer, Timing)
        return answer

    def trace(self) -> float:
        """Return the milliseconds that the GPU works for one batch. Raise as `open` does."""
        answer = self._ask("trace", patience=PATIENCE)
        assert isinstance(answer, float)
        return answer

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(5)
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        context = multiprocessing.get_context(child.START_METHOD)
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(*self._arguments, other), daemon=True)
        self._process.start()
        other.close()

    def _ask(self, method: str, *arguments: Case | float, patience: float) -> object:
        try:
            self._connection.send((method, arguments))
            if not self._connection.poll(patience):
                raise SideError(f"no answer in {patience:.0f} s")
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._restart()
            raise SideError("the process died") from None
        except SideError:
            self._restart()
            raise
        if isinstance(answer, str):
            raise SideError(answer)
        return answer

    def _restart(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._start()


def _serve(name: str, folder: Path, threads: int, on_gpu: bool, connection: Connection) -> None:
    side: Side | None = None
    while True:
        try:
            method, arguments = connection.recv()
        except EOFError:  # the parent needs no more
            break
        answer: object
        try:
            if side is None:
                side = Side(name, folder, threads, on_gpu)
            answer = getattr(side, method)(*arguments)
        except Exception as error:  # noqa: BLE001 - every exception of a library is reported to the parent
            lines = str(error).strip().splitlines()
            answer = f"{type(error).__name__}: {lines[0] if lines else traceback.format_exc(limit=-1)}"
        try:
            connection.send(answer)
        except OSError:  # the parent has left
            break
    if side is not None:
        side.close()
