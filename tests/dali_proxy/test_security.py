"""The server refuses hostile clients, serves the others, and frees all resources of the hostile ones."""

from __future__ import annotations

import os
import random
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy import DALIServer
from dali_proxy._transport.endpoint import monitor_path
from dali_proxy._transport.opener import ResultOpener
from dali_proxy._transport.protocol import (
    CODEC,
    AttachSegment,
    CloseSession,
    Fetch,
    Hello,
    OpenSession,
    Result,
    Submit,
)
from dali_proxy.pipeline._ipc.authentication import ClientHandshake
from dali_proxy.pipeline._ipc.errors import IPCError
from dali_proxy.pipeline._ipc.frames import MAX_BODY, encode_frame
from dali_proxy.pipeline._ipc.memory import SharedBlock
from tests.dali_proxy.hostile import Attacker, hostile_result, packed, strange_fd, use_up_numbers
from tests.dali_proxy.indexed import affine, affine_of, sample
from tests.waiting import PATIENCE_S, wait_until

ARENA = 1 << 16
OTHER_USER = 65534


@pytest.fixture(scope="module")
def victim() -> Iterator[DALIServer]:
    """Run a server in a separate process, with its good clients connected."""
    limits = {"unclaimed_bytes": 1 << 20, "arena_bytes": ARENA, "arena_bytes_limit": 1 << 20}
    with DALIServer(affine(), **limits, timeout=PATIENCE_S) as server:
        use_up_numbers(server.endpoint, 20)
        check_good_client(server, 0)
        yield server


@pytest.fixture
def attacker(victim: DALIServer) -> Iterator[Attacker]:
    """Connect a client that knows the key."""
    with Attacker(victim.endpoint, random.Random(0)) as made:
        made.shake_hands()
        yield made
    check_good_client(victim, 7)


def check_good_client(server: DALIServer, index: int) -> None:
    image = server.produce_data(server.proxy(sample(index)))
    assert torch.equal(image, torch.full((3,), affine_of(index), dtype=image.dtype))


def as_other_user(call: Callable[[], object]) -> str:
    """Run a function in a process of another user; return the name of the error that it raised."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            call()
            os.write(writer, b"none")
        except BaseException as error:  # noqa: BLE001
            os.write(writer, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        found = file.read().decode()
    os.waitpid(pid, 0)
    return found


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_process_of_another_user_reaches_nothing(victim: DALIServer) -> None:
    path, pid = Path(victim.endpoint.path), victim.pid

    def knock(socket_path: Path) -> None:
        """Connect, and wait for the greeting with the nonce: the server closes connections of other users."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            client.connect(str(socket_path))
            if not client.recv(100):
                raise ConnectionAbortedError

    sockets = [path, Path(monitor_path(str(path)))]
    for call in (
        lambda: os.listdir(path.parent),
        lambda: knock(sockets[0]),
        lambda: knock(sockets[1]),
        lambda: os.listdir(f"/proc/{pid}/fd"),
        lambda: Path(f"/proc/{pid}/environ").read_bytes(),
        lambda: os.open(f"/proc/{pid}/mem", os.O_RDONLY),
    ):
        assert as_other_user(call) == "PermissionError"  # type: ignore[arg-type]
    folder = os.open(path.parent, os.O_PATH)  # whose parents others may not enter, either
    open_to_all = [Path(f"/proc/self/fd/{folder}", each.name) for each in sockets]
    modes = {each: stat.S_IMODE(each.stat().st_mode) for each in (path.parent, *sockets)}
    try:
        for each in modes:
            each.chmod(0o777)
        for each in open_to_all:
            knock(each)
            assert as_other_user(lambda each=each: knock(each)) == "ConnectionAbortedError"  # type: ignore[misc]
    finally:
        os.close(folder)
        for each, mode in modes.items():
            each.chmod(mode)


@given(st.integers(0, 2**63))
@settings(max_examples=150, deadline=None)
def test_hostile_clients_of_all_kinds_do_not_end_the_server(victim: DALIServer, seed: int) -> None:
    pid = victim.pid
    with Attacker(victim.endpoint, random.Random(seed)) as attacker:
        attacker.attack()
        check_good_client(victim, seed % 1000)
    assert victim.pid == pid


@given(st.integers(0, 2**63))
@settings(max_examples=150, deadline=None)
def test_impossible_results_are_refused(seed: int) -> None:
    rng = random.Random(seed)
    with ExitStack() as stack:
        control = stack.enter_context(SharedBlock.create(4096))
        opener = ResultOpener((os.dup(control.fd),), 4096)
        stack.callback(opener.close)
        try:
            message = CODEC.decode(*hostile_result(rng))
            if isinstance(message, Result):
                values = opener.receive(message, [os.dup(strange_fd(rng, stack, good=0.9)) for _ in range(2)]).tensors()
                for value in values:
                    for tensor in value if isinstance(value, list) else [value]:
                        tensor.to(torch.float64).sum()
        except IPCError:
            return


