"""Sessions for nox: the tests on each Python, and with the oldest and newest dependencies.

    nox --list
    nox --session tests-3.13                    the quick tests on one Python
    nox --session lowest -- tests/pipeline      other tests

Each session builds the wheel and runs the tests against it, as users have it. With uv installed, nox also finds and
downloads interpreters (`nox --download-python auto`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
QUICK = [
    "tests/pipeline/imaging",
    "tests/pipeline/ipc",
    "tests/pipeline/bulk",
    "tests/pipeline/definition",
    "tests/dali_proxy/test_determinism.py",
    "tests/dali_proxy/test_errors.py",
    "tests/dali_proxy/test_identity.py",
    "tests/dali_proxy/worker",
]
"""Tests of the C modules, the processes and the loader, in a few minutes."""
COPIED = ["tests", "docs", "examples", "benchmarks", "README.md", "pyproject.toml"]
SETTINGS = nox.project.load_toml("pyproject.toml")["project"]
DEPENDENCIES: list[str] = SETTINGS["dependencies"]
TOOLS: list[str] = [each for each in SETTINGS["optional-dependencies"]["test"] if each.startswith(("pytest", "hypo"))]

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "tests"]


def run_tests(session: nox.Session, *requirements: str) -> None:
    """Install the wheel with requirements, and run tests in a folder without the packages' sources."""
    folder = Path(session.create_tmp()).resolve()
    session.install("build")
    session.run("python", "-m", "build", "--wheel", "--outdir", str(folder), env={"DALI_PROXY_NATIVE": "1"})
    (wheel,) = folder.glob("*.whl")
    session.install(str(wheel), *requirements, *TOOLS, *SETTINGS["optional-dependencies"]["demo"])
    wheel.unlink()
    for name in COPIED:
        copy = shutil.copytree if Path(name).is_dir() else shutil.copy2
        copy(name, folder / name, **({"dirs_exist_ok": True} if Path(name).is_dir() else {}))
    session.chdir(folder)
    session.run("python", Path(__file__).parent / ".ci" / "check_wheel.py")
    session.run("python", "-m", "pytest", "-m", "not gpu and not slow and not parity", *(session.posargs or QUICK))


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Test on a Python, with the versions that pip chooses."""
    run_tests(session)


@nox.session(python=["3.10", "3.11"])
def lowest(session: nox.Session) -> None:
    """Test with the lowest version of each dependency; newer Pythons have no wheels of them."""
    run_tests(session, *(each.replace(">=", "==") for each in DEPENDENCIES))


@nox.session(python="3.11")
def newest(session: nox.Session) -> None:
    """Test with the newest version of each dependency, also before its release."""
    session.env["PIP_PRE"], session.env["UV_PRERELEASE"] = "1", "allow"
    run_tests(session, "--upgrade", *DEPENDENCIES)


@nox.session(python="3.11")
def audit(session: nox.Session) -> None:
    """Compare the versions in constraints.txt with the advisories on PyPI."""
    session.install("pip-audit")
    session.run("pip-audit", "--no-deps", "--disable-pip", "--requirement", "constraints.txt")


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Check style and types; the examples are also checked by pyright, as editors do."""
    extras = SETTINGS["optional-dependencies"]
    session.install("-c", "constraints.txt", "-e", ".[test,examples,video]", "pyright[nodejs]", *extras["bench"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("mypy", "--config-file=", "--ignore-missing-imports", "--python-version=3.10", "examples")
    session.run("pyright")


@nox.session(python="3.11")
def docs(session: nox.Session) -> None:
    """Build the documentation."""
    session.install("-c", "constraints.txt", "-e", ".[docs]")
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})
