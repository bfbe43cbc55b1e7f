"""The examples in the documents run, and the documents describe the tree correctly."""

from __future__ import annotations

import importlib.util
import json
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import dali_proxy
from dali_proxy import pipeline
from docs.map import with_map
from tests.clips import Clips
from tests.environment import ROOT, with_project
from tests.preloaded import run_python

#: A Python block, with the name of its file if it is one.
BLOCK = re.compile(r'^```python(?: title="([\w.]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if BLOCK.search(path.read_text(encoding="utf-8"))
)


def blocks(document: str) -> list[tuple[str, str]]:
    """Return the Python blocks of a document with their titles."""
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


ABSENT_GPU = re.compile(r"script.py:\d+: RuntimeWarning: device_id=0 has no effect.*\n.*\n")


@pytest.mark.timeout(300)  # pages start several servers
@pytest.mark.parametrize("document", PAGES)
def test_examples_run(document: str, tmp_path: Path, jpeg_folder: Path, clips: Clips) -> None:
    """The Python blocks of a document form a script that runs, beside the file of the tutorial."""
    for title, code in blocks("docs/tutorial.md"):
        if title == "photos.py":
            (tmp_path / title).write_text(code, encoding="utf-8")
    if document != "docs/tutorial.md":  # it draws images
        (tmp_path / "photos").symlink_to(jpeg_folder)
    for folder in ("a", "b"):
        (tmp_path / "clips" / folder).mkdir(parents=True)
        (tmp_path / "clips" / folder / "0.mp4").symlink_to(clips.path("h264.mp4"))
    script = "\n\n".join(code for title, code in blocks(document) if title != "photos.py")
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    run = run_python("script.py", cwd=tmp_path, env=with_project(), forks_servers=True)
    assert run.returncode == 0, run.stderr
    assert not ABSENT_GPU.sub("", run.stderr)


