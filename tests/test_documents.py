"""The examples in the documents run, and the documents describe the tree correctly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.map import with_map
from tests.clips import Clips
from tests.environment import ROOT, with_project
from tests.preloaded import run_python


@pytest.mark.timeout(300)  # the guide starts several servers
@pytest.mark.parametrize(
    "document",
    ["README.md", *(f"docs/{name}.md" for name in ("guide", "dynamic", "torchvision", "migrating", "new-operator"))],
)
def test_examples_run(document: str, tmp_path: Path, jpeg_folder: Path, clips: Clips) -> None:
    """The Python blocks of a document form a script that runs."""
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert blocks
    (tmp_path / "photos").symlink_to(jpeg_folder)
    for folder in ("a", "b"):
        (tmp_path / "clips" / folder).mkdir(parents=True)
        (tmp_path / "clips" / folder / "0.mp4").symlink_to(clips.path("h264.mp4"))
    (tmp_path / "script.py").write_text("\n\n".join(blocks), encoding="utf-8")
    run = run_python("script.py", cwd=tmp_path, env=with_project())
    assert run.returncode == 0, run.stderr
    assert not run.stderr


def test_map_of_the_code_is_current() -> None:
    """CONTRIBUTING.md contains the tree of packages with their docstrings, which `python -m docs.map` writes."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "pipeline/ " in text
    assert with_map(text) == text


def test_promises_name_existing_tests() -> None:
    """docs/reliability.md names a test for each promise, and all these tests exist."""
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    rows = [row for row in re.findall(r"^\|.*\|$", text, re.MULTILINE) if not re.match(r"\| (promise|what|---)", row)]
    assert rows
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row)
        assert named, f"no test is named: {row}"
        for file, test in named:
            assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file} has no {test}"
