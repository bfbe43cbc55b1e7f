"""`make sanitize-gpu`, which needs NVIDIA's compute-sanitizer."""

from __future__ import annotations

import pytest

from tests import sanitize


def test_missing_sanitizer_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sanitize.shutil, "which", lambda name, path: None)
    monkeypatch.setattr(sanitize.sys, "argv", ["sanitize"])
    assert sanitize.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "compute-sanitizer isn't installed: pip install 'nvidia-cuda-sanitizer-api>=13.5', or add it to PATH"
    ]
