"""Attack a server with hostile clients, and check continuously that it serves good clients.

The attacks depend only on the seed. Each round has a different seed, which is printed if the round fails.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter, deque
from contextlib import ExitStack

import psutil
import torch

from dali_proxy import DALIServer
from dali_proxy._transport.opener import ResultOpener
from dali_proxy._transport.protocol import CODEC, Result
from dali_proxy.pipeline._ipc.errors import IPCError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from tests.dali_proxy.hostile import Attacker, hostile_result, strange_fd, use_up_numbers
from tests.dali_proxy.indexed import affine, affine_of, sample

OPEN_AT_ONCE = 20  # number of connections that stay open after their attack
ANSWER_S = 20.0  # longest wait of a good client, even on a busy machine
SETTLED = 3000  # number of connections before the first measurement of the server's size
MORE_DESCRIPTORS = 600  # allowed growth at the end: unclaimed results keep up to 512
MORE_BYTES = 100 << 20


class Failed(Exception):
    """The server violated a requirement."""


def check_good_client(server: DALIServer, index: int) -> None:
    """Let the server compute one batch, and check it."""
    begin = time.monotonic()
    image = server.produce_data(server.proxy(sample(index)))
    if not torch.equal(image, torch.full((3,), affine_of(index), dtype=image.dtype)):
        raise Failed(f"sample {index} came as {image.tolist()}")
    if time.monotonic() - begin > ANSWER_S:
        raise Failed(f"a good client waited {time.monotonic() - begin:.1f} s")


def attack_server(server: DALIServer, seed: int, sent: Counter[str], left_open: deque[Attacker]) -> None:
    """Attack the server with one hostile connection."""
    attacker = Attacker(server.endpoint, random.Random(seed), sent)
    attacker.attack()
    left_open.append(attacker)
    while len(left_open) > OPEN_AT_ONCE:
        left_open.popleft().close()


def attack_consumer(seed: int, sent: Counter[str]) -> None:
    """Check that a consumer refuses a hostile answer of a server, or gets readable tensors from it."""
    rng = random.Random(seed)
    with ExitStack() as stack:
        control = SharedBlock.create(4096)
        stack.callback(control.close)
        control_fd = duplicate(control.fd)
        opener = ResultOpener((control_fd,), 4096)
        stack.callback(opener.close)
        for _ in range(rng.randrange(1, 4)):
            try:
                message = CODEC.decode(*hostile_result(rng))
                if isinstance(message, Result):
                    fds = tuple(
                        duplicate(strange_fd(rng, stack, good=0.9)) for _ in range(rng.choice((0, 1, 2, 2, 2, 3)))
                    )
                    for value in opener.receive(message, fds).tensors():
                        for tensor in value if isinstance(value, list) else [value]:
                            tensor.to(torch.float64).sum()
                sent["Result, opened"] += 1
            except IPCError:
                sent["Result, refused"] += 1


def duplicate(fd: int) -> int:
    """Duplicate a descriptor; the caller owns the duplicate."""
    return os.dup(fd)


def settled(server: DALIServer, process: psutil.Process) -> tuple[int, int, int]:
    """Wait until the server has noticed that the attackers are gone. Return its descriptors, threads and memory."""
    deadline = time.monotonic() + 20
    while server.stats().workers > 1:
        if time.monotonic() > deadline:
            raise Failed(f"the server still knows {server.stats().workers} workers")
        time.sleep(0.05)
    return process.num_fds(), process.num_threads(), process.memory_info().rss


def grown(before: tuple[int, int, int], after: tuple[int, int, int]) -> bool:
    """Return whether the server uses more resources than allowed."""
    descriptors, threads, nbytes = (now - then for now, then in zip(after, before, strict=True))
    return descriptors > MORE_DESCRIPTORS or threads > 0 or nbytes > MORE_BYTES


def attack(seconds: float, first: int) -> None:
    """Attack a server and clients, and print the numbers of messages.

    Args:
        seconds: how long.
        first: seed of the first round.

    Raises:
        Failed: the server violated a requirement.
    """
    seed = first
    sent: Counter[str] = Counter()
    left_open: deque[Attacker] = deque()
    end = time.monotonic() + seconds
    with DALIServer(affine(), unclaimed_bytes=4 << 20, arena_bytes_limit=64 << 20, timeout=30) as server:
        pid = server.pid
        process = psutil.Process(pid)
        before = (0, 0, 0)
        try:
            use_up_numbers(server.endpoint, 20)
            check_good_client(server, 0)
            while time.monotonic() < end:
                attack_server(server, seed, sent, left_open)
                attack_consumer(seed, sent)
                if seed % 10 == 0:
                    check_good_client(server, seed % 1000)
                if seed == first + SETTLED:
                    while left_open:
                        left_open.popleft().close()
                    before = settled(server, process)
                seed += 1
            while left_open:
                left_open.popleft().close()
            check_good_client(server, 1)
            after = settled(server, process)
            if server.pid != pid or not process.is_running():
                raise Failed("the server's process is another one")
            if before[0] and (grown(before, after)):
                raise Failed(f"descriptors, threads, bytes were {before} and are {after}")
        except BaseException:
            print(f"round {seed} (first {first}), after {sum(sent.values()):,} messages", file=sys.stderr)
            raise
    for kind, count in sorted(sent.items()):
        print(f"{count:10,}  {kind}")
    print(f"{sum(sent.values()):10,}  messages in {seed - first:,} connections, seeds {first} to {seed - 1}")
    print(f"descriptors, threads, bytes of the server: {before} after {SETTLED} connections, {after} at the end")
