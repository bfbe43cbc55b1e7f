from __future__ import annotations

import pytest

from tests.pipeline.kernels.runners import require_gpu


@pytest.fixture
def gpu() -> None:
    """Skip if there is no CUDA device."""
    require_gpu()
