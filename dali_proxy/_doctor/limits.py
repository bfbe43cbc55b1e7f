"""Checks of the limits of this process and of its ability to start others."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from dali_proxy._doctor.check import Check

_SHM = Path("/dev/shm")
_LEAST_SHM = 1 << 30  # bytes; the default of Docker is 64 MiB
_LEAST_FILES = 4096
_LEAST_LOCKED = 1 << 30  # bytes
_PATIENCE = 20.0  # seconds for a forked process to end


def check_limits() -> Iterator[Check]:
    """Check shared memory, open files, locked memory and forking."""
    yield _memfd()
    yield shared_memory(_SHM)
    yield file_descriptors(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield locked_memory(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    yield forking(multiprocessing.get_context().get_start_method())


def _memfd() -> Check:
    if hasattr(os, "memfd_create"):
        return Check("shared memory", "ok", "memfd")
    return Check("shared memory", "optional", "memfd_create is missing: files in /dev/shm are used", "update Linux")


def shared_memory(folder: Path) -> Check:
    """Check the size of ``/dev/shm``."""
    try:
        sizes = os.statvfs(folder)
    except OSError as error:
        return Check("/dev/shm", "warning", str(error), "mount it: torch's workers send tensors through it")
    size = sizes.f_frsize * sizes.f_blocks
    if size >= _LEAST_SHM:
        return Check("/dev/shm", "ok", _size(size))
    return Check(
        "/dev/shm",
        "warning",
        f"{_size(size)}: dali-proxy uses memfd instead, but torch's workers send the other tensors of samples through "
        "it, and end with a bus error if it is full",
        "docker run --shm-size=8g (or --ipc=host); in Kubernetes, an emptyDir of medium Memory at /dev/shm",
    )


def file_descriptors(soft: int, hard: int) -> Check:
    """Check the limit of open files."""
    detail = f"{_count(soft)}, at most {_count(hard)}"
    if hard == resource.RLIM_INFINITY or hard >= _LEAST_FILES:
        return Check("file descriptors", "ok", f"{detail}; the server raises its own limit")
    return Check(
        "file descriptors",
        "warning",
        f"{detail}: batches in flight and workers hold several each",
        "docker run --ulimit nofile=65536:65536; or LimitNOFILE= of the service, or /etc/security/limits.conf",
    )


def locked_memory(limit: int) -> Check:
    """Check the limit of locked memory."""
    if limit == resource.RLIM_INFINITY or limit >= _LEAST_LOCKED:
        return Check("memlock", "ok", _size(limit))
    return Check(
        "memlock",
        "optional",
        f"{_size(limit)}: enough here, because CUDA's pinned memory doesn't count, but NCCL over InfiniBand needs more",
        "only for InfiniBand: docker run --ulimit memlock=-1; or LimitMEMLOCK=infinity of the service",
    )


def forking(start_method: str) -> Check:
    """Fork a process that computes, as a dataset worker does, and report how workers start by default."""
    process = multiprocessing.get_context("fork").Process(target=_compute)
    try:
        process.start()
    except OSError as error:
        return Check(
            "fork", "warning", f"fails: {error}", "free memory, or allow it: sysctl vm.overcommit_memory=1, ulimit -u"
        )
    process.join(_PATIENCE)
    if process.exitcode is None:
        process.kill()
        process.join()
    if process.exitcode:
        return Check(
            "fork",
            "warning",
            "a forked process hangs or dies in a library that was used before",
            'pass multiprocessing_context="forkserver" to DataLoader',
        )
    if start_method == "fork":
        return Check("fork", "ok", "works, and is the default of workers: create them before your code uses threads")
    return Check(
        "fork",
        "ok",
        f'works, but workers start by "{start_method}"',
        'put the script\'s code below `if __name__ == "__main__":`, so that workers can import it',
    )


def _compute() -> None:
    try:
        import cv2
        import numpy as np
    except ImportError:
        return  # another check reports it

    image = np.zeros((512, 512, 3), np.uint8)
    cv2.resize(image, (256, 256))


def _count(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else f"{limit:,}"


def _size(limit: int) -> str:
    if limit == resource.RLIM_INFINITY:
        return "unlimited"
    return f"{limit / 2**30:,.1f} GiB" if limit >= 1 << 30 else f"{limit / 2**20:,.1f} MiB"
