"""Compilation of the .cu files with NVRTC, once per source, macros and device."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._cuda.errors import KernelCompileError, cuda_call, load_cupy
from dali_proxy.pipeline._cuda.kernel_cache import keep_kernels_in_memory

# Files whose multiplications and additions aren't fused, so that they round like those of the CPU.
_UNFUSED = {"draws.cu"}


class Kernel(NamedTuple):
    """A compiled kernel.

    Attributes:
        launch: the `cupy.RawKernel`, a function of grid, block and arguments.
        handle: the driver's handle of the function; 0 if it is unknown.
    """

    launch: Any
    handle: int


_kernels: dict[tuple[str, str, tuple[tuple[str, str], ...], int], Kernel] = {}
_lock = new_lock(Level.LEAF, "kernel compiler")


@cache
def read_source(file: str) -> str:
    """Return the text of a .cu file with its includes replaced by the headers.

    CuPy keys its disk cache by the source text alone, so changes of a header must change this text.
    """
    folder = Path(__file__).parent.parent / "_kernels" / "cuda"
    text = (folder / file).read_text()
    return re.sub(r'^#include "(.+)"$', lambda match: read_source(match[1]), text, flags=re.MULTILINE)


def get_kernel(file: str, kernel: str, defines: tuple[tuple[str, str], ...], device_id: int) -> Kernel:
    """Return a kernel compiled for the device.

    The first call takes about 0.2 s in NVRTC, or a few ms if CuPy's disk cache has the kernel.

    Args:
        file: .cu file in the folder `cuda`.
        kernel: name of its `extern "C"` function.
        defines: macros as (name, value).
        device_id: the CUDA device.

    Raises:
        KernelCompileError: NVRTC failed; the error contains its log.
    """
    key = (file, kernel, defines, device_id)
    found = _kernels.get(key)
    if found is not None:
        return found
    with _lock:
        if key not in _kernels:
            try:
                _kernels[key] = _compile(*key)
            except OSError as error:  # the disk is full, for example
                keep_kernels_in_memory(str(error))
                _kernels[key] = _compile(*key)
        return _kernels[key]


def _compile(file: str, kernel: str, defines: tuple[tuple[str, str], ...], device_id: int) -> Kernel:
    cupy = load_cupy()
    call = f"compiling {kernel} of {file} with {_spelled(defines)}"
    try:
        with cuda_call(call), cupy.cuda.Device(device_id):
            module = cupy.RawModule(code=read_source(file), options=compile_options(file, defines))
            function = module.get_function(kernel)
            return Kernel(function, int(getattr(getattr(function, "kernel", None), "ptr", 0)))
    except cupy.cuda.compiler.CompileException as error:
        raise KernelCompileError(call, str(error)) from error


def compile_options(file: str, defines: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return the options to compile a .cu file with macros; CuPy adds the architecture and -ftz=true."""
    unfused = ("-fmad=false",) if file in _UNFUSED else ()
    return ("-std=c++17", *unfused, *(f"-D{name}={value}" for name, value in defines))


def _spelled(defines: tuple[tuple[str, str], ...]) -> str:
    return " ".join(f"{name}={value}" for name, value in defines) or "no macros"
