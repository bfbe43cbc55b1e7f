"""Train with two loaders while random faults are injected, and check every sample of every batch.

    python -m tests.soak --seconds 1800
    python -m tests.soak --seconds 20 --every 0.5 --seed 17
    python -m tests.soak --seconds 7200 --gpu
    python -m tests.soak --slow-consumer 20000

One loader reads its dataset in order and requires every batch; the other one shuffles and skips bad samples. Each
sample carries its index through the pipeline, so that swapped, lost, repeated or stale samples are detected. The seed
determines the faults; their exact times depend on the machine. With `--gpu`, images and numbers also go through stages
on a GPU, which host memory and a host compiler emulate: see `tests.host_cupy`.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import torch

from dali_proxy import BatchError, DALIServer, DataLoader, WorkerDiedError
from pipeline import Pipeline, fn, pipeline_def
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine, jpeg, sample

BATCH = 8
BAD = frozenset(range(7, 100_000, 31))  # indices of corrupt images
STUCK_S = 90.0  # a loop without a batch for this time counts as hanging
MORE_BYTES = 60 << 20  # allowed growth of the training's memory after its first quarter
MORE_DESCRIPTORS = 64


class Failed(Exception):
    """A requirement was violated."""


@pipeline_def(num_threads=2, device_id=None, batch_size=BATCH, seed=3)
def images_and_numbers() -> Any:
    """Return images whose brightness is their index modulo 200, and the indices themselves."""
    return fn.decoders.image(fn.external_source(name="encoded"), device="cpu"), fn.external_source(name="x") * 3 + 7


@pipeline_def(num_threads=2, device_id=0, batch_size=BATCH, seed=3)
def through_gpu() -> Any:
    """Return the same from a GPU: it resizes and mirrors the images."""
    images = fn.decoders.image(fn.external_source(name="encoded"), device="cpu").gpu()
    images = fn.flip(fn.resize(images, size=(24, 20)), horizontal=fn.random.coin_flip())
    return images.cpu(), (fn.external_source(name="x").gpu() * 3 + 7).cpu()


@contextmanager
def emulated_gpu() -> Iterator[None]:
    """Give processes that start inside the block the stand-in for CuPy: Python imports `sitecustomize` at its start."""
    with TemporaryDirectory(prefix="soak-") as folder:
        program = "from tests import host_cupy\nkept = host_cupy.installed()\nkept.__enter__()\n"
        Path(folder, "sitecustomize.py").write_text(program)
        paths = [folder, str(Path(__file__).resolve().parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        yield


class Images(IndexDataset):
    """Images with their indices; a few are corrupt, others can't be read at all."""

    def __getitem__(self, index: int) -> Any:
        if index in BAD and index % 2:
            raise OSError(f"no file for {index}")
        encoded = b"broken" if index in BAD else _JPEGS[index % 200]
        image, number = self.transform(encoded=encoded, x=sample(index))
        return image, number, index


_JPEGS = [jpeg(brightness) for brightness in range(200)]


def check_batch(batch: Any) -> list[int]:
    """Check that the images and the numbers of a batch are those of its indices, and return the indices.

    Raises:
        Failed: they aren't.
    """
    images, numbers, indices = batch
    listed: list[int] = check_affine(numbers, indices)
    if (images.float().mean(dim=(1, 2, 3)) - indices % 200).abs().max() > 2:
        raise Failed(f"images of other samples came for {listed}")
    return listed


