"""Messages of broken or hostile clients: valid messages, changed in every known way."""

from __future__ import annotations

import os
import random
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import msgpack
import numpy as np

from dali_proxy._transport.endpoint import Endpoint
from dali_proxy._transport.fields import DTYPES
from dali_proxy._transport.protocol import (
    CODEC,
    AttachSegment,
    BatchRead,
    CloseSession,
    DetachSegment,
    Fetch,
    Hello,
    InputBatch,
    OpenSession,
    ReadBatch,
    Release,
    StatsRequest,
    Submit,
)
from dali_proxy.pipeline._ipc.authentication import ClientHandshake
from dali_proxy.pipeline._ipc.frames import encode_frame
from dali_proxy.pipeline._ipc.memory import SharedBlock
from tests.fuzz.mutation import NUMBERS

INT64 = tuple(number for number in NUMBERS if -(2**63) <= number < 2**63)
ARENA_BYTES = 1 << 16


def strange(rng: random.Random) -> Any:
    """Return a value that is invalid for a field, or at the limit of its range."""
    return rng.choice(
        (
            lambda: rng.choice(NUMBERS),
            lambda: rng.randbytes(rng.choice((0, 1, 7, 8, 16, 24, 4096, 70_000))),
            lambda: "x" * rng.choice((0, 1, 33, 257, 5000)),
            lambda: rng.choice(("worker", "consumer", "uint8", "float64", "object", "\x00", "../../etc", "ä" * 40)),
            lambda: rng.choice((None, True, False, 1.5, float("nan"), float("inf"))),
            lambda: [strange(rng) for _ in range(rng.choice((0, 1, 2, 9)))],
            lambda: {"key": 1},
        )
    )()


def packed(dtype: str, rows: Sequence[Sequence[int]]) -> InputBatch:
    """Return the samples of an input from rows ``(segment, offset, *shape)`` of the same length."""
    table = np.array(rows, np.int64)
    return InputBatch(dtype, table.shape[1] - 2, table.tobytes())


def table(rng: random.Random) -> InputBatch:
    """Return the samples of an input: offsets and shapes, a few of them impossible."""
    dtype = rng.choice([*DTYPES, "uint8", "uint8", "object", "float128", ""])
    columns = 2 + rng.choice((0, 1, 1, 2, 3, 16, 17))
    rows = []
    for _ in range(rng.choice((1, 1, 2, 16, 17, 300))):
        row = [rng.choice((0, 0, 0, 1)), 64 * rng.randrange(20), *(rng.randrange(5) for _ in range(columns - 2))]
        if rng.random() < 0.3:
            row[rng.randrange(columns)] = rng.choice(INT64)
        rows.append(row)
    return packed(dtype, rows)


def good_submit(rng: random.Random, seq: int) -> Submit:
    """Return a batch that the server can run if an arena is attached."""
    count = rng.randrange(1, 9)
    rows = [(0, 64 * place, 3) for place in range(count)]
    return Submit(
        seq=seq,
        session=rng.choice((0, 5)),
        epoch=rng.randrange(3),
        batch=seq,
        view=0,
        batch_size=count,
        indices="",
        inputs=(packed("int32", rows),),
    )


