"""`import nvidia.dali` imports our modules. Tests use new processes because the hook changes imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import ROOT, with_project
from tests.preloaded import run_python


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=with_project(**environment),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def output(code: str) -> str:
    """Run code that must not fail, in a process that has imported torch. Return its output."""
    return checked(run_python("-c", code, cwd=ROOT, env=with_project()))


def checked(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


INSTALL = "import dali_proxy; dali_proxy.install_as_nvidia_dali()\n"


FIRST = [
    "from nvidia.dali import types; types.Constant(np.float32([1]), device='gpu')",
    "from nvidia.dali import types; types.Constant([1]) + 2",
    "from nvidia.dali import math, types; math.sin(types.Constant([1.0]))",
    "import nvidia.dali.math as math; math.max(1, 2)",
    "import pipeline.math; pipeline.math.max(1, 2)",
    "import pipeline.types; pipeline.types.Constant([1])",
    "from nvidia.dali.ops import Constant; Constant(fdata=1.0)()",
    "from nvidia.dali.external_source import external_source; external_source(name='x')",
    "from nvidia.dali.tensors import TensorCPU; str(TensorCPU(np.float32([1])))",
    "from nvidia.dali.pipeline import Pipeline; Pipeline(1, 1, 0)",
    "from nvidia.dali.auto_aug.core import augmentation; augmentation(lambda data, parameter: data)",
    "from nvidia.dali.experimental.dynamic import tensor; tensor([1.0]) * 2",
    "from nvidia.dali.experimental.torchvision import Resize; Resize((2, 2))",
    "from nvidia.dali.backend import GetSchema; GetSchema('Resize')",
    "from nvidia.dali.tfrecord import FixedLenFeature, int64; FixedLenFeature([], int64, 0)",
]


def test_public_names_work_as_the_first_act_of_a_script() -> None:
    """Each statement runs in a child of a process that has only installed the modules."""
    code = "import os\nimport numpy as np\nimport dali_proxy\ndali_proxy.install_as_nvidia_dali(device='cpu')\n"
    code += f"for first in {FIRST!r}:\n    if os.fork() == 0:\n        exec(first)\n        print('done')\n"
    code += "        raise SystemExit\n    os.wait()\n"
    done = python(code)
    assert done.stdout.split() == ["done"] * len(FIRST), done.stderr


def test_functions_hide_modules_of_the_same_name() -> None:
    names = "resize", "crop", "pad", "normalize", "gaussian_blur"
    code = "from nvidia.dali.experimental.torchvision.v2 import functional\n"
    code += "import nvidia.dali.experimental.torchvision.v2.functional.crop\n"
    code += "from nvidia.dali.experimental.torchvision.v2.functional.resize import resize\n"
    code += f"print([type(getattr(functional, name)).__name__ for name in {names}], resize is functional.resize)"
    assert output(INSTALL + code) == f"{['function'] * 5} True"


NAMES = [
    ("nvidia.dali", "pipeline_def", "pipeline:pipeline_def"),
    ("nvidia.dali", "Pipeline", "pipeline:Pipeline"),
    ("nvidia.dali", "newaxis", "pipeline:newaxis"),
    ("nvidia.dali.auto_aug.augmentations", "rotate", "pipeline.auto_aug.augmentations:rotate"),
    (
        "nvidia.dali.auto_aug.auto_augment",
        "auto_augment_image_net",
        "pipeline.auto_aug.auto_augment:auto_augment_image_net",
    ),
    ("nvidia.dali.auto_aug.core", "Policy", "pipeline.auto_aug.core:Policy"),
    ("nvidia.dali.auto_aug.core.decorator", "augmentation", "pipeline.auto_aug.core:augmentation"),
    ("nvidia.dali.auto_aug.core.policy", "Policy", "pipeline.auto_aug.core:Policy"),
    ("nvidia.dali.auto_aug.rand_augment", "rand_augment", "pipeline.auto_aug.rand_augment:rand_augment"),
    (
        "nvidia.dali.auto_aug.trivial_augment",
        "trivial_augment_wide",
        "pipeline.auto_aug.trivial_augment:trivial_augment_wide",
    ),
    ("nvidia.dali.backend", "TensorListGPU", "pipeline.tensors:TensorListGPU"),
    ("nvidia.dali.backend_impl", "TensorListCPU", "pipeline.tensors:TensorListCPU"),
    ("nvidia.dali.data_node", "DataNode", "pipeline:DataNode"),
    ("nvidia.dali.external_source", "external_source", "pipeline.fn:external_source"),
    ("nvidia.dali.fn", "resize", "pipeline.fn:resize"),
    ("nvidia.dali.fn", "file_reader", "pipeline.fn:file_reader"),
    ("nvidia.dali.fn.decoders", "image", "pipeline.fn.decoders:image"),
    ("nvidia.dali.fn.io.file", "read", "pipeline.fn.io.file:read"),
    ("nvidia.dali.math", "sqrt", "pipeline.math:sqrt"),
    ("nvidia.dali.ops", "Resize", "pipeline.ops:Resize"),
    ("nvidia.dali.ops", "CoinFlip", "pipeline.ops:CoinFlip"),
    ("nvidia.dali.ops.decoders", "Image", "pipeline.ops.decoders:Image"),
    ("nvidia.dali.pipeline", "pipeline_def", "pipeline:pipeline_def"),
    ("nvidia.dali.pipeline.experimental", "pipeline_def", "pipeline:pipeline_def"),
    ("nvidia.dali.plugin.base_iterator", "LastBatchPolicy", "dali_proxy:LastBatchPolicy"),
    ("nvidia.dali.plugin.pytorch", "DALIGenericIterator", "dali_proxy:DALIGenericIterator"),
    ("nvidia.dali.plugin.pytorch", "DALIRaggedIterator", "dali_proxy:DALIRaggedIterator"),
    ("nvidia.dali.plugin.pytorch", "feed_ndarray", "pipeline.tensors.interop:feed_ndarray"),
    ("nvidia.dali.plugin.pytorch.fn", "torch_python_function", "dali_proxy._torch_functions:torch_python_function"),
    ("nvidia.dali.plugin.pytorch.torch_utils", "to_torch_tensor", "pipeline.tensors.interop:to_torch_tensor"),
    ("nvidia.dali.plugin.pytorch.torch_utils", "to_torch_type", "pipeline.tensors.interop:to_torch_type"),
    ("nvidia.dali.plugin.pytorch.experimental.proxy", "DALIServer", "dali_proxy:DALIServer"),
    ("nvidia.dali.plugin.pytorch.experimental.proxy", "DataLoader", "dali_proxy:DataLoader"),
    ("nvidia.dali.tensors", "TensorCPU", "pipeline.tensors:TensorCPU"),
    ("nvidia.dali.types", "UINT8", "pipeline.types:UINT8"),
]


def test_listed_names_exist_in_this_package() -> None:
    check = """
