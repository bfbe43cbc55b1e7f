"""Packages that are too old are reported in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dali_proxy.pipeline._optional import optional_package
from dali_proxy.pipeline._requirements import NEEDED, too_old
from pipeline import _requirements
from pipeline.errors import BuildError

ROOT = Path(__file__).resolve().parents[2]


def install(folder: Path, name: str, version: str, *requirements: str) -> None:
    """Create the metadata of a distribution as pip does."""
    target = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    target.mkdir()
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *requirements]
    (target / "METADATA").write_text("\nRequires-Dist: ".join(lines) + "\n\nVersion: of the description\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with distributions, before all others."""
    install(
        tmp_path,
        "dali-proxy",
        "1.0",
        "numpy!=2.1.0,!=2.1.1,>=2.0",
        "torch>=2.6",
        "lmdb>=1.4.1; extra == 'lmdb'",
        "pillow >=10.3",
    )
    monkeypatch.syspath_prepend(tmp_path)
    for function in (_requirements._bounds, too_old):
        function.cache_clear()
    yield tmp_path
    for function in (_requirements._bounds, too_old):
        function.cache_clear()


def test_all_needed_packages_are_checked() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    listed = settings.partition("\ndependencies = [")[2].partition("]")[0]
    assert re.findall(r'"([\w-]+)>=', listed) == list(NEEDED)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.26.4", "numpy 2.0 or newer except 2.1.0 and 2.1.1, not 1.26.4"),
        ("2.1.1", "numpy 2.0 or newer except 2.1.0 and 2.1.1, not 2.1.1"),
        ("2.1.2", ""),
        ("2.0", ""),
        ("2.0.0rc1", ""),
        ("10.1+cpu", ""),
    ],
)
def test_version_below_the_bound_is_too_old(version: str, reason: str, site: Path) -> None:
    install(site, "numpy", version)
    assert too_old("numpy") == reason
    assert too_old("unknown-package") == ""


def test_optional_package_that_is_too_old_is_an_error(site: Path) -> None:
    pytest.importorskip("lmdb")
    install(site, "lmdb", "1.3")
    with pytest.raises(BuildError, match=r"^reading LMDB needs lmdb 1\.4\.1 or newer, not 1\.3: pip install --upgrade"):
        optional_package("lmdb", "reading LMDB", "lmdb")


def test_old_python_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    with pytest.raises(ImportError, match=r"^dali-proxy needs Python 3\.10 or newer, not 3\.9\.18$"):
        _requirements.check_requirements.__wrapped__()


@pytest.mark.parametrize(
    ("arguments", "prefix"),
    [
        (["-c", "import dali_proxy; dali_proxy.DALIServer"], "ImportError: "),
        (["-c", "from pipeline import fn"], "ImportError: "),
        (["-m", "dali_proxy", "demo"], "dali-proxy: "),
    ],
)
def test_old_packages_are_one_line(arguments: list[str], prefix: str, site: Path) -> None:
    install(site, "torch", "2.5.1+cu124")
    install(site, "numpy", "1.26.4")
    run = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": f"{site}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    *others, last = run.stderr.splitlines()
    assert last == (
        f"{prefix}dali-proxy needs torch 2.6 or newer, not 2.5.1+cu124, numpy 2.0 or newer except 2.1.0 and "
        "2.1.1, not 1.26.4: pip install --upgrade dali-proxy"
    )
    assert prefix == "ImportError: " or not others
