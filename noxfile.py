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
    "tests/dali_proxy/cluster/test_result_stream.py",
    "tests/dali_proxy/common",
    "tests/dali_proxy/consumer/test_consumer.py",
    "tests/pipeline/tensors/test_interop.py",
    "tests/dali_proxy/doctor",
    "tests/dali_proxy/host/test_scheduler.py",
    "tests/dali_proxy/host/test_store.py",
    "tests/dali_proxy/iterators/test_progress.py",
    "tests/dali_proxy/loader/test_loader.py",
    "tests/dali_proxy/monitor/test_web.py",
    "tests/dali_proxy/new",
    "tests/dali_proxy/nvidia/test_borrowed.py",
    "tests/dali_proxy/nvidia/test_check.py",
    "tests/dali_proxy/pool/test_dataset_workers.py",
    "tests/dali_proxy/server/test_serve.py",
    "tests/dali_proxy/server/test_telemetry.py",
    "tests/dali_proxy/test_errors.py",
    "tests/dali_proxy/transport/test_slots.py",
    "tests/dali_proxy/worker",
    "tests/pipeline/auto_aug/test_schemes.py",
    "tests/pipeline/bulk",
    "tests/pipeline/cache",
    "tests/pipeline/catalog",
    "tests/pipeline/codecs/test_headers.py",
    "tests/pipeline/compiler/test_fused_samples.py",
    "tests/pipeline/compiler/test_recorded_launches.py",
    "tests/pipeline/concurrency",
    "tests/pipeline/cuda/test_kernel_cache.py",
    "tests/pipeline/definition/test_conditional.py",
    "tests/pipeline/definition/test_pipeline.py",
    "tests/pipeline/definition/test_serialization.py",
    "tests/pipeline/dynamic/test_calls.py",
    "tests/pipeline/executor/test_results.py",
    "tests/pipeline/external_source/test_serial.py",
    "tests/pipeline/external_source/test_spec.py",
    "tests/pipeline/graph",
    "tests/pipeline/imaging/test_decode.py",
    "tests/pipeline/imaging/test_small_loops.py",
    "tests/pipeline/ipc/test_arena.py",
    "tests/pipeline/ipc/test_memory.py",
    "tests/pipeline/ipc/test_messages.py",
    "tests/pipeline/ipc/test_pickling.py",
    "tests/pipeline/kernels/test_samples.py",
    "tests/pipeline/operator_api",
    "tests/pipeline/operators/arrays/test_views.py",
    "tests/pipeline/operators/audio/test_audio.py",
    "tests/pipeline/operators/decoding/test_decoders.py",
    "tests/pipeline/operators/decoding/test_inflate.py",
    "tests/pipeline/operators/geometry/test_resize.py",
    "tests/pipeline/operators/user_code/test_operator_def.py",
    "tests/pipeline/readers/test_caffe.py",
    "tests/pipeline/readers/test_fits.py",
    "tests/pipeline/readers/test_numpy.py",
    "tests/pipeline/readers/test_webdataset.py",
    "tests/pipeline/remote/test_reading.py",
    "tests/pipeline/tensors",
    "tests/pipeline/test_requirements.py",
    "tests/pipeline/test_sheet.py",
    "tests/pipeline/test_size_limit.py",
    "tests/pipeline/torchvision/test_functional.py",
    "tests/pipeline/video/test_pixels.py",
]
"""Tests of every package and every optional dependency, in about two minutes."""
COPIED = ["tests", "docs", "examples", "benchmarks", "README.md", "pyproject.toml"]
SETTINGS = nox.project.load_toml("pyproject.toml")["project"]
EXTRAS: dict[str, list[str]] = SETTINGS["optional-dependencies"]
#: Installed last, without a choice of versions: torch needs a certain one of nvidia-cuda-nvrtc, or comes without it.
TOOLS = [each for each in EXTRAS["test"] if each.startswith(("pytest", "hypothesis", "ipykernel", "nvidia-cuda-nvrtc"))]
OTHERS = [each for each in EXTRAS["test"] if each not in TOOLS and not each.startswith(("mypy", "ruff"))]
NEEDED: list[str] = [*SETTINGS["dependencies"], *OTHERS, *EXTRAS["demo"], *EXTRAS["video"]]

nox.options.default_venv_backend = "uv"
nox.options.sessions = ["lint", "tests"]


def run_tests(session: nox.Session, *options: str, **resolution: str) -> None:
    """Install the wheel and what it needs, and run tests in a folder without the packages' sources.

    Args:
        session: the session.
        options: options of `uv pip install`.
        resolution: environment variables of uv.
    """
    folder = Path(session.create_tmp()).resolve()
    session.install("build[uv]")
    shutil.rmtree(folder / "dist", ignore_errors=True)
    session.run("python", "-m", "build", "--installer=uv", f"--outdir={folder}/dist", env={"DALI_PROXY_NATIVE": "1"})
    (wheel,) = folder.glob("dist/*.whl")
    session.install("--reinstall-package=dali-proxy", *options, str(wheel), *NEEDED, env=resolution)
    session.install(*TOOLS)
    session.run("uv", "pip", "list", external=True)
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
    run_tests(session, "--no-build", UV_RESOLUTION="lowest-direct")


@nox.session(python="3.11")
def newest(session: nox.Session) -> None:
    """Test with the newest version of each dependency, also before its release."""
    run_tests(session, UV_PRERELEASE="allow", UV_UPGRADE="1")


@nox.session(python="3.11")
def audit(session: nox.Session) -> None:
    """Compare the versions in constraints.txt with the advisories on PyPI. Name those without data there."""
    report = str(Path(session.create_tmp()) / "audit.json")
    session.install("pip-audit")
    options = ("--no-deps", "--disable-pip", "--requirement=constraints.txt", "--format=json", f"--output={report}")
    session.run("pip-audit", *options, success_codes=[0, 1], silent=True)  # the next line says what it found
    session.run("python", ".ci/audit.py", report)


@nox.session(python="3.11")
def coverage(session: nox.Session) -> None:
    """Measure which lines the quick tests run in their own process, and write coverage.xml."""
    session.install("-c", "constraints.txt", "-e", ".[test,demo,examples,video]", "pytest-cov")
    options = ("--cov=dali_proxy", "--cov=pipeline", "--cov-report=term:skip-covered", "--cov-report=xml")
    session.run(
        "python", "-m", "pytest", "-m", "not gpu and not slow and not parity", *options, *(session.posargs or QUICK)
    )


@nox.session(python="3.11")
def lint(session: nox.Session) -> None:
    """Check style and types; pyright, which editors use, also checks the examples and the first pages."""
    session.install("-c", "constraints.txt", "-e", ".[test,examples,video]", "pyright[nodejs]", *EXTRAS["bench"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("mypy", "--config-file=", "--ignore-missing-imports", "--python-version=3.10", "examples")
    session.run("pyright")
    session.run("python", "-m", "pytest", "tests/test_documents.py", "-k", "editors")


@nox.session(python="3.11")
def docs(session: nox.Session) -> None:
    """Build the documentation."""
    session.install("-c", "constraints.txt", "-e", ".[docs]")
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})