def write_first_pages(folder: Path) -> list[str]:
    """Write the code of the first pages that users read, and return the names of the files."""
    tutorial = blocks("docs/tutorial.md")
    texts = {
        "photos.py": "".join(code for title, code in tutorial if title == "photos.py"),
        "tutorial.py": "".join(code for title, code in tutorial if title != "photos.py"),
        "readme.py": "".join(code for _, code in blocks("README.md")),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return list(texts)


@pytest.mark.timeout(300)
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="nox --session lint installs pyright")
def test_editors_accept_the_first_pages(tmp_path: Path) -> None:
    write_first_pages(tmp_path)
    settings = {"extraPaths": [str(ROOT)], "pythonVersion": "3.10", "reportMissingModuleSource": "none"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    program = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(tmp_path)]
    run = subprocess.run(program, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


#: Scripts of users have no annotations, and may import packages without types.
FOR_SCRIPTS = """
[[tool.mypy.overrides]]
module = {names}
check_untyped_defs = true
disallow_any_generics = false
disallow_incomplete_defs = false
disallow_subclassing_any = false
disallow_untyped_calls = false
disallow_untyped_decorators = false
disallow_untyped_defs = false
disable_error_code = ["import-not-found", "import-untyped"]
warn_return_any = false
"""


@pytest.mark.thorough
@pytest.mark.timeout(300)  # without a cache, mypy reads torch
def test_first_pages_examples_and_transforms_have_types(tmp_path: Path) -> None:
    """Mypy accepts the code of the first pages that users read and the examples, and knows the transforms.

    The settings are those of `make lint`, whose cache has the types of torch and of the packages.
    """
    wrong = "from pipeline.torchvision import Compose, Resize\nCompose([Resize(8)])\nResize(siz=8)\n"
    (tmp_path / "transforms.py").write_text(wrong, encoding="utf-8")
    scripts = [tmp_path / name for name in (*write_first_pages(tmp_path), "transforms.py")]
    scripts += sorted((ROOT / "examples").glob("*.py"))
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    modules = json.dumps([path.stem for path in scripts])
    (tmp_path / "pyproject.toml").write_text(settings + FOR_SCRIPTS.format(names=modules), encoding="utf-8")
    paths = [os.path.relpath(path, ROOT) for path in scripts]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", f"--config-file={tmp_path / 'pyproject.toml'}", "--no-error-summary", *paths],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line.rpartition("/")[2] for line in run.stdout.splitlines() if ": note: " not in line]
    assert [error for error in errors if not error.startswith("transforms.py:3: ")] == []
    assert 'Unexpected keyword argument "siz" for "Resize"' in run.stdout


#: Folders with modules.
FOLDERS = ("benchmarks", "dali_proxy", "docs", "examples", "pipeline", "tests")

#: Files of users that documents talk about.
OF_USERS = {"old.py", "photos.py", "pipeline.py", "pipes.py", "resource.py", "script.py", "train.py"}


def test_files_that_documents_name_exist() -> None:
    """A name may leave out the first folders of a path."""
    kinds = r"py|pyi|[ch]|cuh?|md"
    files = [path for folder in (".ci", *FOLDERS) for path in (ROOT / folder).rglob("*.*")] + [*ROOT.glob("*.*")]
    known = {f"/{path.relative_to(ROOT).as_posix()}" for path in files if re.fullmatch(kinds, path.suffix[1:])}
    missing = set()
    for document in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"):
        for name in re.findall(rf"`([\w./-]+\.(?:{kinds}))`", document.read_text(encoding="utf-8")):
            if name not in OF_USERS and not any(each.endswith(f"/{name}") for each in known):
                missing.add(f"{document.name}: {name}")
    assert sorted(missing) == []


def test_python_blocks_run_or_have_a_reason() -> None:
    """A fence that isn't run, or isn't recognized as Python, gives its reason."""
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for fence in re.findall(r"^ *(```+ *[pP]y.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert re.fullmatch(r'```python( title="[\w.]+"| notest="[^"]+")?', fence), f"{path}: {fence}"


def test_code_of_the_pages_fits_on_a_laptop() -> None:
    """Its screen shows 100 columns (docs/figures/site.css)."""
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for code in re.findall(r"^```python.*?^```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            assert [line for line in code.splitlines()[1:] if len(line) > 100] == [], path


def test_links_lead_to_files_of_the_site() -> None:
    """Links of the site's pages lead to files that exist and that the site contains, as `make docs` requires it."""
    docs, results = ROOT / "docs", ROOT / "benchmarks" / "results"
    for page in (*docs.rglob("*.md"), *results.glob("2*.md")):
        text = re.sub(
            r"^ *```.*?^ *```$|`[^`\n]+`", "`", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            target = (page.parent / link).resolve()
            in_site = target.is_relative_to(docs) or target.is_relative_to(results)
            assert "://" in link or (target.exists() and in_site), f"{page}: {link}"


@pytest.mark.parametrize("package", [dali_proxy, pipeline], ids=lambda package: package.__name__)
def test_reference_has_all_public_names(package: ModuleType) -> None:
    """The page of a package has all its names. `errors` documents the exceptions, and `fn` and `ops` have a page."""
    name = package.__name__.rpartition(".")[2]
    text = (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")
    shown = {
        *re.findall(rf"^::: {package.__name__}\.(\w+)", text, re.MULTILINE),
        *vars(importlib.import_module(f"{package.__name__}.errors")),
    }
    elsewhere = {"torchvision", *pipeline.__all__} if package is dali_proxy else {"dynamic", "fn", "ops"}
    assert {*package.__all__} - {*shown} <= elsewhere


@pytest.mark.parametrize("page", ["dali_proxy", "pipeline"])
def test_names_of_the_reference_are_defined_in_dali_proxy(page: str) -> None:
    """The package `pipeline` has only stubs, which aren't read for the reference."""
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")
    for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE):
        optional = name == "dali_proxy.pipeline.dynamic.pytorch.nodes"  # needs torchdata
        assert name.startswith("dali_proxy."), name
        assert optional or pydoc.locate(name) is not None, name


def test_map_of_the_code_is_current() -> None:
    """CONTRIBUTING.md contains the tree of packages with their docstrings, which `python -m docs.map` writes."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "pipeline/ " in text
    assert with_map(text) == text, "run `python -m docs.all`"


@pytest.mark.parametrize("page", ["reliability", "security"])
def test_promises_name_existing_tests(page: str) -> None:
    """The tables of these pages name a test for each promise, and all these tests exist."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    heads = r"^\| (promise|what happens|what happened|claim) \|(.*\|)* test \|\n\|[-| ]+\|\n((?:\|.*\|\n)+)"
    rows = [row for *_, table in re.findall(heads, text, re.MULTILINE) for row in table.splitlines()]
    assert len(rows) > 20
    for row in rows:
        last = row.rpartition("|")[0].rpartition(" | ")[2]
        named = re.findall(r"`(?:([\w/]+\.py)(?:::)?)?(test_\w+)?`", last)
        assert any(file for file, _ in named), f"no test is named: {row}"
        file = ""
        for there, test in named:
            file = there or file
            source = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert not test or f"def {test}(" in source, f"{file} has no {test}"
            left_out = re.search(rf"^@pytest.mark.thorough\n(?:@.*\n)*def {test}\(", source, re.MULTILINE)
            assert not left_out, f"make test must run {test}"
