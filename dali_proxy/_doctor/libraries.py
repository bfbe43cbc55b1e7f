"""Checks of the libraries that this package uses."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

from dali_proxy._doctor.check import Check, Status
from dali_proxy.pipeline._requirements import NEEDED, too_old

_OPTIONAL = {
    "scikit-image": ("demo", "the demo uses its photographs"),
    "av": ("video", "to decode videos"),
    "soundfile": ("audio", "to decode audio"),
}


def check_libraries() -> Iterator[Check]:
    """Check that libraries are installed, that the C modules are built, and which codecs there are."""
    for name in NEEDED:
        yield _library(name, "missing", f"pip install {name}")
    yield _compiled_loops()
    yield from _codecs()
    for name, (extra, purpose) in _OPTIONAL.items():
        yield _library(name, "optional", f"{purpose}: pip install 'dali-proxy[{extra}]'")


def _compiled_loops() -> Check:
    from dali_proxy.pipeline._native import COMPILE, FOLDERS, OUT_OF_DATE, find_compiled

    if None not in [find_compiled(folder) for folder in FOLDERS]:
        return Check("compiled loops", "ok", "resizing, normalizing, colors of videos, reading and copying of batches")
    if OUT_OF_DATE:
        problem = f"compiled from other sources than this checkout has: {', '.join(sorted(OUT_OF_DATE))}"
        return Check("compiled loops", "optional", problem, f"run in the checkout: {COMPILE}")
    return Check(
        "compiled loops",
        "optional",
        "not built: resizing on the CPU takes twice as long, and GPU pipelines are slowed down by Python",
        "install a C compiler, then install dali-proxy again",
    )


def _codecs() -> Iterator[Check]:
    """Check the libraries with which Pillow and OpenCV decode what simplejpeg doesn't."""
    try:
        from PIL import features
    except ImportError:
        return
    names = {"jpg": "JPEG", "webp": "WebP", "jpg_2000": "JPEG 2000", "libtiff": "TIFF", "zlib": "zlib"}
    versions = {label: features.version(name) for name, label in names.items()}
    absent = [label for label, version in versions.items() if version is None]
    turbo = features.version("libjpeg_turbo")
    if turbo is not None:
        versions["JPEG"] = f"libjpeg-turbo {turbo}"
    listed = ", ".join(f"{label} {version}" for label, version in versions.items() if version is not None)
    if absent:
        yield Check("codecs", "warning", f"{listed}; no {', '.join(absent)}", "pip install --force-reinstall pillow")
    else:
        yield Check("codecs", "ok", listed)


def _library(name: str, otherwise: Status, advice: str) -> Check:
    try:
        if reason := too_old(name):
            return Check(name, "missing", f"too old: {reason}", f"pip install --upgrade {name}")
        return Check(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, otherwise, "not installed", advice)
