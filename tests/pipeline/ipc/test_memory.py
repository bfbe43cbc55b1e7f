from __future__ import annotations

import fcntl
import os
import resource
import tempfile

import numpy as np
import pytest

from dali_proxy.pipeline._ipc import memory
from dali_proxy.pipeline._ipc.errors import DescriptorLimitError, IPCError, ProtocolError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from tests.pipeline.ipc.processes import Child


def mapped(block_address: int) -> bool:
    with open("/proc/self/maps") as maps:
        return any(int(line.split("-")[0], 16) == block_address for line in maps)


def test_mappings_share_their_bytes():
    with SharedBlock.create(10_000) as block, SharedBlock.attach(os.dup(block.fd), 10_000) as other:
        block.array[9_999] = 7
        assert other.array[9_999] == 7
        assert other.array.shape == (10_000,)


def test_block_has_no_name_and_is_not_inherited_by_programs():
    with SharedBlock.create(1) as block:
        assert os.readlink(f"/proc/self/fd/{block.fd}").startswith("/memfd:")
        assert not os.get_inheritable(block.fd)


def test_size_is_final():
    with SharedBlock.create(8192) as block:
        for size in (0, 4096, 16384):
            with pytest.raises(PermissionError):
                os.ftruncate(block.fd, size)


def test_mapping_lives_as_long_as_a_view_and_needs_no_descriptor():
    block = SharedBlock.create(4096)
    address = block.address
    view = block.array[100:200].view(np.int32)
    block.close()
    assert block.fd == -1
    view[:] = 5
    assert mapped(address)
    del view
    assert not mapped(address)
    with pytest.raises(IPCError, match="closed"):
        _ = block.array


def test_readonly_block_gives_a_readonly_array():
    with SharedBlock.create(64) as block:
        other = SharedBlock.attach(os.dup(block.fd), 64, writable=False)
        with pytest.raises(ValueError, match="read-only"):
            other.array[0] = 1
        other.close()


def hostile_descriptors():
    fd = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096)
    yield "unsealed", fd
    fd = os.memfd_create("half", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    yield "may shrink", fd
    with SharedBlock.create(8192) as block:
        yield "another size", os.dup(block.fd)
    reader, writer = os.pipe()
    os.close(writer)
    yield "a pipe", reader
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        yield "a file", os.dup(file.fileno())
    yield "the null device", os.open(os.devnull, os.O_RDWR)


def test_attach_refuses_and_closes_dangerous_descriptors():
    for what, fd in hostile_descriptors():
        with pytest.raises(ProtocolError):
            SharedBlock.attach(fd, 4096)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        assert what


def test_forked_child_shares_the_block():
    with SharedBlock.create(16) as block:

        def write() -> None:
            block.array[3] = 33

        Child(write).join()
        assert block.array[3] == 33


def test_memory_has_no_name_without_memfd_either(monkeypatch):
    monkeypatch.setattr(memory, "_HAVE_MEMFD", False)
    before = set(os.listdir("/dev/shm"))
    with SharedBlock.create(5000) as block, SharedBlock.attach(os.dup(block.fd), 5000) as other:
        block.array[4999] = 1
        assert other.array[4999] == 1
        assert not os.get_inheritable(block.fd)
        assert set(os.listdir("/dev/shm")) == before


def test_running_out_of_descriptors_names_the_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(fd) for fd in os.listdir("/proc/self/fd"))
    blocks = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 3, hard))
        with pytest.raises(DescriptorLimitError, match="ulimit -n"):
            blocks.extend(SharedBlock.create(1) for _ in range(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for block in blocks:
            block.close()


@pytest.mark.parametrize("nbytes", [0, -1])
def test_block_needs_a_size(nbytes):
    with pytest.raises(ValueError, match="above 0"):
        SharedBlock.create(nbytes)


def test_pages_are_allocated_by_the_first_write() -> None:
    """So a page is on the NUMA node of the thread that writes a sample or a result, not of the one that creates it."""
    with SharedBlock.create(1 << 24) as block, SharedBlock.attach(os.dup(block.fd), 1 << 24) as peer:
        assert os.fstat(block.fd).st_blocks == 0
        peer.array[0] = 1
        assert 0 < os.fstat(block.fd).st_blocks * 512 < 1 << 24
