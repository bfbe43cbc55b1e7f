"""Files behind a slow store that fails: what 5 % of errors cost beside a store without errors.

``python -m benchmarks.remote`` starts two web servers on this machine that answer after 50 ms: one without errors, and
one with errors for 5 % of its requests. Two pipelines read their files in turn with `io.file.read`. The program checks
the bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.machine import describe_machine
from dali_proxy.pipeline import Pipeline, fn
from dali_proxy.pipeline._remote.totals import remote_totals

BATCH, DEPTH = 64, 8
SIZE = 20_000  # bytes of a file


def serve(latency: float, errors: float, port: Connection) -> None:
    """Answer requests of HTTP after a while, a part of them with errors."""
    chance = random.Random(1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readline():
            while (await reader.readline()).strip():
                pass
            await asyncio.sleep(latency)
            number = int(request.split()[1].rpartition(b"/")[2])
            fails = chance.random() < errors
            content = b"" if fails else content_of(number)
            status = b"500 Internal Server Error" if fails else b"200 OK"
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(content), content))
            await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def content_of(number: int) -> bytes:
    """Return the content of a file."""
    return number.to_bytes(4, "little") * (SIZE // 4)


class Reading:
    """A pipeline that reads files of a store.

    Args:
        latency: seconds of an answer.
        errors: part of the requests that fail.
    """

    def __init__(self, latency: float, errors: float) -> None:
        ours, theirs = multiprocessing.Pipe()
        self._store = multiprocessing.Process(target=serve, args=(latency, errors, theirs), daemon=True)
        self._store.start()
        self._root = f"http://127.0.0.1:{ours.recv()}"
        self._next = 0

        def urls() -> list[Any]:
            numbers = range(self._next, self._next + BATCH)
            self._next += BATCH
            return [np.frombuffer(f"{self._root}/{number}".encode(), np.uint8) for number in numbers]

        self._pipe = Pipeline(BATCH, 2, None, seed=1, prefetch_queue_depth=DEPTH)
        with self._pipe:
            self._pipe.set_outputs(fn.io.file.read(fn.external_source(urls)))
        self._taken = 0

    def run(self, seconds: float) -> tuple[float, float]:
        """Take batches for a while. Return files per second, and milliseconds of processor time for each."""
        begin, spent, first = time.perf_counter(), time.process_time(), self._taken
        while time.perf_counter() < begin + seconds:
            (files,) = self._pipe.run()
            for number, file in enumerate(files, self._taken):
                assert np.asarray(file).tobytes() == content_of(number)
            self._taken += BATCH
        count = self._taken - first
        return count / (time.perf_counter() - begin), (time.process_time() - spent) / count * 1e3

    def close(self) -> None:
        """End the pipeline and the store."""
        self._pipe.close()
        self._store.terminate()
        self._store.join()


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each store")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of a turn")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds of an answer")
    parser.add_argument("--errors", type=float, default=0.05, help="part of the requests that fail")
    options = parser.parse_args()
    stores = {f"{errors:.0%} errors": Reading(options.latency, errors) for errors in (0.0, options.errors)}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in stores}
    for number in range(options.rounds + 1):
        for name, reading in stores.items() if number % 2 else reversed(stores.items()):
            result = reading.run(options.seconds)
            if number:  # the first turn finds the number of requests
                found[name].append(result)
    for reading in stores.values():
        reading.close()
    print(f"{describe_machine()}\n")
    print("| store | files/s | of the first | processor time of a file |\n| --- | ---: | ---: | ---: |")
    rates = {name: statistics.median(rate for rate, _ in each) for name, each in found.items()}
    first = next(iter(rates.values()))
    for name, each in found.items():
        cost = statistics.median(cost for _, cost in each)
        print(f"| {name} | {rates[name]:,.0f} | {rates[name] / first:.0%} | {cost:.2f} ms |")
    totals = remote_totals()
    print(f"\n{totals['remote_limit']} requests at once at most, {totals['remote_repeats']:,} sent again")


if __name__ == "__main__":
    main()
