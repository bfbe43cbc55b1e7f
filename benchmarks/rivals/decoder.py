"""The decoder alone: what no loader that decodes with it can be faster than."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from benchmarks.rivals.base import Batch, Rival
from benchmarks.workload import Setup

IN_FLIGHT = 2
"""Batches that are decoded at once: one is waited for while the next one runs."""

Decode = Callable[[Sequence[Any]], None]


class DecoderAlone(Rival):
    """Decodes whole pictures that lie in memory, with the decoder that ours uses, and throws them away."""

    name = "decoder"
    kinds = ("bytes",)
    devices = ("cpu", "cuda")
    yardstick = True

    def unavailable(self) -> str | None:
        """It needs the codec."""
        from pipeline.codecs import missing_codec_reason

        return missing_codec_reason()

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Gives the numbers of the pictures in place of their pixels."""
        encoded = [np.fromfile(path, np.uint8) for path in setup.files]
        with open_decoder(setup) as decode:
            for first in itertools.count(step=setup.batch_size):
                numbers = range(first, first + setup.batch_size)
                decode([encoded[number % len(encoded)] for number in numbers])
                indices = torch.arange(first, first + setup.batch_size)
                yield indices, indices


@contextmanager
def open_decoder(setup: Setup) -> Iterator[Decode]:
    """Opens the decoder that the operators use, set up as they do by default.

    Gives a function that decodes a batch of encoded pictures and returns when the last but ``IN_FLIGHT`` is done.
    """
    from pipeline.codecs import GpuDecoder

    with GpuDecoder(setup.device_id, setup.threads, hw_load=0.65) as decoder:
        if setup.device_id is None:
            yield lambda encoded: decoder.decode(encoded).release()
            return
        import cupy

        with cupy.cuda.Device(setup.device_id):
            streams = itertools.cycle([cupy.cuda.Stream(non_blocking=True) for _ in range(IN_FLIGHT)])
            running: deque[Any] = deque()

            def decode(encoded: Sequence[Any]) -> None:
                if len(running) == IN_FLIGHT:
                    running.popleft().synchronize()
                stream = next(streams)
                batch = decoder.decode(encoded, stream)
                batch.release(stream)
                running.append(stream.record())

            yield decode
            for event in running:
                event.synchronize()
