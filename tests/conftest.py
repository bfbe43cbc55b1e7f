"""Fixtures for all tests: real images, a separate temporary folder, and a check for leftovers."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from PIL import Image

from tests import lock_order  # first: locks are created on import

# isort: split
from dali_proxy.pipeline._strict import STRICT
from tests.clips import Clips
from tests.gpu_turns import turn
from tests.leftovers import Snapshot, end_processes, forget_what_stays, wait_until_nothing_is_left
from tests.preloaded import preload
from tests.thorough import mark_combinations

# Every run uses the same examples, and slow ones don't fail: the load of the machine has no influence.
# `make test ARGS="--hypothesis-profile=default"` draws other examples.
settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

ROOT = Path(__file__).resolve().parent.parent
CLASSES = 3
IMAGES_PER_CLASS = 8


def _gpu_is_there() -> bool:
    # Checks device files, because a CUDA context would be unusable in forked children.
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def _is_asked_for(config: pytest.Config, marker: str) -> bool:
    marks = config.getoption("markexpr")
    return bool(re.search(rf"\b{marker}\b", marks)) and not re.search(rf"\bnot\s+{marker}\b", marks)


def _gpu_is_asked_for(config: pytest.Config) -> bool:
    return any(_is_asked_for(config, marker) for marker in ("gpu", "gpu_alone"))


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process for the processes that tests start."""
    if "PYTEST_XDIST_WORKER" in os.environ or not config.getoption("numprocesses", None):
        os.environ.pop("GLIBC_TUNABLES", None)  # the Makefile sets it for the processes that run tests
    os.environ[STRICT] = "1"
    preload()
    # Shells let background jobs ignore SIGINT, and children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.setpgrp()  # separate groups distinguish the processes of parallel test runs


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect the tests without garbage collection, which would visit millions of objects that stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that the user didn't select: those that need a GPU (or have none), and those of `make faults`."""
    # Workers of pytest-xdist take files in this order. A long file at the end would leave other workers idle, as do
    # tests with the marker `gpu_alone`.
    items.sort(key=lambda item: item.nodeid.startswith("tests/pipeline/"))
    items.sort(key=lambda item: item.get_closest_marker("gpu_alone") is not None)
    runs = {"gpu": _gpu_is_asked_for(config) and _gpu_is_there(), "faults": _is_asked_for(config, "faults")}
    chosen = [item for item in items if all(runs[name] or not item.get_closest_marker(name) for name in runs)]
    config.hook.pytest_deselected(items=list(set(items).difference(chosen)))
    items[:] = chosen
    mark_combinations(items)
    for item in items:
        if isinstance(item, pytest.Function) and any(map(item.get_closest_marker, ("gpu", "gpu_alone"))):
            item.fixturenames = ["gpu_turn", *item.fixturenames]


def pytest_report_header(config: pytest.Config) -> str:
    """Report why selected tests don't run."""
    there = "found" if _gpu_is_there() else "none found"
    chosen = "tests chosen" if _gpu_is_asked_for(config) and _gpu_is_there() else "tests left out"
    return f"NVIDIA GPU: {there}, {chosen}; DALI_extra: {_find_dali_extra() or 'none'}"


def _find_dali_extra() -> Path | None:
    if path := os.environ.get("DALI_EXTRA_PATH"):
        return Path(path)
    beside = (ROOT.parent / "dali_extra", ROOT.parent / "shared" / "data" / "dali_extra")
    return next((folder for folder in beside if folder.is_dir()), None)


@pytest.fixture(scope="session")
def dali_extra() -> Path | None:
    """Return the folder of NVIDIA's DALI_extra: DALI_EXTRA_PATH, or a folder next to the checkout; else None."""
    return _find_dali_extra()


@pytest.fixture(scope="session")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    """Return small videos of every kind, which are encoded at their first use."""
    return Clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture(scope="session")