def test_socket_is_for_this_user_only(victim: DALIServer) -> None:
    path = victim.endpoint.path
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert victim.endpoint.key.hex() not in repr(victim.endpoint)


def test_noise_after_the_proof_ends_the_connection(victim: DALIServer) -> None:
    """The noise arrives together with the proof, before the server has registered the client."""
    with Attacker(victim.endpoint, random.Random(0)) as attacker:
        handshake = ClientHandshake(victim.endpoint.key)
        attacker.sock.sendall(handshake.proof(attacker._read(handshake.greeting_size)) + b"\xff" * 100)
        assert attacker.closed_by_server()
    check_good_client(victim, 3)


def test_first_message_must_name_its_sender(attacker: Attacker) -> None:
    attacker.say(Fetch(1, 1))
    assert attacker.closed_by_server()


def test_other_roles_are_refused(attacker: Attacker) -> None:
    attacker.say(Hello(role="king", pid=1, name=""))
    assert attacker.closed_by_server()


def test_consumers_must_not_submit(attacker: Attacker) -> None:
    attacker.say(Hello(role="consumer", pid=1, name=""))
    attacker.say(AttachSegment(0, ARENA))
    assert attacker.closed_by_server()


def test_frames_that_are_too_large_are_refused_by_their_header(attacker: Attacker) -> None:
    attacker.sock.sendall((MAX_BODY + 1).to_bytes(4, "little") + bytes(4))
    assert attacker.closed_by_server()


def test_unwanted_descriptors_are_closed(victim: DALIServer) -> None:
    process = psutil.Process(victim.pid)
    wait_until(lambda: victim.stats().workers == 1)
    before = process.num_fds()
    for count in (0, 2, 60):
        with Attacker(victim.endpoint, random.Random(0)) as attacker, SharedBlock.create(ARENA) as block:
            attacker.shake_hands()
            attacker.say(Hello(role="worker", pid=1, name=""), *[block.fd] * min(count, 2))
            attacker.say(AttachSegment(0, ARENA), *[block.fd] * count)
            assert attacker.closed_by_server()
    wait_until(lambda: process.num_fds() <= before)


@pytest.mark.parametrize(
    "row",
    [
        (0, ARENA - 11, 3),
        (0, -64, 3),
        (0, 2**63 - 64, 3),
        (0, 0, -3),
        (0, 0, 2**62),
        (1, 0, 3),
        (0, 1, 3),
        (0, 0, 2**62, 4),  # wraps around to 0
        (0, 0, 0, 2**47, 2**47),  # no bytes, but dimensions too large for an array
    ],
)
def test_samples_outside_of_their_memory_are_refused(
    victim: DALIServer, attacker: Attacker, row: tuple[int, ...]
) -> None:
    waiting = victim.stats().waiting_results
    attacker.say(Hello(role="worker", pid=1, name=""))
    with SharedBlock.create(ARENA) as block:
        attacker.say(AttachSegment(0, ARENA), block.fd)
    attacker.say(
        Submit(
            seq=0,
            session=9,
            epoch=0,
            batch=0,
            view=0,
            batch_size=1,
            indices="",
            inputs=(packed("int32", [row]),),
        )
    )
    assert attacker.closed_by_server()
    wait_until(lambda: victim.stats().waiting_results <= waiting + 1)  # the failure message


def test_memory_is_limited_to_the_agreed_size(attacker: Attacker) -> None:
    attacker.say(Hello(role="worker", pid=1, name=""))
    with SharedBlock.create(2 << 20) as block:
        attacker.say(AttachSegment(0, 2 << 20), block.fd)
    assert attacker.closed_by_server()


def test_client_ends_only_its_iterators(victim: DALIServer, attacker: Attacker) -> None:
    attacker.say(Hello(role="consumer", pid=1, name=""))
    attacker.say(CloseSession(0))  # the session of clients that have opened none
    attacker.say(OpenSession(0))
    assert attacker.closed_by_server()


def test_memory_of_the_server_for_a_client_is_limited(attacker: Attacker) -> None:
    attacker.say(Hello(role="consumer", pid=1, name=""))
    frames = b"".join(encode_frame(*CODEC.encode(OpenSession(session)), 0) for session in range(1, 70_000))
    try:
        attacker.sock.sendall(frames)
    except ConnectionError:
        return
    assert attacker.closed_by_server()


def test_batch_that_claims_another_size(victim: DALIServer, attacker: Attacker) -> None:
    attacker.say(Hello(role="worker", pid=1, name=""))
    with SharedBlock.create(ARENA) as block:
        attacker.say(AttachSegment(0, ARENA), block.fd)
    rows: Any = [(0, 0, 3)] * 2
    attacker.say(
        Submit(
            seq=0,
            session=0,
            epoch=0,
            batch=0,
            view=0,
            batch_size=1,
            indices="",
            inputs=(packed("int32", rows),),
        )
    )
    assert attacker.closed_by_server()
