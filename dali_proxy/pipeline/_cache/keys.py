"""Keys of values: what determines a part of a graph, and the content of its inputs."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from dali_proxy.pipeline._cache.functions import describe_function
from dali_proxy.pipeline._native import find_compiled
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import DALIDataType

if TYPE_CHECKING:
    from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
    from dali_proxy.pipeline._graph.graph import Edge, GraphNode

_PROCESSOR = Path("/proc/cpuinfo")
_LIBRARIES = (
    *("dali-proxy", "numpy", "simplejpeg", "pillow", "av", "soundfile", "miniaudio"),
    *("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python"),
)
# Samples per task, and bytes of a batch up to which the calling thread takes less time than others need to wake up.
_GROUP = 16
_SMALL = 4 << 20
# Arguments that don't change results.
_MEANINGLESS = (
    *("bytes_per_sample_hint", "parallel", "preserve", "seed", "timeout"),
    *("cache_batch_copy", "cache_debug", "cache_size", "cache_threshold", "cache_type"),
)


def describe_part(nodes: Sequence[GraphNode], results: Iterable[Edge]) -> bytes | None:
    """Return a description of the operators of a part, equal for equal results; None if there is no description."""
    numbers = {node.index: number for number, node in enumerate(nodes)}
    sources: dict[Edge, int] = {}
    digest = hashlib.blake2b(digest_size=16)

    def place(edge: Edge) -> str:
        if edge.node in numbers:
            return f"{numbers[edge.node]}.{edge.output}"
        return f"source {sources.setdefault(edge, len(sources))}"

    for node in nodes:
        arguments = {name: value for name, value in node.arguments.items() if name not in _MEANINGLESS}
        described = _described(arguments)
        if described is None:
            return None
        inputs = [place(edge) for edge in node.inputs]
        named = sorted((name, place(edge)) for name, edge in node.argument_inputs.items())
        digest.update(repr((node.operator, node.device, inputs, named, described)).encode())
    digest.update(repr([place(edge) for edge in results]).encode())
    return digest.digest()


def describe_software() -> bytes:
    """Return a description of the libraries, the compiled modules and the processor, which decide about last bits."""
    versions = []
    for library in _LIBRARIES:
        try:
            versions.append((library, version(library)))
        except PackageNotFoundError:
            versions.append((library, ""))
    processor = (platform.machine(), _processor_features())
    digest = hashlib.blake2b(repr((versions, processor, platform.python_version())).encode(), digest_size=16)
    for name in ("_imaging", "_codecs", "_video"):
        module = find_compiled(name)
        if module is not None and module.__file__ is not None:
            with open(module.__file__, "rb") as file:
                digest.update(file.read())
    return digest.digest()


def _processor_features() -> str:
    """Return the instructions that the processor has, by which libraries choose their code."""
    with suppress(OSError):
        for line in _PROCESSOR.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("flags", "Features"):  # of x86, and of Arm
                return value
    return platform.processor()


def sample_keys(part: bytes, inputs: Sequence[TensorListCPU], seed: int, pool: ThreadPool) -> list[bytes]:
    """Return a key for each sample of a batch, for a described part. Threads of the pool read large samples.

    The secret of the cache, `seed`, makes it hard to make data with the key of other data.
    """
    prefix = _prefix(part, *[(each.dtype, each.ndim, each.layout()) for each in inputs])
    only = inputs[0] if len(inputs) == 1 and inputs[0].ndim == 1 else None
    hash_of: Callable[[int], bytes]
    if only is not None:
        samples, hash_bytes = only.samples, xxhash.xxh3_128_digest

        def hash_of(sample: int) -> bytes:
            return prefix + hash_bytes(_flat(samples[sample]), seed)
    else:
        columns = [each.samples for each in inputs]

        def hash_of(sample: int) -> bytes:
            state = xxhash.xxh3_128(seed=seed)
            for column in columns:
                array = np.asarray(column[sample])
                state.update(repr(array.shape).encode())
                state.update(_flat(array))
            return prefix + state.digest()

    count = len(inputs[0])
    if sum(each.nbytes for each in inputs) <= _SMALL:
        return list(map(hash_of, range(count)))
    keys = [b""] * count

    def hash_range(begin: int, end: int) -> None:
        keys[begin:end] = map(hash_of, range(begin, end))

    pool.run_ranges(hash_range, count, _GROUP)
    return keys


@lru_cache
def _prefix(part: bytes, *kinds: tuple[DALIDataType, int, str]) -> bytes:
    """Return what the keys of a part's samples begin with, for inputs of a dtype, number of dimensions and layout."""
    described = [(dtype.name, ndim, layout) for dtype, ndim, layout in kinds]
    return hashlib.blake2b(part + repr(described).encode(), digest_size=12).digest()


def _flat(array: Array) -> Any:
    """Return the bytes of an array, a buffer, without a copy if it is contiguous."""
    if array.ndim == 1 and array.flags.c_contiguous:
        return array if array.dtype == np.uint8 else array.view(np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _described(value: Any) -> Any:
    """Return what determines an argument, with an unambiguous `repr`; None for objects that it isn't known of."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, bool | int | float | str | bytes | None):
        return (type(value).__name__, value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return (str(value.dtype), value.shape, hashlib.blake2b(np.ascontiguousarray(value).tobytes()).hexdigest())
    if isinstance(value, dict | tuple | list):
        items = sorted(value.items()) if isinstance(value, dict) else enumerate(value)
        described = [(key, _described(each)) for key, each in items]
        return None if any(each is None for _, each in described) else (type(value).__name__, described)
    return describe_function(value) if callable(value) else None