def jpeg_folder(tmp_path_factory: pytest.TempPathFactory, dali_extra: Path | None) -> Path:
    """Create a tree of 24 small JPEGs of different sizes in 3 class folders, cropped from real photographs."""
    random = np.random.default_rng(20)
    folder = tmp_path_factory.mktemp("jpegs")
    for name, photograph in _photographs(dali_extra):
        (folder / name).mkdir()
        for index in range(IMAGES_PER_CLASS):
            width, height = random.integers(96, 288, size=2).tolist()
            left = random.integers(0, photograph.width - width, endpoint=True)
            top = random.integers(0, photograph.height - height, endpoint=True)
            image = photograph.crop((left, top, left + width, top + height))
            image.save(folder / name / f"{index:03}.jpg", quality=90)
    return folder


def _photographs(dali_extra: Path | None) -> Iterator[tuple[str, Image.Image]]:
    """Yield one photograph per class, from `dali_extra` if available, else from scikit-image."""
    if dali_extra is None:
        from skimage import data

        for name in ("astronaut", "chelsea", "coffee"):
            yield name, Image.fromarray(getattr(data, name)())
        return
    classes = sorted(path for path in (dali_extra / "db" / "single" / "jpeg").iterdir() if path.is_dir())
    for folder in classes[:CLASSES]:
        with Image.open(min(folder.glob("*.jpg"))) as photograph:
            yield folder.name, photograph.convert("RGB")


@pytest.fixture(scope="session")
def faulty_system(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a library that lets calls of the system fail in programs that preload it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("this machine has no C compiler")
    library = tmp_path_factory.mktemp("library") / "faulty_system.so"
    source = ROOT / "tests" / "faulty_system.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return str(library)


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Create a separate temporary folder for the session and all its processes.

    Parallel runs then don't see each other's files, and orphaned processes can be attributed to this session.
    """
    folder = tmp_path_factory.mktemp("t", numbered=False)  # a short name: socket paths have at most 107 bytes
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setenv(lock_order.REPORT_VARIABLE, str(tmp_path_factory.getbasetemp() / "lock-order"))
        yield folder
        _fail_on_lock_order("the session")


def _fail_on_lock_order(ended: str) -> None:
    if report := lock_order.take_report():
        pytest.fail(f"locks were taken in the wrong order before {ended} ended:\n{report}", pytrace=False)


@pytest.fixture
def gpu_turn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let tests with the marker `gpu_alone` run while no other test uses the GPU: each test that uses it has this."""
    alone = request.node.get_closest_marker("gpu_alone") is not None
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp()
    with turn(base.parent if parallel else base, alone=alone):
        yield


@pytest.fixture(scope="session")
def reported_leftovers(temporary_folder: Path) -> set[str]:
    """Return the set of all leftovers so far, so that each is reported once."""
    return set()


@pytest.fixture(scope="module", autouse=True)
def nothing_left_by_module(request: pytest.FixtureRequest, reported_leftovers: set[str]) -> Iterator[None]:
    """Fail if the fixtures of a module leave something behind."""
    forget_what_stays()  # also collects NVIDIA's pipelines: a forked child that collected one would die
    yield from _fail_on_leftovers(request, reported_leftovers)


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest, reported_leftovers: set[str]) -> Iterator[None]:
    """Fail if a test leaves something behind, or a thread of any process has taken locks in the wrong order."""
    # One fixture for both: the fixtures of all tests take more time than most tests.
    try:
        yield from _fail_on_leftovers(request, reported_leftovers)
    finally:
        _fail_on_lock_order(request.node.name)


def _fail_on_leftovers(request: pytest.FixtureRequest, reported: set[str]) -> Iterator[None]:
    # On the GPU, descriptors aren't checked: the driver opens a few and keeps them.
    descriptors = not _gpu_is_asked_for(request.config)
    before = Snapshot.take(descriptors=descriptors, exact=False)
    yield
    if left := wait_until_nothing_is_left(before, known=reported, descriptors=descriptors):
        reported.update(left)
        end_processes(before)
        pytest.fail(f"{request.node.name} left behind:\n  " + "\n  ".join(left), pytrace=False)