from importlib import import_module
from dali_proxy._nvidia.names import _TABLE
for name, attribute, ours in NAMES:
    module, _, theirs = ours.partition(":")
    scope = {}
    exec(f"from {name} import {attribute} as found", scope)
    assert scope["found"] is getattr(import_module(module), theirs), name
for path in _TABLE:
    module = import_module(f"nvidia.dali.{path}".rstrip("."))
    assert path in ("plugin", "plugin.pytorch.experimental") or module.__all__, path
    for name in module.__all__:
        getattr(module, name)
"""
    output(f"{INSTALL}NAMES = {NAMES!r}{check}")


def test_script_from_before_dali_1() -> None:
    """Its operators have other names, and its pipelines are classes."""
    assert (
        output(
            INSTALL
            + """
import numpy as np
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from nvidia.dali.pickling import pickle_by_value
from nvidia.dali.pipeline import Pipeline, do_not_convert

@do_not_convert
@pickle_by_value
def ones():
    return [np.ones((4, 6, 3), np.uint8)] * 2

class Crops(Pipeline):
    def __init__(self, size, device):
        super(Crops, self).__init__(size, 1, device, seed=5)
        self.feed = ops.ExternalSource()
        self.place = ops.Uniform(range=(0.25, 0.75))
        self.coin = ops.CoinFlip(probability=0.3)
        self.cut = ops.CropMirrorNormalize(crop=(2, 3), device="cpu", dtype=types.FLOAT, output_layout=types.NCHW)

    def define_graph(self):
        self.arrays = self.feed()
        return self.cut(self.arrays, mirror=self.coin(), crop_pos_x=self.place())

    def iter_setup(self):
        self.feed_input(self.arrays, ones())

