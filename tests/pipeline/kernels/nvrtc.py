"""NVRTC through ctypes: compile a .cu file for any architecture, without a GPU or CuPy."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path

from dali_proxy.pipeline._cuda.compiler import compile_options, read_source
from tests.built import built


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
def _version(lib: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    assert lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
    return major.value, minor.value


def compile(file: str, defines: tuple[tuple[str, str], ...], arch: str) -> int:
    """Compile, unless that succeeded before, and return the size of the result.

    Args:
        file: name of the .cu file.
        defines: macros.
        arch: "sm_90" or "compute_80", for example.

    Raises:
        AssertionError: with the compiler's log.
    """
    lib = library()
    assert lib is not None
    # The code is never run: with this option, the check stays the same, in a quarter of the time.
    hurry = ["--Ofast-compile=max"] if _version(lib) >= (12, 9) else []
    options = ["-ftz=true", "--device-as-default-execution-space", f"-arch={arch}", *hurry]
    options += compile_options(file, defines)
    source = read_source(file)

    def compile_to(size: Path) -> None:
        size.write_text(str(_compile(lib, source, file, options)))

    return int(built((source, file, options, _version(lib)), ".size", compile_to).read_text())


def _compile(lib: ctypes.CDLL, source: str, file: str, options: list[str]) -> int:
    program = ctypes.c_void_p()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), file.encode(), 0, None, None) == 0
    try:
        texts = [option.encode() for option in options]
        failed = lib.nvrtcCompileProgram(program, len(texts), (ctypes.c_char_p * len(texts))(*texts))
        size = ctypes.c_size_t()
        lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        lib.nvrtcGetProgramLog(program, log)
        assert not failed, f"{file} {options}:\n{log.value.decode()}"
        measure = lib.nvrtcGetCUBINSize if any("-arch=sm_" in each for each in options) else lib.nvrtcGetPTXSize
        assert measure(program, ctypes.byref(size)) == 0
        return size.value
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))
