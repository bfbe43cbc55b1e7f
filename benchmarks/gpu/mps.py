"""NVIDIA's Multi-Process Service: processes that share a GPU run kernels concurrently instead of in turn."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = "nvidia-cuda-mps-control"
PATIENCE = 30.0


class NoMpsError(RuntimeError):
    """The service can't start on this machine."""


@contextmanager
def multi_process_service() -> Iterator[None]:
    """Run the service: processes that start inside of the context use the GPU through it, all others as before.

    Raises:
        NoMpsError: It isn't installed, or doesn't start.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise NoMpsError(f"{PROGRAM} is not installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        places = {f"CUDA_MPS_{name}_DIRECTORY": str(Path(folder) / name.lower()) for name in ("PIPE", "LOG")}
        for place in places.values():
            Path(place).mkdir()
        before = {name: os.environ.get(name) for name in places}
        os.environ.update(places)
        try:
            _control(program, "-d")
            try:
                yield
            finally:
                _control(program, words="quit -t 5\n")
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _control(program: str, *arguments: str, words: str = "") -> None:
    try:
        # The daemon keeps its output open as long as it lives, so don't wait for the end of the output.
        done = subprocess.run(
            [program, *arguments], input=words, text=True, timeout=PATIENCE, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoMpsError(f"{PROGRAM} does not work here: {error}") from None
    if done.returncode:
        raise NoMpsError(f"{PROGRAM} ended with status {done.returncode}")
