"""`make sanitize-gpu`, which needs NVIDIA's compute-sanitizer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import sanitize
from tests.environment import ROOT, with_project

WITHOUT_OPTIONAL_PACKAGES = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"astropy", "av", "fsspec", "lmdb", "lz4", "miniaudio", "numba", "soundfile"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
import pytest
sys.exit(pytest.main(["-q", "-m", "gpu", "--collect-only", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def test_missing_sanitizer_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sanitize.shutil, "which", lambda name, path: None)
    monkeypatch.setattr(sanitize.sys, "argv", ["sanitize"])
    assert sanitize.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "compute-sanitizer isn't installed: pip install 'nvidia-cuda-sanitizer-api>=13.5', or add it to PATH"
    ]


@pytest.mark.thorough
def test_gpu_tests_are_collected_without_optional_packages() -> None:
    """Modules that need a package are skipped as a whole, instead of ending the run by an error."""
    folders = ("tests/parity", "tests/pipeline", "tests/test_fuzz.py")
    assert all(path.startswith(folders) for path in sanitize.TESTS)
    command = [sys.executable, "-c", WITHOUT_OPTIONAL_PACKAGES, *folders]
    done = subprocess.run(
        command, cwd=ROOT, env=with_project(), capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), done.stdout + done.stderr
    assert " deselected" in done.stdout
