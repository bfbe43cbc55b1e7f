"""A thread in C that decodes the same batch of JPEGs on the engine again and again."""

from __future__ import annotations

import ctypes
import io
import subprocess
import tempfile
import time
from collections.abc import Sequence
from ctypes import POINTER, byref, c_double, c_int32, c_int64, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import cupy
import numpy as np
import numpy.typing as npt
from PIL import Image

from dali_proxy.pipeline._codecs.missing import load_nvjpeg

FOLDER = Path(__file__).parent
HARDWARE, COLOURS, PLANES = 3, 5, 1  # nvjpegBackend_t; nvjpegOutputFormat_t: RGBI, YUV
STATES = 2
#: nvjpegImage_t: a pointer and a pitch for each of four planes.
IMAGE = np.dtype([("channel", "u8", 4), ("pitch", "u8", 4)])
#: `Image` of kernels.cu.
TABLE = np.dtype(
    [("planes", "u8", 3), ("height", "i4"), ("width", "i4"), ("pitch", "i4"), ("chroma_pitch", "i4"),
     ("chroma_height", "i4"), ("chroma_width", "i4")]
)  # fmt: skip
SIZE = 224


class _Work(ctypes.Structure):
    """`Work` of thread.c."""

    _fields_ = (
        ("functions", c_void_p * 5),
        ("context", c_void_p),
        ("handle", c_void_p),
        ("sources", c_void_p),
        ("sizes", c_void_p),
        ("parameters", c_void_p * 2),
        ("states", c_void_p * STATES * 2),
        ("images", c_void_p * STATES * 2),
        ("streams", c_void_p * STATES),
        ("events", c_void_p * STATES),
        ("kernels", c_void_p * 2),
        ("tables", c_void_p * STATES * 2),
        ("outputs", c_void_p * STATES),
        ("grid", c_uint32 * 3),
        ("block", c_uint32),
        ("rate", c_double),
        ("planes", c_int32),
        ("decodes", c_int32),
        ("launches", c_int32),
        ("stop", c_int32),
        ("status", c_int32),
        ("batches", c_int64),
        ("thread", c_void_p),
    )