pipe = Crops(2, types.CPU_ONLY_DEVICE_ID)
pipe.build()
print(pipe.run()[0].as_array().shape)
"""
        )
        == "(2, 3, 2, 3)"
    )


NUMBA = """
import numpy as np
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.numba import NumbaFunction
from nvidia.dali.plugin.numba.experimental import NumbaFunction
from nvidia.dali.plugin.numba.fn.experimental import numba_function

DATA = [np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(2, dtype=np.uint8).reshape(1, 2)]

def transpose(out, image):
    out[:] = image.T

def double(outs, images):
    for out, image in zip(outs, images):
        out[:] = image * 2.5

def transposed(outs, ins):
    for sample in range(len(ins[0])):
        outs[0][sample][0] = ins[0][sample][1]
        outs[0][sample][1] = ins[0][sample][0]

DECLARED = {"in_types": types.UINT8, "ins_ndim": 2, "outs_ndim": [2]}

@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def graph():
    image = fn.external_source(lambda: DATA)
    turned = numba_function(image, run_fn=transpose, setup_fn=transposed, out_types=[types.UINT8], **DECLARED)
    return turned, NumbaFunction(double, types.FLOAT, batch_processing=True, **DECLARED)(image)

turned, doubled = graph().run()
"""


def test_functions_that_numba_compiles() -> None:
    pytest.importorskip("numba")
    checks = """
for image, there, twice in zip(DATA, turned, doubled):
    assert np.array_equal(there, image.T) and there.dtype == types.UINT8
    assert np.array_equal(twice, image * np.float32(2.5))
"""
    output(INSTALL + NUMBA + checks)


def test_missing_numba_is_an_error_that_says_how_to_install_it() -> None:
    hidden = "import sys; sys.modules['numba'] = None\n"
    failing = NUMBA.replace("turned, doubled = graph().run()", "")
    assert "pip install 'dali-proxy[numba]'" in output(
        hidden + INSTALL + failing + "try: graph().run()\nexcept RuntimeError as error: print(error)"
    )


def test_ways_to_import() -> None:
    output(
        INSTALL
        + """
import sys
from nvidia.dali import auto_aug, data_node, fn, types
from nvidia.dali.auto_aug import rand_augment
from nvidia.dali.fn import readers
for module in (auto_aug, data_node, fn, types, rand_augment, readers):  # the same for any order of imports
    assert sys.modules[module.__name__] is module and module.__name__.startswith("nvidia.dali."), module
import nvidia.dali as dali
assert dali.fn.resize and dali.types.RGB is not None and dali.plugin.pytorch  # without separate imports
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


def test_torch_is_imported_only_where_it_is_needed() -> None:
    code = INSTALL + "import sys, nvidia.dali, nvidia.dali.fn, nvidia.dali.types; print('torch' in sys.modules)"
    assert checked(python(code)) == "False"


