"""The decoder alone: an upper bound for every loader that uses it."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from benchmarks.rivals.base import Batch, Rival
from benchmarks.workload import Setup

IN_FLIGHT = 2
"""Number of batches in flight: the rival waits for one while the next one runs."""

Images = list[np.ndarray]
Decode = Callable[[Any], None]


class DecoderAlone(Rival):
    """A decoder of whole images in memory: ours, with its results dropped."""

    name = "decoder"
    kinds = ("bytes",)
    devices = ("cpu", "cuda")
    yardstick = True

    def unavailable(self) -> str | None:
        """Return the reason if the codec can't run here."""
        from dali_proxy.pipeline._codecs import missing_codec_reason

        return missing_codec_reason()

    def stream(self, setup: Setup) -> Iterator[Batch]:
        """Yield the indices of the images in place of their pixels."""
        encoded = read_images(setup)
        with open_decoder(setup) as (prepare, decode):
            batches: dict[int, Any] = {}  # by the first image; all work except decoding is done once
            for first in itertools.count(step=setup.batch_size):
                indices = torch.arange(first, first + setup.batch_size)
                place = first % len(encoded)
                if place not in batches:
                    batches[place] = prepare([encoded[index % len(encoded)] for index in indices.tolist()])
                decode(batches[place])
                yield indices, indices


def read_images(setup: Setup) -> Images:
    """Read all files into one block of memory, which is pinned if there is a GPU."""
    files = [np.fromfile(path, np.uint8) for path in setup.files]
    ends = np.cumsum([len(file) for file in files]).tolist()
    block = torch.empty(ends[-1], dtype=torch.uint8, pin_memory=setup.device_id is not None).numpy()
    np.concatenate(files, out=block)
    return np.split(block, ends[:-1])


@contextmanager
def open_decoder(setup: Setup) -> Iterator[tuple[Callable[[Images], Any], Decode]]:
    """Open the decoder that the operators use, with their default options.

    Yield a function that prepares images for the decoder, and one that decodes them and returns when all batches but
    the last ``IN_FLIGHT`` are done.
    """
    from dali_proxy.pipeline._codecs import EncodedBatch, GpuDecoder, ImageBatchDecoder

    if setup.device_id is None:
        with GpuDecoder(None, setup.threads) as codec:
            yield list, lambda images: codec.decode(images).release()
        return
    import cupy

    with cupy.cuda.Device(setup.device_id), ImageBatchDecoder(setup.device_id, setup.threads) as decoder:
        streams = itertools.cycle([cupy.cuda.Stream(non_blocking=True) for _ in range(IN_FLIGHT)])
        running: deque[Any] = deque()

        def decode(encoded: EncodedBatch) -> None:
            if len(running) == IN_FLIGHT:
                running.popleft().synchronize()
            stream = next(streams)
            decoder.decode(encoded, stream).release()
            running.append(stream.record())

        yield EncodedBatch.from_arrays, decode
        for event in running:
            event.synchronize()
