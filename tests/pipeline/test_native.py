"""C modules are used only if they were built from the current sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dali_proxy import _doctor as doctor
from dali_proxy.pipeline._native import FOLDERS, checksum, find_compiled
from pipeline import _native as native
from tests.environment import ROOT

BUILT = [folder for folder in FOLDERS if find_compiled(folder) is not None]


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "OUT_OF_DATE", set())


@pytest.mark.parametrize("folder", BUILT)
def test_module_has_the_checksum_of_its_sources(folder: str) -> None:
    module = find_compiled(folder)
    assert module is not None
    assert module.sources() == checksum(folder)


@pytest.mark.parametrize("module", [SimpleNamespace(), SimpleNamespace(sources=lambda: 1)], ids=["before", "other"])
def test_module_that_is_out_of_date_is_left_out(
    module: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    for folder in ("_imaging", "_ipc"):
        monkeypatch.setitem(sys.modules, f"dali_proxy.pipeline.{folder}._native", module)
    assert [find_compiled(folder) for folder in ("_imaging", "_ipc", "_imaging")] == [None] * 3
    assert [str(each.message) for each in recwarn] == [
        "dali_proxy.pipeline._imaging._native was compiled from other sources than this checkout has, so slower Python "
        f"code takes its place. Run in {ROOT}: python setup.py build_ext --inplace --force"
    ]
    assert sorted(native.OUT_OF_DATE) == ["_imaging", "_ipc"]


def test_doctor_names_modules_that_are_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if len(BUILT) < len(FOLDERS):
        pytest.skip("the package was installed without a C compiler")
    (made,) = [check for check in doctor.examine() if check.name == "compiled loops"]
    assert made.status == "ok"
    sources = ROOT / "dali_proxy" / "pipeline"
    for path in [*sources.rglob("*.[ch]"), ROOT / "setup.py"]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    with (tmp_path / "dali_proxy/pipeline/_video/_native.c").open("a") as changed:
        changed.write("// another line")
    monkeypatch.setattr(native, "_HERE", tmp_path / "dali_proxy" / "pipeline")
    with pytest.warns(RuntimeWarning, match="_video._native was compiled from other sources"):
        (made,) = [check for check in doctor.examine() if check.name == "compiled loops"]
    assert made.status == "optional"
    assert made.detail == "compiled from other sources than this checkout has: _video"
    assert made.advice == f"run in the checkout: {native.COMPILE}"


def test_sources_are_those_of_the_folder_and_shared_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_HERE", tmp_path)
    files = [tmp_path / "bulk/_native.c", tmp_path / "bulk/headers/own.h", tmp_path / "shared.h"]
    files[1].parent.mkdir(parents=True)
    found = []
    for path in files:
        path.write_text("int i;")
        found.append(checksum("bulk"))
    for path in files:
        path.write_text("int j;")
        found.append(checksum("bulk"))
    assert len(set(found)) == len(found)
    (tmp_path / "notes.md").write_text("not C")
    assert checksum("bulk") == found[-1]


@pytest.mark.parametrize(
    "of_others", [[], ["setup.py"], ["dali_proxy/pipeline/_bulk/_native.c"]], ids=["nothing", "setup", "c"]
)
def test_module_without_a_checkout_is_taken_as_installed(
    of_others: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """Other distributions may have installed a setup.py beside the package; a wheel may contain sources."""
    module = SimpleNamespace(sources=lambda: 1)
    monkeypatch.setitem(sys.modules, "dali_proxy.pipeline._bulk._native", module)
    monkeypatch.setattr(native, "_HERE", tmp_path / "dali_proxy" / "pipeline")
    for name in of_others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert find_compiled("_bulk") is module
    assert not recwarn.list


@pytest.mark.parametrize("installed", [False, True], ids=["checkout", "installed"])
def test_process_warns_once_in_a_checkout_only(installed: bool, tmp_path: Path) -> None:
    """A header that all modules include has changed since they were compiled."""
    if len(BUILT) < len(FOLDERS):
        pytest.skip("the package was installed without a C compiler")
    ignored = ["*.[ch]"] if installed else []
    shutil.copytree(
        ROOT / "dali_proxy", tmp_path / "dali_proxy", ignore=shutil.ignore_patterns("__pycache__", *ignored)
    )
    if not installed:
        shutil.copy(ROOT / "setup.py", tmp_path)
        (tmp_path / "dali_proxy" / "pipeline" / "normal_quantile.h").unlink()
    variables = {name: value for name, value in os.environ.items() if name not in ("DALI_PROXY_NATIVE", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-c", "import dali_proxy.pipeline.fn; print(dali_proxy.pipeline.__file__)"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "dali_proxy" / "pipeline" / "__init__.py")
    assert done.stderr.count("was compiled from other sources") == (0 if installed else 1), done.stderr