class Training:
    """One loop over a loader, for as many epochs as time allows.

    Attributes:
        batches: number of checked batches.
        epochs: number of completed epochs.
        wants_to_leave: whether to stop the loop early; set by `Faults`.
    """

    def __init__(self, server: DALIServer, on_error: str, counts: Counter[str], options: dict[str, Any]) -> None:
        self.batches = 0
        self.epochs = 0
        self.wants_to_leave = False
        self.error: BaseException | None = None
        self._skips = on_error == "skip"
        self._length = 400
        self._counts = counts
        self._kept: deque[list[torch.Tensor]] = deque(maxlen=20)  # their data must not change
        dataset = Images(self._length, server.proxy)
        self._loader = DataLoader(
            server, dataset, BATCH, shuffle=self._skips, on_error=on_error, generator=torch.Generator(), **options
        )

    def run(self, stop: threading.Event) -> None:
        """Train until `stop`, and store an error in `error`."""
        try:
            while not stop.is_set():
                self._epoch(stop)
        except BaseException as error:  # noqa: BLE001  # the main thread reports it
            traceback.print_exc()
            self.error = error
            stop.set()

    def _epoch(self, stop: threading.Event) -> None:
        seen: list[int] = []
        number = 0
        iterator = iter(self._loader)
        while not stop.is_set():
            try:
                batch = next(iterator)
            except StopIteration:
                self._check_epoch(seen)
                self.epochs += 1
                return
            except (BatchError, OSError) as error:  # only this batch is lost
                self._check_error(error, number, seen)
                number += 1
                continue
            except WorkerDiedError:
                self._counts["loops that lost a worker"] += 1
                return
            seen += self._check_batch(batch, None if self._skips else number)
            number += 1
            self.batches += 1
            if self.wants_to_leave:
                self.wants_to_leave = False
                self._counts["loops that were left"] += 1
                return

    def _check_batch(self, batch: Any, number: int | None) -> list[int]:
        listed = check_batch(batch)
        if number is not None and listed != list(range(number * BATCH, min(number * BATCH + BATCH, self._length))):
            raise Failed(f"batch {number} holds {listed}")
        _, *numbers = batch
        for kept in self._kept:
            check_affine(*kept)
        if len(self._kept) < 20 or random.random() < 0.1:
            self._kept.append(numbers)
        return listed

    def _check_error(self, error: Exception, number: int, seen: list[int]) -> None:
        """Check that a sample of the failed batch is bad; none of the batch's samples may arrive later."""
        batch = list(range(number * BATCH, number * BATCH + BATCH))
        if self._skips or not BAD.intersection(batch):
            raise Failed(f"batch {number} failed for no reason: {error}") from error
        if isinstance(error, BatchError) and error.dataset_index not in BAD:
            raise Failed(f"the error names {error.dataset_index}, which isn't a bad sample") from error
        seen += batch
        self._counts["errors of bad batches"] += 1

    def _check_epoch(self, seen: list[int]) -> None:
        expected = [index for index in range(self._length) if not (self._skips and index in BAD)]
        if sorted(seen) != expected:
            wrong = Counter(seen)
            wrong.subtract(expected)
            raise Failed(f"an epoch had wrong samples: { {index: n for index, n in wrong.items() if n} }")


class Faults:
    """Injects faults, one after the other."""

    def __init__(self, server: DALIServer, trainings: list[Training], chance: random.Random, counts: Counter[str]):
        self._server = server
        self._trainings = trainings
        self._chance = chance
        self._counts = counts
        self._kinds: list[Callable[[], None]] = [
            self.kill_the_server,
            self.terminate_the_server,
            self.pause_the_server,
            self.kill_a_worker,
            self.remove_the_folder,
            self.leave_a_loop,
        ]

    def inject(self) -> None:
        """Inject one fault."""
        kind = self._chance.choice(self._kinds)
        if not self._server.running:
            return  # the server is starting
        try:
            kind()
        except (ProcessLookupError, psutil.NoSuchProcess):
            return  # the target has ended meanwhile
        self._counts[kind.__name__.replace("_", " ")] += 1

    def kill_the_server(self) -> None:
        os.kill(self._server_pid(), signal.SIGKILL)

    def terminate_the_server(self) -> None:
        os.kill(self._server_pid(), signal.SIGTERM)

    def pause_the_server(self) -> None:
        pid = self._server_pid()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self._chance.random() * 0.3)
        os.kill(pid, signal.SIGCONT)

    def kill_a_worker(self) -> None:
        pid = self._server.pid
        workers = [
            child
            for child in psutil.Process().children()
            if child.pid != pid and "dali_proxy._host" not in child.cmdline()
        ]
        if not workers:
            raise ProcessLookupError
        self._chance.choice(workers).kill()

    def remove_the_folder(self) -> None:
        shutil.rmtree(Path(self._server.endpoint.path).parent, ignore_errors=True)

    def leave_a_loop(self) -> None:
        self._chance.choice(self._trainings).wants_to_leave = True

    def _server_pid(self) -> int:
        pid = self._server.pid
        if pid is None:
            raise ProcessLookupError
        return pid


def soak(seconds: float, every: float, seed: int, workers: int, restarts: int = 0, gpu: bool = False) -> Counter[str]:
    """Train and inject faults until the time is over and the server was restarted at least `restarts` times.

    Returns:
        Numbers of events, by name.

    Raises:
        Failed: a requirement was violated.
    """
    faulthandler.register(signal.SIGUSR1)  # also for workers, which are forked
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    stop = threading.Event()
    pipe: Pipeline = through_gpu() if gpu else images_and_numbers()
    options = {"num_workers": workers}
    descriptors = 0
    with DALIServer(pipe, restart="on-failure") as server:
        trainings = [Training(server, on_error, counts, options) for on_error in ("raise", "skip")]
        faults = Faults(server, trainings, chance, counts)
        threads = [threading.Thread(target=training.run, args=(stop,)) for training in trainings]
        for thread in threads:
            thread.start()
        sizes = []
        progress = [(0, time.monotonic())] * len(trainings)
        at_fault = [0] * len(trainings)
        begin = last_fault = time.monotonic()
        while (time.monotonic() - begin < seconds or server.losses.restarts < restarts) and not stop.is_set():
            stop.wait(0.05)
            progress = [_progress(*each) for each in zip(trainings, progress, strict=True)]
            # Each loop must get a batch between two faults: loaders give up batches that lost their server three times.
            moved = all(training.batches > done for training, done in zip(trainings, at_fault, strict=True))
            if moved and time.monotonic() - last_fault >= every:
                last_fault = time.monotonic()
                at_fault = [training.batches for training in trainings]
                sizes.append(psutil.Process().memory_info().rss)
                descriptors = descriptors or psutil.Process().num_fds()
                faults.inject()
        stop.set()
        for thread in threads:
            thread.join(STUCK_S)
            if thread.is_alive():
                _give_up("a loop didn't end")
        for training in trainings:
            if training.error is not None:
                raise training.error
            counts["batches checked"] += training.batches
            counts["whole epochs checked"] += training.epochs
        counts["restarts of the server"] = server.losses.restarts
        counts["samples skipped"] = server.losses.skipped
        trainings.clear()
        del faults, training
    _check_end(Path(server.endpoint.path).parent, sizes, descriptors)
    return counts


