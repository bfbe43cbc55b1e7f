"""`import nvidia.dali` gives our modules: in fresh processes, since it changes what a process imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def python(code: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *words, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def output(code: str, *words: str, **environment: str) -> str:
    """Run code that must not fail, and return what it printed."""
    done = python(code, *words, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


INSTALL = "import dali_proxy; dali_proxy.install_as_nvidia_dali()\n"


NAMES = [
    ("nvidia.dali", "pipeline_def", "pipeline:pipeline_def"),
    ("nvidia.dali", "Pipeline", "pipeline:Pipeline"),
    ("nvidia.dali", "newaxis", "pipeline:newaxis"),
    ("nvidia.dali.auto_aug", "rand_augment", "pipeline.auto_aug:rand_augment"),
    ("nvidia.dali.auto_aug.augmentations", "rotate", "pipeline.auto_aug.augmentations:rotate"),
    (
        "nvidia.dali.auto_aug.auto_augment",
        "auto_augment_image_net",
        "pipeline.auto_aug.auto_augment:auto_augment_image_net",
    ),
    ("nvidia.dali.auto_aug.core", "Policy", "pipeline.auto_aug.core:Policy"),
    ("nvidia.dali.auto_aug.rand_augment", "rand_augment", "pipeline.auto_aug.rand_augment:rand_augment"),
    (
        "nvidia.dali.auto_aug.trivial_augment",
        "trivial_augment_wide",
        "pipeline.auto_aug.trivial_augment:trivial_augment_wide",
    ),
    ("nvidia.dali.backend", "TensorListGPU", "pipeline.tensors:TensorListGPU"),
    ("nvidia.dali.data_node", "DataNode", "pipeline:DataNode"),
    ("nvidia.dali.external_source", "external_source", "pipeline.fn:external_source"),
    ("nvidia.dali.fn", "resize", "pipeline.fn:resize"),
    ("nvidia.dali.fn.decoders", "image", "pipeline.fn.decoders:image"),
    ("nvidia.dali.fn.io.file", "read", "pipeline.fn.io.file:read"),
    ("nvidia.dali.math", "sqrt", "pipeline.math:sqrt"),
    ("nvidia.dali.ops", "Resize", "pipeline.ops:Resize"),
    ("nvidia.dali.ops.decoders", "Image", "pipeline.ops.decoders:Image"),
    ("nvidia.dali.pipeline", "pipeline_def", "pipeline:pipeline_def"),
    ("nvidia.dali.plugin.pytorch.experimental.proxy", "DALIServer", "dali_proxy:DALIServer"),
    ("nvidia.dali.plugin.pytorch.experimental.proxy", "DataLoader", "dali_proxy:DataLoader"),
    ("nvidia.dali.tensors", "TensorCPU", "pipeline.tensors:TensorCPU"),
    ("nvidia.dali.types", "UINT8", "pipeline.types:UINT8"),
]


def test_names_are_ours() -> None:
    check = """
from importlib import import_module
for name, attribute, ours in NAMES:
    module, _, theirs = ours.partition(":")
    scope = {}
    exec(f"from {name} import {attribute} as found", scope)
    assert scope["found"] is getattr(import_module(module), theirs), name
"""
    output(f"{INSTALL}NAMES = {NAMES!r}{check}")


def test_ways_to_import() -> None:
    output(
        INSTALL
        + """
import nvidia.dali as dali
assert dali.fn.resize and dali.types.RGB is not None and dali.plugin.pytorch  # without an import of their own
import nvidia.dali.fn as fn, nvidia.dali.types as types
assert fn is dali.fn and types is dali.types
from nvidia.dali.types import *
assert UINT8 is types.UINT8
from nvidia import dali as again
assert again is dali
assert "resize" in dir(fn) and "Pipeline" in dir(dali)
import nvidia.dali.plugin.pytorch.experimental.proxy as proxy
assert dali.plugin.pytorch.experimental.proxy is proxy
import dali_proxy
dali_proxy.install_as_nvidia_dali()  # does nothing
import importlib.util
assert importlib.util.find_spec("nvidia.dali.fn") is not None
print(dali.__version__)
"""
    )


def test_torch_is_imported_by_who_needs_it_only() -> None:
    assert (
        output(INSTALL + "import sys, nvidia.dali, nvidia.dali.fn, nvidia.dali.types; print('torch' in sys.modules)")
        == "False"
    )


def test_what_is_missing_is_an_import_error_that_says_so() -> None:
    for code in (
        "import nvidia.dali.plugin.tf",
        "from nvidia.dali import plugin; plugin.tf",
        "import nvidia.dali.fn.nothing",
    ):
        done = python(INSTALL + code)
        assert done.returncode == 1
        assert "dali-proxy has nothing for it yet" in done.stderr
    assert "ImportError: cannot import name 'nothing'" in python(INSTALL + "from nvidia.dali import nothing").stderr


def test_other_packages_of_nvidia_stay() -> None:
    pytest.importorskip("nvidia.nvimgcodec")
    assert "nvidia/nvimgcodec" in output(INSTALL + "import nvidia.nvimgcodec as codec; print(codec.__file__)")


def test_the_real_package_is_never_mixed_with_ours() -> None:
    pytest.importorskip("nvidia.dali")
    done = python("import nvidia.dali\n" + INSTALL)
    assert done.returncode == 1
    assert "ImportError: nvidia.dali is imported already" in done.stderr
    assert "dali-proxy run" in done.stderr


def test_without_any_package_of_nvidia() -> None:
    """As on a machine without GPU packages: the environment's own packages are left out, all but NumPy's folder."""
    code = (
        """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "nvidia":
            raise ModuleNotFoundError("hidden", name=name)
sys.meta_path.insert(0, Hidden())
"""
        + INSTALL
        + "from nvidia.dali import fn; print(fn.resize.__name__)"
    )
    assert output(code) == "resize"


def test_processes_that_are_started_later() -> None:
    code = (
        INSTALL
        + """
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "import nvidia.dali as d; print(d.Pipeline.__module__)"],
                     capture_output=True, text=True, check=True).stdout.strip())
"""
    )
    assert output(code).startswith("pipeline")


def test_a_sitecustomize_of_the_users_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['SEEN'] = 'yes'\n")
    code = (
        INSTALL
        + """
import os, subprocess, sys
del os.environ["SEEN"]
print(subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('SEEN'))"],
                     capture_output=True, text=True, check=True).stdout.strip())
"""
    )
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    assert output(code, PYTHONPATH=path) == "yes"