def messages_of_worker(rng: random.Random) -> Iterator[Any]:
    """Yield messages of a worker, in a roughly plausible order."""
    yield Hello(role="worker", pid=os.getpid(), name="fuzz")
    if rng.random() < 0.9:
        yield AttachSegment(0, rng.choice((ARENA_BYTES, ARENA_BYTES, ARENA_BYTES, 1, 0, 2**40, 2**63)))
    seq = 0
    for _ in range(rng.randrange(12)):
        kind = rng.random()
        if kind < 0.6:
            yield good_submit(rng, seq)
            seq += 1
        elif kind < 0.75:
            number = rng.choice((seq, seq, seq + 1, 0, 2**64 - 1))
            inputs = tuple(table(rng) for _ in range(rng.choice((1, 1, 1, 0, 2))))
            size = rng.choice((len(inputs[0].table) // 8 // (2 + inputs[0].ndim) if inputs else 0, 0, 1, 2**32 - 1))
            yield Submit(
                seq=number,
                session=rng.choice((0, 5, 2**64 - 1)),
                epoch=2**64 - 1,
                batch=2**64 - 1,
                view=2**32 - 1,
                batch_size=size,
                indices="é\0",
                inputs=inputs,
            )
            seq += 1
        elif kind < 0.85:
            yield Release.pack([(rng.choice((1, 2, 3, 2**64 - 1)), rng.choice((0, seq, 2**64 - 1))) for _ in range(5)])
        else:
            yield rng.choice(
                (
                    DetachSegment(0),
                    DetachSegment(9),
                    AttachSegment(1, ARENA_BYTES),
                    Hello(role="worker", pid=0, name="again"),
                )
            )


def messages_of_consumer(rng: random.Random) -> Iterator[Any]:
    """Yield messages of a consumer."""
    roles = ("consumer", "consumer", "consumer", "consumer", "dataset worker", "pool", "king")
    yield Hello(role=rng.choice(roles), pid=os.getpid(), name="fuzz")
    for _ in range(rng.randrange(20)):
        client, seq = rng.choice((0, 1, 2, 3, 4, 2**64 - 1)), rng.choice((0, 1, 2, 5, 2**64 - 1))
        yield rng.choice(
            (
                Fetch(client, seq),
                Fetch(client, seq),
                Release.pack([(client, seq)]),
                OpenSession(seq),
                CloseSession(rng.choice((seq, 0, 5))),
                StatsRequest(seq),
                DetachSegment(1),
                ReadBatch(
                    number=seq,
                    session=rng.choice((seq, 5)),
                    request=b"request",
                    reader_nbytes=rng.choice((0, 7, 2**63)),
                ),
                BatchRead(number=seq, lengths=(1, 2**63), data=b"abc", error=rng.choice(("", "error"))),
            )
        )


def mutated(rng: random.Random, message: Any) -> tuple[int, bytes]:
    """Replace one value of a message, at any depth, and return the message's type number and bytes."""
    number, body = CODEC.encode(message)
    wire = msgpack.unpackb(body)
    node = wire
    while node:
        place = rng.randrange(len(node))
        if isinstance(node[place], list) and node[place] and rng.random() < 0.7:
            node = node[place]
            continue
        node[place] = strange(rng)
        break
    return rng.choice((number, number, number, rng.randrange(22))), msgpack.packb(wire)


def damaged(rng: random.Random, frame: bytes) -> bytes:
    """Return a frame with a few bytes changed, missing, added or repeated."""
    data = bytearray(frame)
    kind = rng.randrange(5)
    if kind == 0:
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        data[:4] = (rng.choice(NUMBERS) % 2**32).to_bytes(4, "little")
    elif kind == 3:
        data[6:8] = (rng.choice(NUMBERS) % 2**16).to_bytes(2, "little")
    else:
        place = rng.randrange(len(data))
        data[place:place] = rng.randbytes(rng.randrange(1, 40))
    return bytes(data)


def strange_fd(rng: random.Random, stack: ExitStack, good: float = 0.4) -> int:
    """Return a descriptor that may not be the announced shared memory."""
    kind = rng.randrange(3, 8)
    if rng.random() < good:
        block = SharedBlock.create(ARENA_BYTES)
        stack.callback(block.close)
        return block.fd
    if kind == 3:
        fd = os.open("/dev/null", os.O_RDWR)
    elif kind == 4:
        fd = os.open("/", os.O_RDONLY)
    elif kind == 5:
        fd = os.memfd_create("unsealed")  # it could shrink under the server
        os.ftruncate(fd, ARENA_BYTES)
    elif kind == 6:
        fd, other = os.pipe()
        os.close(other)
    else:
        fd = os.eventfd(0)
    stack.callback(os.close, fd)
    return fd


class Attacker:
    """One connection of a client that knows the key and violates the protocol.

    Args:
        endpoint: address of the server.
        rng: random generator, which alone determines the attack.
        sent: numbers of sent messages, by kind.
    """

    def __init__(self, endpoint: Endpoint, rng: random.Random, sent: Counter[str] | None = None) -> None:
        self.rng = rng
        self.sent: Counter[str] = Counter() if sent is None else sent
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(30)
        self.sock.connect(endpoint.path)
        self._key = endpoint.key

    def shake_hands(self) -> None:
        """Identify itself like a good client."""
        handshake = ClientHandshake(self._key)
        self.sock.sendall(handshake.proof(self._read(handshake.greeting_size)))
        handshake.check(self._read(handshake.answer_size))

    def attack(self) -> None:
        """Send messages until the server closes the connection or none is left."""
        rng = self.rng
        try:
            if rng.random() < 0.1:
                self.sent["unauthenticated"] += 1
                self.sock.sendall(rng.randbytes(rng.choice((1, 31, 64, 65, 5000))))
                return
            self.shake_hands()
            speak = messages_of_worker if rng.random() < 0.6 else messages_of_consumer
            hostility = rng.choice((0.0, 0.05, 0.3))
            for message in speak(rng):
                self._say(message, hostility)
                if rng.random() < 0.1:
                    self._drain()
        except (ConnectionError, TimeoutError):
            self.sent["refused"] += 1

    def say(self, message: Any, *fds: int) -> None:
        """Send a message like a good client."""
        number, body = CODEC.encode(message)
        socket.send_fds(self.sock, [encode_frame(number, body, len(fds))], fds)

    def closed_by_server(self, timeout: float = 30) -> bool:
        """Return whether the server closes the connection in time; discard everything that it sends until then."""
        self.sock.settimeout(timeout)
        try:
            while self.sock.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Attacker:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _say(self, message: Any, hostility: float) -> None:
        rng, kind = self.rng, type(message).__name__
        with ExitStack() as stack:
            fds = []
            if isinstance(message, AttachSegment | ReadBatch) or rng.random() < hostility / 4:
                fds = [strange_fd(rng, stack) for _ in range(rng.choice((1, 1, 1, 1, 0, 2, 60)))]
            change = rng.random()
            if change < hostility / 2:
                number, body = mutated(rng, message)
                frame = encode_frame(number, body, len(fds))
                kind += ", a value changed"
            else:
                frame = encode_frame(*CODEC.encode(message), len(fds))
                if change < hostility:
                    frame = damaged(rng, frame)
                    kind += ", damaged"
            self.sent[kind] += 1
            socket.send_fds(self.sock, [frame], fds)

    def _drain(self) -> None:
        self.sock.setblocking(False)
        try:
            _, fds, _, _ = socket.recv_fds(self.sock, 1 << 16, 64)
            for fd in fds:
                os.close(fd)
        except BlockingIOError:
            pass
        finally:
            self.sock.settimeout(30)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.sock.recv(size - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return data


def use_up_numbers(endpoint: Endpoint, count: int) -> None:
    """Let the server assign its first client numbers to clients that end immediately.

    Clients that know the key may fetch and drop the batches of all clients. Attackers do so with the lowest numbers;
    good clients that connect later have higher numbers.
    """
    for _ in range(count):
        with Attacker(endpoint, random.Random(0)) as attacker:
            attacker.shake_hands()
            attacker.say(Hello(role="consumer", pid=os.getpid(), name="short"))
            attacker.sock.recv(1)


def hostile_result(rng: random.Random) -> tuple[int, bytes]:
    """Return a result of a broken server, with offsets and shapes that may be impossible."""
    from dali_proxy._transport.protocol import OutputBatch, Result

    outputs = []
    for _ in range(rng.randrange(1, 3)):
        ndim = rng.choice((0, 1, 2, 2, 2, 2, 16, 17))
        rows = [
            [_or_strange(rng, 64 * rng.randrange(4)), *(_or_strange(rng, rng.randrange(5)) for _ in range(ndim))]
            for _ in range(rng.choice((1, 1, 2, 5)))
        ]
        outputs.append(
            OutputBatch(
                device=rng.choice(("cpu",) * 12 + ("cuda", "local", "tape")),
                device_id=rng.choice((0, 65535)),
                dtype=rng.choice([*DTYPES, "object"]),
                layout="HWC",
                dense=len(rows) == 1 or rng.random() < 0.1,
                ndim=ndim,
                table=np.array(rows, np.int64).tobytes(),
                slot=rng.choice((0,) * 9 + (1, 2**24, 2**32 - 1)),
                generation=rng.choice((1, 2, 127, 1, 2, 127, 128, 255)),
                nbytes=rng.choice((ARENA_BYTES,) * 9 + (0, 1, 2**63)),
                attach=rng.random() < 0.9,
                handle=rng.choice((b"", bytes(192))),
            )
        )
    message = Result(
        client=1,
        seq=2,
        outputs=tuple(outputs),
        detached=tuple(rng.choice((0, 1, 2**32 - 1)) for _ in range(rng.randrange(3))),
    )
    return mutated(rng, message) if rng.random() < 0.3 else CODEC.encode(message)


def _or_strange(rng: random.Random, number: int) -> int:
    return rng.choice(INT64) if rng.random() < 0.1 else number
