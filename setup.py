"""Declares the C modules, which pyproject.toml can't do yet.

They are optional if there is no compiler. With DALI_PROXY_NATIVE=1, an error of the compiler is an error of the build.
"""

from __future__ import annotations

import glob
import os
import platform
import runpy

from setuptools import Extension, setup

native = runpy.run_path("dali_proxy/pipeline/_native.py")  # the package can't be imported yet

# On ARM, compilers fuse multiplications and additions by default, which rounds differently from NumPy and x86-64.
arguments = [] if platform.machine() == "x86_64" else ["-ffp-contract=off"]

setup(
    ext_modules=[
        Extension(
            f"dali_proxy.pipeline.{folder}._native",
            [f"dali_proxy/pipeline/{folder}/_native.c"],
            depends=glob.glob(f"dali_proxy/pipeline/{folder}/**/*.h", recursive=True)
            + glob.glob("dali_proxy/pipeline/*.h"),
            define_macros=[("SOURCES", f"{native['checksum'](folder)}u")],
            extra_compile_args=["-O3", "-fno-math-errno", "-fno-trapping-math", "-pthread", *arguments],
            extra_link_args=["-pthread", "-lm"],
            optional=os.environ.get("DALI_PROXY_NATIVE") != "1",
        )
        for folder in native["FOLDERS"]
    ]
)