def test_missing_name_is_an_error_that_says_so() -> None:
    check = """
def error(code):
    try:
        exec(code, {})
    except Exception as error:
        return error

for code in (
    "import nvidia.dali.plugin.tf",
    "import nvidia.dali.fn.nothing",
    "from nvidia.dali.plugin.jax import DALIGenericIterator",
    "from nvidia.dali import nothing",
    "from nvidia.dali import reducers",
    "from nvidia.dali.fn import nothing",
    "from nvidia.dali.plugin.pytorch import nothing",
):
    assert isinstance(error(code), ImportError), code
    assert "'nvidia.dali." in str(error(code)) and "doesn't implement it yet" in str(error(code)), error(code)
for code in (
    "from nvidia.dali import plugin; plugin.tf",
    "from nvidia.dali import fn; fn.nothing",
    "from nvidia.dali import fn; fn.decoders.nothing",
    "from nvidia.dali import types; types.NOTHING",
    "import nvidia.dali as dali; dali.nothing",
):
    assert isinstance(error(code), AttributeError), code
    assert "'nvidia.dali" in str(error(code)) and "doesn't implement it yet" in str(error(code)), error(code)
"""
    output(INSTALL + check)


def test_other_packages_of_nvidia_stay() -> None:
    pytest.importorskip("nvidia.nvimgcodec")
    assert "nvidia/nvimgcodec" in output(INSTALL + "import nvidia.nvimgcodec as codec; print(codec.__file__)")


def test_package_of_nvidia_is_never_mixed_with_this_one() -> None:
    pytest.importorskip("nvidia.dali")
    done = python("import nvidia.dali\n" + INSTALL)
    assert done.returncode == 1
    assert "ImportError: nvidia.dali is imported already" in done.stderr
    assert "dali-proxy run" in done.stderr


def test_install_needs_no_package_of_nvidia() -> None:
    """Simulates a machine without GPU packages: only NumPy's folder of the environment is visible."""
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
    assert checked(python(code)) == "resize"


def test_child_processes_import_this_package() -> None:
    code = (
        INSTALL
        + """
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "import nvidia.dali as d; print(d.Pipeline.__module__)"],
                     capture_output=True, text=True, check=True).stdout.strip())
"""
    )
    assert output(code).startswith("dali_proxy")


def test_sitecustomize_of_the_user_still_runs(tmp_path: Path) -> None:
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
    assert checked(python(code, PYTHONPATH=path)) == "yes"


def test_device_applies_to_this_process_and_its_children() -> None:
    describe = """
import warnings
from nvidia.dali import fn, Pipeline
with Pipeline(1, 1, device_id=0) as pipe:
    pipe.set_outputs(fn.external_source(name="x").gpu())
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    print(*pipe.output_devices)
"""
    code = f"""
import dali_proxy, subprocess, sys
dali_proxy.install_as_nvidia_dali()
dali_proxy.install_as_nvidia_dali(device="cpu")
print(subprocess.check_output([sys.executable, "-c", {describe!r}], text=True).strip())
{describe}
dali_proxy.install_as_nvidia_dali(device="gpu")
{describe}
try:
    dali_proxy.install_as_nvidia_dali(device="tpu")
except ValueError as error:
    print(error)
"""
    assert output(code).splitlines() == ["cpu", "cpu", "gpu", 'device must be "cpu" or "gpu", not \'tpu\'']


def test_script_keeps_the_defaults_of_dali() -> None:
    """A tone of 10 kHz at 16 kHz: DALI's resampling keeps it, this project's removes it."""
    code = """
import numpy as np
from {package} import fn, pipeline_def
@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def described():
    tone = fn.external_source(name="tone")
    return fn.audio_resample(tone, in_rate=44100, out_rate=16000), fn.experimental.audio_resample(tone, scale=0.3628)
pipe = described()
pipe.build()
pipe.feed_input("tone", [np.sin(2 * np.pi * 10_000 * np.arange(44_100) / 44_100).astype(np.float32)])
print([round(float(np.abs(np.array(each.at(0))[1000:-1000]).max()), 1) for each in pipe.run()])
"""
    assert output(INSTALL + code.format(package="nvidia.dali")) == "[1.0, 1.0]"
    assert output(code.format(package="pipeline")) == "[0.0, 0.0]"
