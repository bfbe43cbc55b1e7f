"""All checks, in order."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

from dali_proxy._common.core_budget import allowed_cores
from dali_proxy._doctor.check import Check
from dali_proxy._doctor.gpu import check_gpu
from dali_proxy._doctor.libraries import check_libraries
from dali_proxy._doctor.limits import check_limits


def examine() -> Iterator[Check]:
    """Check Python, the machine, its limits, the libraries and the GPU.

    Yields:
        The checks, one at a time: some take a second because they import a library.
    """
    is_new = sys.version_info >= (3, 10)
    yield Check(
        "python",
        "ok" if is_new else "missing",
        platform.python_version(),
        "" if is_new else "install Python 3.10 or newer",
    )
    yield Check("cores", "ok", str(len(allowed_cores())))
    yield from check_limits()
    yield from check_libraries()
    yield from check_gpu()