class EngineThread:
    """Decodes a batch again and again, with what a compiled pipeline launches behind it.

    Args:
        files: JPEGs with 4:2:0 or 4:4:4 colours.
        priority: priority of its streams.

    Raises:
        RuntimeError: the engine can't be used.
    """

    def __init__(self, files: Sequence[bytes], priority: int) -> None:
        self._library = load_nvjpeg()
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._native = _compiled()
        self._kept: list[Any] = []
        self._outputs: list[Any] = []
        handle, context = c_void_p(), c_void_p()
        cupy.zeros(1)
        _check(self._driver.cuCtxGetCurrent(byref(context)))
        _check(self._library.nvjpegCreateEx(HARDWARE, None, None, 0, byref(handle)))
        sources, sizes = self._sources(files)
        module = cupy.RawModule(code=(FOLDER / "kernels.cu").read_text(), options=("-std=c++17",))
        names = ("nvjpegDecodeBatchedEx",), ("cuCtxSetCurrent", "cuLaunchKernel", "cuEventRecord", "cuEventSynchronize")
        functions = [
            ctypes.cast(getattr(library, name), c_void_p)
            for library, group in zip((self._library, self._driver), names, strict=True)
            for name in group
        ]
        work = self._work = _Work(
            functions=(c_void_p * 5)(*functions),
            context=context,
            handle=handle,
            sources=sources,
            sizes=sizes,
            grid=(c_uint32 * 3)(1, SIZE, len(files)),
            block=SIZE,
        )
        shapes = [Image.open(io.BytesIO(file)).size[::-1] for file in files]
        for state in range(STATES):
            stream, event = c_void_p(), c_void_p()
            _check(self._driver.cuStreamCreateWithPriority(byref(stream), 1, priority))
            _check(self._driver.cuEventCreate(byref(event), 1 | 2))  # blocking waits, no timing
            work.streams[state], work.events[state] = stream, event
            self._outputs.append(cupy.empty((len(files), SIZE, SIZE, 3), np.uint16))
            work.outputs[state] = self._outputs[-1].data.ptr
            for planes in (0, 1):
                created = c_void_p()
                _check(self._library.nvjpegJpegStateCreate(handle, byref(created)))
                kind = PLANES if planes else COLOURS
                _check(self._library.nvjpegDecodeBatchedInitialize(handle, created, len(files), 1, kind))
                work.states[planes][state] = created
                self._allocate(planes, state, shapes)
        for planes, name in enumerate(("from_colours", "from_planes")):
            work.kernels[planes] = module.get_function(name).kernel.ptr
            made = np.zeros(len(files), np.uint64)
            for number in range(len(files)):
                parameters = c_void_p()
                _check(self._library.nvjpegDecodeParamsCreate(handle, byref(parameters)))
                kind = PLANES if planes else COLOURS
                _check(self._library.nvjpegDecodeParamsSetOutputFormat(parameters, kind))
                made[number] = parameters.value or 0
            work.parameters[planes] = self._keep(made)
        cupy.cuda.Device().synchronize()
        self._native.start(byref(work))

    def work(self, rate: float, *, planes: bool, decodes: bool, launches: bool) -> None:
        """Change what the thread does: `rate` batches per second, 0: nothing, -1: as many as possible."""
        self._work.rate = 0
        time.sleep(0.05)  # a batch has ended
        self._work.planes, self._work.decodes, self._work.launches = planes, decodes, launches
        self._work.rate = rate

    @property
    def batches(self) -> int:
        """Number of batches so far."""
        if self._work.status:
            raise RuntimeError(f"the thread failed with status {self._work.status}")
        return int(self._work.batches)

    def output(self) -> npt.NDArray[np.float32]:
        """Return the images of an earlier launch: bfloat16 numbers, as float32."""
        cupy.cuda.Device().synchronize()
        bits: npt.NDArray[np.uint32] = self._outputs[0].get().astype(np.uint32) << 16
        return bits.view(np.float32)

    def close(self) -> None:
        """End the thread."""
        self._native.end(byref(self._work))

    def _keep(self, array: npt.NDArray[Any]) -> int:
        self._kept.append(array)
        return array.ctypes.data

    def _sources(self, files: Sequence[bytes]) -> tuple[int, int]:
        sizes = np.array([len(file) for file in files], np.uint64)
        offsets = np.concatenate([[0], np.cumsum(-(-sizes // 256) * 256)]).astype(np.int64)
        memory = cupy.cuda.alloc_pinned_memory(int(offsets[-1]))
        self._kept.append(memory)
        pinned = np.frombuffer(memory, np.uint8, int(offsets[-1]))
        for file, offset in zip(files, offsets, strict=False):
            pinned[offset : offset + len(file)] = np.frombuffer(file, np.uint8)
        return self._keep((memory.ptr + offsets[:-1]).astype(np.uint64)), self._keep(sizes)

    def _allocate(self, planes: int, state: int, shapes: Sequence[tuple[int, int]]) -> None:
        images, table = np.zeros(len(shapes), IMAGE), np.zeros(len(shapes), TABLE)
        for number, (height, width) in enumerate(shapes):
            pitch, half = -(-width // 64) * 64, -(-width // 128) * 64
            rows = -(-height // 2)
            memory = cupy.zeros(pitch * height * (3 - planes), np.uint8)
            self._kept.append(memory)
            at = memory.data.ptr
            starts = [at, at + pitch * height, at + pitch * height + half * rows] if planes else [at, 0, 0]
            images[number]["channel"][:3] = starts
            images[number]["pitch"][:3] = [pitch, half, half] if planes else [pitch * 3, 0, 0]
            table[number] = (starts, height, width, pitch if planes else 3 * pitch, half, rows, -(-width // 2))
        on_gpu = cupy.asarray(table.view(np.uint8))
        self._kept.append(on_gpu)
        self._work.images[planes][state] = self._keep(images)
        self._work.tables[planes][state] = on_gpu.data.ptr


def _compiled() -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp())
    target = folder / "thread.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", target, FOLDER / "thread.c"], check=True)
    library = ctypes.CDLL(str(target))
    assert library.size_of_work() == ctypes.sizeof(_Work)
    library.start.argtypes = library.end.argtypes = [POINTER(_Work)]
    return library


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"a call failed with status {status}")
