"""Static checks of scripts for NVIDIA DALI."""

from __future__ import annotations

from pathlib import Path

import pytest

from dali_proxy._nvidia.check import Finding, check_script


def findings(tmp_path: Path, script: str) -> list[Finding]:
    path = tmp_path / "train.py"
    path.write_text(script)
    return check_script(path)[0]


def missing(tmp_path: Path, script: str) -> list[tuple[int, str]]:
    return [(each.line, each.name) for each in findings(tmp_path, script) if each.kind == "missing"]


SCRIPT = """
import nvidia.dali as dali
import nvidia.dali.fn as fn, nvidia.dali.types as types
import nvidia.dali.plugin.jax
from nvidia.dali import ops, pipeline_def
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin_manager import load_library

class Old(Pipeline):
    def __init__(self):
        super().__init__(batch_size=8, num_threads=2, device_id=0)
        self.input = ops.readers.File(file_root="x", bogus=3)
        self.blur = ops.Reload()
        self.resize = ops.Resize(device="gpu", resize_x="wide", size=3)
    def define_graph(self):
        jpegs, labels = self.input()
        return self.resize(jpegs, resize_y=4, wrong=2), labels

@pipeline_def(batch_size=3, enable_conditional=True, enable_conditionals=True)
def pipe(types_=1):
    x, y = fn.readers.file(file_root="a", random_shuffle=True, seed=2, name="Reader")
    x = fn.decoders.image(x, device="mixed", output_type=types.RGBX)
    draw = dali.fn.random
    x = fn.rotate(x, angle=draw.uniform(range=(0, 3)), interp_type=types.INTERP_LINEAR)
    x = dali.fn.experimental.magic(x)
    return fn.resize(x, size=(3, 3), mode="sideways"), y

built = pipe(batch_size=4)
built.build()
built.save_to_tape()
dali.backend.GetSchema
"""


def test_everything_that_is_missing_is_found_at_once(tmp_path: Path) -> None:
    assert missing(tmp_path, SCRIPT) == [
        (4, "plugin.jax"),
        (7, "plugin_manager.load_library"),
        (12, "ops.readers.File(bogus=...)"),
        (13, "ops.Reload"),
        (14, "ops.Resize(resize_x=...)"),
        (17, "ops.Resize(wrong=...)"),
        (19, "pipeline_def(enable_conditional=...)"),
        (22, "types.RGBX"),
        (25, "fn.experimental.magic"),
        (26, "fn.resize(mode=...)"),
        (30, "Pipeline.save_to_tape"),
    ]


def test_messages_say_what_to_do(tmp_path: Path) -> None:
    said = {each.name: each.message for each in findings(tmp_path, SCRIPT)}
    assert said["plugin_manager.load_library"] == "it raises an error: a plugin needs DALI's executor"
    assert said["ops.Reload"].startswith("for plugins in C++")
    assert said["fn.resize(mode=...)"].startswith("Invalid resize mode: sideways")


def test_differences_are_named_once(tmp_path: Path) -> None:
    script = """
from nvidia.dali import fn, pipeline_def
from nvidia.dali.plugin.pytorch import DALIGenericIterator
@pipeline_def
def pipe():
    return fn.squeeze(fn.random.uniform(), axes=0), fn.squeeze(fn.random.uniform(), axes=0)
p = pipe(batch_size=1)
p.serialize()
"""
    names = [each.name for each in findings(tmp_path, script)]
    assert names.count("fn.squeeze") == names.count("Pipeline.serialize") == 1
    assert {"fn.random.uniform", "plugin.pytorch.DALIGenericIterator"} <= set(names)


def test_only_changes_of_results_count_as_differences(tmp_path: Path) -> None:
    script = """
from nvidia.dali import fn, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator
x = fn.decoders.image(y)
x = fn.random_resized_crop(x, size=9, random_aspect_ratio=(1, 2))
x = fn.crop_mirror_normalize(x, mirror=fn.random.coin_flip(), fill_values=[0, 127], crop=3)
x = fn.noise.shot(fn.water(x, mask=1), factor=2)
"""
    assert [each.name for each in findings(tmp_path, script) if each.kind == "differs"] == ["fn.random_resized_crop"]
    script += "fn.crop(x, fill_values=[0, 400])\nfn.noise.shot(x, factor=0)\nfn.rotate(x, size=n)\nfn.optical_flow(x)\n"
    assert [each.name for each in findings(tmp_path, script) if each.kind == "differs"] == [
        *("fn.random_resized_crop", "fn.crop", "fn.noise.shot", "fn.rotate", "fn.optical_flow")
    ]


@pytest.mark.parametrize(
    "script",
    [
        "import nvidia.dali\nx = nvidia.dali.fn.resize(nvidia.dali.fn.external_source(), size=2)",
        "from nvidia.dali.fn import *\nresize(external_source(layout=['HWC'], num_outputs=1)[0], size=1)",
        "from nvidia.dali import fn\ndef f(fn):\n    return fn.nothing(x=1)",
        "import torch\ntorch.fn.nothing",
        "from nvidia.dali import fn\nfn = other\nfn.nothing",
        "from nvidia.dali import ops\nops.ExternalSource(source=1, batch=False)(name='x')\nops.Cast(**kwargs)",
    ],
)
def test_names_that_exist_or_are_others_are_not_reported(tmp_path: Path, script: str) -> None:
    assert missing(tmp_path, script) == []


def test_function_can_be_checked_alone(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("from nvidia.dali import fn\ndef a():\n    fn.no()\ndef b():\n    fn.neither()\n")
    assert [each.name for each in check_script(path, "b")[0]] == ["fn.neither"]
    with pytest.raises(LookupError):
        check_script(path, "c")


def test_differences_of_what_a_script_does_not_use_are_left_out(tmp_path: Path) -> None:
    script = "from nvidia.dali import fn\nfn.pad(x{})\nfn.resize(x, interp_type=types.INTERP_{}, roi_start=y)\n"
    script += "from nvidia.dali.plugin.pytorch import DALIGenericIterator\nDALIGenericIterator(x{})\n"

    def differences(*parts: str) -> str:
        return "\n".join([each.message for each in findings(tmp_path, script.format(*parts))])

    plain = differences("", "LINEAR", "")
    assert "a batch that fails" in plain
    for words in ("Fill values", "INTERP", "refuses", "save_attrs", "last_batch_padded", "DROP"):
        assert words not in plain
    used = differences(", fill_value=300", "NN", ", last_batch_padded=True, reader_name='x')\nprint(Policy.DROP")
    for words in ("Fill values", "INTERP_NN", "last_batch_padded=True with reader_name", "DROP if no batch is full"):
        assert words in used
    assert "INTERP_GAUSSIAN" not in used
