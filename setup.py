"""What pyproject.toml can't declare yet: a module in C, left out where there is no compiler."""

from __future__ import annotations

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "pipeline.imaging._native",
            ["pipeline/imaging/_native.c"],
            extra_compile_args=["-O3", "-fno-math-errno", "-fno-trapping-math"],
            optional=True,
        )
    ]
)
