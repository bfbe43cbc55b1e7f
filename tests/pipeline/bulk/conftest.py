from __future__ import annotations

import pytest

from dali_proxy.pipeline._bulk import files, gather
from dali_proxy.pipeline._bulk.native import compiled


@pytest.fixture(params=["compiled", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the compiled loops and without them."""
    if request.param == "python":
        for module in (files, gather):
            monkeypatch.setattr(module, "compiled", None)
    elif compiled is None:
        pytest.skip("no C compiler")
    return str(request.param)
