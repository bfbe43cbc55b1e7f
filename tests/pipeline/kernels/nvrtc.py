"""NVRTC through ctypes: compile a .cu file for any architecture, without a GPU or CuPy."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path

from pipeline._cuda.compiler import compile_options, read_source


@cache
def library() -> ctypes.CDLL | None:
    """Return libnvrtc from the wheel nvidia-cuda-nvrtc or the system, or None."""
    found = []
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found += sorted(str(path) for path in Path(folder).glob("*/lib/libnvrtc.so.*"))
    for name in [*found, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


@cache
def _hurry(lib: ctypes.CDLL) -> tuple[str, ...]:
    """Return options for code that is never run: the check stays the same, in a quarter of the time."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    assert lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
    return ("--Ofast-compile=max",) if (major.value, minor.value) >= (12, 9) else ()


def compile(file: str, defines: tuple[tuple[str, str], ...], arch: str) -> int:
    """Compile and return the size of the result; `arch` is, for example, "sm_90" or "compute_80".

    Raises:
        AssertionError: with the compiler's log.
    """
    lib = library()
    assert lib is not None
    program = ctypes.c_void_p()
    source = read_source(file).encode()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), source, file.encode(), 0, None, None) == 0
    try:
        options = ["-ftz=true", "--device-as-default-execution-space", f"-arch={arch}", *_hurry(lib)]
        texts = [option.encode() for option in (*options, *compile_options(file, defines))]
        failed = lib.nvrtcCompileProgram(program, len(texts), (ctypes.c_char_p * len(texts))(*texts))
        size = ctypes.c_size_t()
        lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        lib.nvrtcGetProgramLog(program, log)
        assert not failed, f"{file} {defines} for {arch}:\n{log.value.decode()}"
        measure = lib.nvrtcGetCUBINSize if arch.startswith("sm_") else lib.nvrtcGetPTXSize
        assert measure(program, ctypes.byref(size)) == 0
        return size.value
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))
