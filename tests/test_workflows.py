"""The files of GitHub and of nox are valid, and name commands, sessions and tests that exist."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="needs PyYAML")

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def constants() -> dict[str, Any]:
    """Return the lists that the nox file declares."""
    body = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body
    pairs = [(each.targets[0], each.value) for each in body if isinstance(each, ast.Assign)]
    names = [(each.id, value) for each, value in pairs if isinstance(each, ast.Name)]
    return {name: ast.literal_eval(value) for name, value in names if name in ("PYTHONS", "QUICK")}


def sessions() -> set[str]:
    """Return the names of nox's sessions."""
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    names = set()
    for python, name in re.findall(r"^@nox\.session\(python=(.*)\)\ndef (\w+)", text, re.MULTILINE):
        names |= {f"{name}-{each}" for each in constants()["PYTHONS"]} if python == "PYTHONS" else {name}
    return names


def commands(job: dict[str, Any]) -> list[str]:
    """Return the commands of a job, for each value of its matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    lines = [step["run"] for step in job["steps"] if "run" in step]
    for key, values in matrix.items():
        lines = [line.replace(f"${{{{ matrix.{key} }}}}", value) for line in lines for value in values]
    return lines


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_names_existing_commands(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for job in workflow["jobs"].values():
        assert all("uses" in step or "run" in step for step in job["steps"])
        for command in commands(job):
            if session := re.search(r"nox .*--session (\S+)", command):
                assert session[1] in sessions()
            elif command.startswith("make "):
                assert command.split()[1] in targets
            elif command.startswith("."):
                assert os.access(ROOT / command, os.X_OK)
            else:
                assert re.match(r"(pip install|pipx run|uvx --from griffe griffe check) ", command)


def test_workflow_can_write_only_where_it_publishes() -> None:
    """A job that may write runs no code of a pull request."""
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        events = workflow[True]  # YAML 1.1 reads `on` as a boolean
        assert "permissions" in workflow, path
        for job in workflow["jobs"].values():
            rights = job.get("permissions", workflow["permissions"])
            foreign = any("ref" in step.get("with", {}) for step in job["steps"])
            if "write" in rights.values():
                assert "pull_request" not in events or "if" in job, path
                assert not foreign, path


def test_gpu_jobs_are_skipped_without_a_runner() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "gpu.yml").read_text(encoding="utf-8"))
    assert all(job["if"] == "vars.GPU_RUNNER == '1'" for job in workflow["jobs"].values())
    assert "schedule" in workflow[True]


def test_dependabot_watches_actions_and_packages() -> None:
    settings = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))
    assert {each["package-ecosystem"] for each in settings["updates"]} == {"github-actions", "pip"}


def test_comment_counts_lines_of_code_by_folder() -> None:
    numstat = (
        "3\t1\tpipeline/fn.py\n9\t9\tpipeline/fn.pyi\n2\t0\ttests/{a.py => b.py}\n-\t-\tpipeline/x.py\n1\t4\tsetup.py\n"
    )
    command = [sys.executable, ROOT / ".ci" / "lines.py"]
    run = subprocess.run(command, input=numstat, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[4:] == [
        "| `.` | 1 | 4 | -3 |",
        "| `pipeline` | 3 | 1 | +2 |",
        "| `tests` | 2 | 0 | +2 |",
        "| **sum** | 6 | 5 | +1 |",
    ]


def test_makefile_defines_each_target_once() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    defined = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert sorted(defined) == sorted(phony[1].split())


def test_matrix_runs_every_python_with_lowest_and_newest_packages() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    tested = set(workflow["jobs"]["matrix"]["strategy"]["matrix"]["session"])
    assert tested == {each for each in sessions() if each.startswith(("tests", "lowest", "newest"))}


def test_all_tests_run_for_a_change_and_each_night() -> None:
    """`make test` leaves out tests with the marker `thorough`."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["all"]["steps"][-1]["run"] == ".ci/run"
    assert {"pull_request", "schedule"} <= workflow[True].keys()
    assert "\nfor target in test test-thorough; do\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    marks = dict(re.findall(r'^(test[a-z-]*):.*\n\t.* pytest -m "(.*?)"', makefile, re.MULTILINE))
    assert marks == {"test": "not gpu and not thorough", "test-thorough": "thorough and not gpu"}


