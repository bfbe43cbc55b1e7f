"""Sessions for nox: the tests on each Python, and with the oldest and newest dependencies.

    nox --list
    nox --session tests-3.13                    the quick tests on one Python
    nox --session lowest -- tests/pipeline      other tests

Each session builds the sdist, from it the wheel, and runs the tests against that, as users have it. nox needs uv
(`pip install 'nox[uv]'`), which also downloads missing interpreters (`nox --download-python auto`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import nox

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
QUICK = [
    "tests/dali_proxy/benchmark",
    "tests/dali_proxy/cli",
    "tests/dali_proxy/cluster",
    "tests/dali_proxy/common",
    "tests/dali_proxy/consumer/test_interop.py",
    "tests/dali_proxy/doctor",
    "tests/dali_proxy/host/test_process.py",
    "tests/dali_proxy/iterators/test_readers.py",
    "tests/dali_proxy/loader/test_loader.py",
    "tests/dali_proxy/loader/test_resume.py",
    "tests/dali_proxy/monitor",
    "tests/dali_proxy/nvidia/test_install.py",
    "tests/dali_proxy/pool/test_dataset_workers.py",
    "tests/dali_proxy/server/test_server.py",
    "tests/dali_proxy/server/test_telemetry.py",
    "tests/dali_proxy/test_errors.py",
    "tests/dali_proxy/test_exits.py",
    "tests/dali_proxy/test_identity.py",
    "tests/dali_proxy/test_notebooks.py",
    "tests/dali_proxy/test_shadowing.py",
    "tests/dali_proxy/test_sources.py",
    "tests/dali_proxy/transport",
    "tests/dali_proxy/worker",
    "tests/pipeline/auto_aug/test_schemes.py",
    "tests/pipeline/bulk",
    "tests/pipeline/catalog",
    "tests/pipeline/codecs",
    "tests/pipeline/compiler",
    "tests/pipeline/concurrency",
    "tests/pipeline/definition",
    "tests/pipeline/dynamic",
    "tests/pipeline/executor",
    "tests/pipeline/external_source",
    "tests/pipeline/graph",
    "tests/pipeline/imaging",
    "tests/pipeline/ipc",
    "tests/pipeline/kernels/test_kernel_cache.py",
    "tests/pipeline/operator_api",
    "tests/pipeline/operators/arrays/test_views.py",
    "tests/pipeline/operators/audio",
    "tests/pipeline/operators/decoding",
    "tests/pipeline/operators/random",
    "tests/pipeline/operators/user_code",
    "tests/pipeline/readers",
    "tests/pipeline/remote",
    "tests/pipeline/tensors",
    "tests/pipeline/test_requirements.py",
    "tests/pipeline/test_sheet.py",
    "tests/pipeline/test_size_limit.py",
    "tests/pipeline/torchvision/test_functional.py",
    "tests/pipeline/video/test_decoder.py",
]
"""Tests of every package and every optional dependency, in a few minutes."""
COPIED = ["tests", "docs", "examples", "benchmarks", "README.md", "pyproject.toml"]
SETTINGS = nox.project.load_toml("pyproject.toml")["project"]
EXTRAS: dict[str, list[str]] = SETTINGS["optional-dependencies"]
TOOLS = [each for each in EXTRAS["test"] if each.startswith(("pytest", "hypothesis", "ipykernel"))]
OTHERS = [each for each in EXTRAS["test"] if each not in TOOLS and not each.startswith(("mypy", "ruff"))]
NEEDED: list[str] = [*SETTINGS["dependencies"], *OTHERS, *EXTRAS["demo"], *EXTRAS["video"]]

nox.options.default_venv_backend = "uv"
nox.options.sessions = ["lint", "tests"]


def run_tests(session: nox.Session, **resolution: str) -> None:
    """Install the wheel and what it needs, and run tests in a folder without the packages' sources."""
    folder = Path(session.create_tmp()).resolve()
    session.install("build[uv]")
    shutil.rmtree(folder / "dist", ignore_errors=True)
    session.run("python", "-m", "build", "--installer=uv", f"--outdir={folder}/dist", env={"DALI_PROXY_NATIVE": "1"})
    (wheel,) = folder.glob("dist/*.whl")
    session.install("--reinstall-package=dali-proxy", str(wheel), *NEEDED, env=resolution)
    session.install(*TOOLS)
    session.run("uv", "pip", "list", "--quiet", external=True)
    for name in COPIED:
        copy = shutil.copytree if Path(name).is_dir() else shutil.copy2
        copy(name, folder / name, **({"dirs_exist_ok": True} if Path(name).is_dir() else {}))
    session.chdir(folder)
    session.run("python", Path(__file__).parent / ".ci" / "check_wheel.py")
    session.run("python", "-m", "pytest", "-m", "not gpu and not slow and not parity", *(session.posargs or QUICK))


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Test on a Python, with the newest release of each dependency."""
    run_tests(session)


@nox.session(python=PYTHONS)
def lowest(session: nox.Session) -> None:
    """Test with the lowest version of each dependency that has a wheel for this Python."""
    run_tests(session, UV_RESOLUTION="lowest-direct", UV_NO_BUILD="1")


@nox.session(python="3.11")
def newest(session: nox.Session) -> None:
    """Test with the newest version of each dependency, also before its release."""
    run_tests(session, UV_PRERELEASE="allow", UV_UPGRADE="1")


@nox.session(python="3.11")
def audit(session: nox.Session) -> None:
    """Compare the versions in constraints.txt with the advisories on PyPI."""
    session.install("pip-audit")
    session.run("pip-audit", "--no-deps", "--disable-pip", "--requirement", "constraints.txt")


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Check style and types; the examples are also checked by pyright, as editors do."""
    session.install("-c", "constraints.txt", "-e", ".[test,examples,video]", "pyright[nodejs]", *EXTRAS["bench"])
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