def _progress(training: Training, before: tuple[int, float]) -> tuple[int, float]:
    batches, since = before
    if training.batches != batches or training.error is not None:
        return training.batches, time.monotonic()
    if time.monotonic() - since > STUCK_S:
        _give_up(f"a loop got no batch for {STUCK_S:g} s")
    return before


def _give_up(why: str) -> None:
    sys.stderr.write(f"soak: {why}; what the threads do:\n")
    faulthandler.dump_traceback(all_threads=True)
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(2)


def _check_end(folder: Path, sizes: list[int], descriptors: int) -> None:
    gc.collect()  # an iterator in a reference cycle with an exception's frames ends its workers only now
    _, alive = psutil.wait_procs(psutil.Process().children(), timeout=60)
    for process in alive:
        process.send_signal(signal.SIGUSR1)  # prints its stack traces
        time.sleep(1)
    if alive:
        raise Failed(f"processes are left: {alive}")
    if folder.exists():
        raise Failed(f"the folder {folder} is left")
    if psutil.Process().num_fds() > descriptors + MORE_DESCRIPTORS:
        raise Failed(f"{psutil.Process().num_fds()} descriptors are open, of {descriptors} at first")
    quarter = len(sizes) // 4
    if quarter and max(sizes[-quarter:]) > max(sizes[: 2 * quarter]) + MORE_BYTES:
        raise Failed(f"the training grew: {[size >> 20 for size in sizes[::quarter]]} MiB")


def slow_consumer(batches: int, pause: float = 0.0005, report: Callable[[str], None] = print) -> None:
    """Load many small batches more slowly than the server computes them, and check that memory doesn't grow.

    Raises:
        Failed: the memory of all processes grew by more than a tenth and 20 MB, after the first tenth of the batches.
    """
    with DALIServer(affine()) as server:
        dataset = IndexDataset(batches * 4, server.proxy, width=1000)
        early = most = 0
        for number, (images, indices) in enumerate(DataLoader(server, dataset, batch_size=4, num_workers=2)):
            check_affine(images, indices, width=1000)
            time.sleep(pause)
            if number % max(batches // 20, 1) == 0:  # reading takes tens of milliseconds for each process
                size = _memory()
                if number <= batches // 10:
                    early = max(early, size)
                most = max(most, size)
        stats = server.stats()
    report(f"{batches} batches: {early >> 20} MiB early, {most >> 20} MiB at most, limited by {stats.limited_by}")
    if most > early * 1.1 + (20 << 20):
        raise Failed(f"memory grew from {early >> 20} MiB to {most >> 20} MiB")


def _memory() -> int:
    """Return the private memory of this process and its children, plus their shared memory (counted once).

    Mapped files are left out, because the share of a library depends on the other processes that use it.
    """
    total = 0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1]) << 10
    return total


def main(arguments: list[str] | None = None) -> int:
    """Run the soak that the command line describes."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long (default: %(default)g)")
    parser.add_argument("--every", type=float, default=2.0, help="least seconds between faults (default: %(default)g)")
    parser.add_argument("--seed", type=int, default=None, help="of the faults (default: a random one)")
    parser.add_argument("--restarts", type=int, default=0, help="longer, until the server died so often (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="of each loader (default: %(default)s)")
    parser.add_argument("--gpu", action="store_true", help="with emulated stages on a GPU")
    parser.add_argument("--slow-consumer", type=int, metavar="BATCHES", help="load BATCHES slowly, without faults")
    options = parser.parse_args(arguments)
    if options.slow_consumer:
        slow_consumer(options.slow_consumer)
        return 0
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"soak: {options.seconds:g} s, a fault every {options.every:g} s, seed {seed}", flush=True)
    warnings.simplefilter("ignore")  # on skipped samples, at the end of each epoch
    with emulated_gpu() if options.gpu else nullcontext():
        counts = soak(options.seconds, options.every, seed, options.workers, options.restarts, options.gpu)
    for what, count in sorted(counts.items()):
        print(f"{count:8} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
