"""Run the .cu files on the CPU: a host compiler builds them, a loop over blocks and threads emulates the grid.

Each thread runs until it ends or reaches a barrier, where it gives way to the next one. Behind a barrier, the threads
run in the opposite order, so that a missing barrier changes the results. The arguments are the launches that the
launchers plan, over NumPy arrays in place of device memory.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda.compiler import read_source
from dali_proxy.pipeline._cuda.launch import THREADS, Launch
from tests.built import built

# A build with the <math.h> of C takes less than half as long as one with the templates of C++.
# A kernel may have the name of a function of a library, such as zlib's `inflate`.
_FLAGS = ("-std=c++17", "-nostdinc++", "-O0", "-ffp-contract=off", "-w", "-shared", "-fPIC", "-Wl,-Bsymbolic")
COMPILER = shutil.which("g++") or shutil.which("clang++")

_PRELUDE = """
#define EMULATED
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#include <math.h>
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }  // as in CUDA
inline float sqrt(float value) { return sqrtf(value); }
template <typename T, typename U> inline auto min(T a, U b) -> decltype(a + b) { return b < a ? b : a; }
template <typename T, typename U> inline auto max(T a, U b) -> decltype(a + b) { return a < b ? b : a; }
struct Position { unsigned x, y, z; };
static Position blockIdx, threadIdx, blockDim, gridDim;
static void __syncthreads();
#define __syncwarp __syncthreads
template <typename T> inline T replaced(T* address, T value) { T before = *address; *address = value; return before; }
template <typename T> inline T atomicAdd(T* address, T value) { return replaced(address, T(*address + value)); }
template <typename T> inline T atomicMin(T* a, T value) { return replaced(a, value < *a ? value : *a); }
template <typename T> inline T atomicMax(T* a, T value) { return replaced(a, value > *a ? value : *a); }
struct float16;
static float half_to_float(float16 value);
static float16 float_to_half(float value);
"""
_EPILOGUE = """
#include <string.h>
static float half_to_float(float16 value) { _Float16 h; memcpy(&h, &value, 2); return static_cast<float>(h); }
static float16 float_to_half(float value) {
    _Float16 h = static_cast<_Float16>(value);
    float16 result;
    memcpy(&result, &h, 2);
    return result;
}
static void** arguments;
static void run_thread() { CALL; }
#if BARRIERS
#include <ucontext.h>
static ucontext_t block, fibers[1024];
static bool ended[1024];
static char stacks[1024][1 << 15];
static void __syncthreads() { swapcontext(&fibers[threadIdx.x], &block); }
static void run_fiber() { run_thread(); ended[threadIdx.x] = true; }
static void run_block(unsigned threads) {
    for (unsigned number = 0; number < threads; ++number) {
        getcontext(&fibers[number]);
        fibers[number].uc_stack.ss_sp = stacks[number];
        fibers[number].uc_stack.ss_size = sizeof stacks[number];
        fibers[number].uc_link = &block;
        makecontext(&fibers[number], run_fiber, 0);
        ended[number] = false;
    }
    bool runs = true;
    for (bool forward = true; runs; forward = !forward) {
        runs = false;
        for (unsigned number = 0; number < threads; ++number) {
            threadIdx.x = forward ? number : threads - 1 - number;
            if (ended[threadIdx.x]) continue;
            swapcontext(&block, &fibers[threadIdx.x]);
            runs = true;
        }
    }
}
#else
static void __syncthreads() {}
static void run_block(unsigned threads) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) run_thread();
}
#endif
#include <pthread.h>
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;  // of the threads of Python: the variables are global
extern "C" void emulate(void** given, unsigned grid_x, unsigned grid_y, unsigned threads) {
    pthread_mutex_lock(&turn);
    arguments = given;
    gridDim = {grid_x, grid_y, 1};
    blockDim = {threads, 1, 1};
    for (blockIdx.y = 0; blockIdx.y < grid_y; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < grid_x; ++blockIdx.x) run_block(threads);
    pthread_mutex_unlock(&turn);
}
"""


def run(launch: Launch) -> None:
    """Run a launch whose tables point to host memory."""
    tables = [np.ascontiguousarray(table) for table in launch.tables]
    pointers = [table.ctypes.data for table in tables]
    run_at(launch.file, launch.kernel, launch.defines, pointers, launch.grid, launch.scalars)


def run_at(
    file: str,
    kernel: str,
    defines: tuple[tuple[str, str], ...],
    pointers: Sequence[int],
    grid: tuple[int, int],
    scalars: Sequence[np.generic] = (),
) -> None:
    """Run a kernel whose tables lie at addresses of host memory."""
    library = _build(file, kernel, defines, len(pointers), len(scalars))
    values = [np.array([each], np.int64) for each in pointers] + [np.array([each], np.int32) for each in scalars]
    addresses = (ctypes.c_void_p * len(values))(*[value.ctypes.data for value in values])
    library.emulate(addresses, *grid, THREADS)


def _build(file: str, kernel: str, defines: tuple[tuple[str, str], ...], tables: int, scalars: int) -> Any:
    options = tuple(f"-D{key}={value}" for key, value in defines)
    return build_code(read_source(file), options, kernel, ("void*",) * tables + ("int",) * scalars)


@cache
def build_code(code: str, options: tuple[str, ...], kernel: str, kinds: tuple[str, ...]) -> Any:
    """Build a kernel. Its library's `emulate` takes pointers to the arguments, the grid and the number of threads.

    Args:
        code: CUDA C++.
        options: options that define macros.
        kernel: name of the kernel.
        kinds: C types of its arguments.
    """
    values = [f"*static_cast<{kind}*>(arguments[{index}])" for index, kind in enumerate(kinds)]
    call = f"reinterpret_cast<void (*)({', '.join(kinds)})>({kernel})({', '.join(values)})"
    assert COMPILER is not None
    command = [COMPILER, *_FLAGS, *options]
    text = text_of(code, call)

    def compile_to(library: Path) -> None:
        subprocess.run([*command, "-o", library, "-xc++", "-"], input=text, text=True, check=True, timeout=150)

    return ctypes.CDLL(str(built((text, command, _version()), ".so", compile_to)))


@cache
def _version() -> str:
    assert COMPILER is not None
    return subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout


def text_of(code: str, call: str) -> str:
    """Return the C++ of a library with a kernel."""
    barriers = f"#define BARRIERS {int('__sync' in code)}\n"
    return barriers + _PRELUDE + code + _EPILOGUE.replace("CALL", call)