def test_servers_in_a_cluster_and_clients_of_stores_are_tested() -> None:
    """`make test` has neither Ray nor the clients of stores, and skips these tests."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    assert "make test-cluster" in [command for job in workflow["jobs"].values() for command in commands(job)]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^CLUSTER := .*\bray-train,test-stores$", makefile, re.MULTILINE)
    command = re.search(r"^test-cluster: \$\(CLUSTER\) .*\n\t(.*)", makefile, re.MULTILINE)
    assert command is not None
    assert command[1].startswith("DALI_PROXY_REQUIRE_CLUSTER=1 ")  # no test is skipped for want of a package
    assert " pytest tests/dali_proxy/cluster tests/pipeline/remote " in command[1]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_issue_template_is_valid(path: Path) -> None:
    template = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem != "config":
        assert {"name", "description", "body"} <= set(template)
        assert all(each["type"] == "textarea" and each["attributes"]["label"] for each in template["body"])


def test_quick_tests_exist_and_touch_every_package() -> None:
    quick = [ROOT / each for each in constants()["QUICK"]]
    assert all(each.exists() for each in quick)
    for package in ("pipeline", "dali_proxy"):
        for folder in (ROOT / "tests" / package).iterdir():
            if folder.is_dir() and any(folder.rglob("test_*.py")):
                assert any(each == folder or folder in each.parents for each in quick), folder


class Index(BaseHTTPRequestHandler):
    """An index that has data for the newest version of each package only: 2.0, except of the package `unknown`."""

    def do_GET(self) -> None:
        name = self.path.split("/")[1]
        advisories = [{"id": "PYSEC-1"}] if name == "bad" else []
        body = json.dumps({"info": {"version": "2.0"}, "vulnerabilities": advisories}).encode()
        self.send_response(404 if name == "unknown" else 200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Write nothing."""


@pytest.mark.parametrize(
    ("dependencies", "status", "lines"),
    [
        ({"good": "2.0"}, 0, ["1 of 1 versions were checked. 0 have advisories."]),
        ({"good": "2.0", "bad": "2.0"}, 1, ["2 of 2 versions were checked. 1 have advisories.", "bad 2.0: PYSEC-1"]),
        ({"good": "1.9"}, 1, ["0 of 1 versions were checked. 0 have advisories.", "good 1.9 (newest: 2.0)"]),
        ({"unknown": "2.0"}, 1, ["0 of 1 versions were checked. 0 have advisories.", "unknown 2.0"]),
    ],
    ids=["good", "bad", "older", "unknown"],
)
def test_audit_says_what_it_could_not_check(
    dependencies: dict[str, str], status: int, lines: list[str], tmp_path: Path
) -> None:
    skipped = "Dependency not found on PyPI and could not be audited: {} ({})"  # as pip-audit says it
    found = [{"name": name, "skip_reason": skipped.format(name, version)} for name, version in dependencies.items()]
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"dependencies": found}))
    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as index:
        serving = threading.Thread(target=index.serve_forever)
        serving.start()
        command = [sys.executable, ROOT / ".ci" / "audit.py", report, f"http://127.0.0.1:{index.server_port}"]
        environment = {**os.environ, "no_proxy": "127.0.0.1"}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        index.shutdown()
        serving.join()
    assert run.returncode == status, run.stderr
    assert all(line in run.stdout for line in lines), run.stdout


def test_audit_names_what_pip_audit_found(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"dependencies": [{"name": "torch", "version": "1.0", "vulns": [{"id": "CVE-1"}]}]}))
    command = [sys.executable, ROOT / ".ci" / "audit.py", report]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "torch 1.0: CVE-1" in run.stdout
