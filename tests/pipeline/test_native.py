"""C modules are used only if they were built from the current sources."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dali_proxy import _doctor as doctor
from pipeline import _native as native
from pipeline._native import FOLDERS, checksum, find_compiled
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
def test_module_that_is_out_of_date_is_left_out(module: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("_imaging", "_ipc"):
        monkeypatch.setitem(sys.modules, f"pipeline.{folder}._native", module)
    assert find_compiled("_imaging") is None
    assert find_compiled("_ipc") is None
    assert sorted(native.OUT_OF_DATE) == ["_imaging", "_ipc"]


def test_doctor_names_modules_that_are_out_of_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if len(BUILT) < len(FOLDERS):
        pytest.skip("the package was installed without a C compiler")
    (made,) = [check for check in doctor.examine() if check.name == "compiled loops"]
    assert made.status == "ok"
    sources = ROOT / "pipeline"
    for path in [*sources.rglob("*.[ch]"), ROOT / "setup.py"]:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    with (tmp_path / "pipeline/_video/_native.c").open("a") as changed:
        changed.write("// another line")
    monkeypatch.setattr(native, "_HERE", tmp_path / "pipeline")
    (made,) = [check for check in doctor.examine() if check.name == "compiled loops"]
    assert made.status == "optional"
    assert made.detail == "out of date: older than their sources: _video"


def test_sources_are_those_of_the_folder_and_shared_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_HERE", tmp_path)
    files = [tmp_path / "bulk/_native.c", tmp_path / "bulk/_own.h", tmp_path / "shared.h"]
    files[0].parent.mkdir()
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


def test_module_without_a_checkout_is_taken_as_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "pipeline._bulk._native", module)
    monkeypatch.setattr(native, "_HERE", tmp_path)
    assert find_compiled("_bulk") is module
