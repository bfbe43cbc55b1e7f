"""Declares the C modules, which pyproject.toml can't do yet; they are optional if there is no compiler."""

from __future__ import annotations

import glob
import runpy

from setuptools import Extension, setup

native = runpy.run_path("pipeline/_native.py")  # the package can't be imported yet

setup(
    ext_modules=[
        Extension(
            f"pipeline.{folder}._native",
            [f"pipeline/{folder}/_native.c"],
            depends=glob.glob(f"pipeline/{folder}/*.h") + glob.glob("pipeline/*.h"),
            define_macros=[("SOURCES", f"{native['checksum'](folder)}u")],
            extra_compile_args=["-O3", "-fno-math-errno", "-fno-trapping-math", "-pthread"],
            extra_link_args=["-pthread"],
            optional=True,
        )
        for folder in native["FOLDERS"]
    ]
)
