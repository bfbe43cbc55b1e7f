"""Attributes of the classes of `ops`, and schemas with the methods of DALI's backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._operator_api.op_schema import OpSchema, OpSpec, find_schema
from pipeline import DataNode, Pipeline, fn, ops, types


def schema(name: str) -> OpSchema:
    found = find_schema(name)
    assert found is not None
    return found


def test_operators_describe_themselves() -> None:
    resize: Any = ops.Resize(size=(2, 3), device="gpu", preserve=True, interp_type=fn.external_source(name="x"))
    assert (resize.schema_name, resize.device, resize.preserve) == ("Resize", "gpu", True)
    assert resize.spec.arguments == {"device": "gpu", "preserve": True, "size": (2, 3)}
    assert str(resize.spec).startswith("OpSpec for Resize:")
    assert (resize.spec.NumInput(), resize.spec.NumRegularInput()) == (1, 0)
    assert resize.schema.GetSupportedBackends() == ["cpu", "gpu"]
    source = ops.ExternalSource(name="x")
    assert (source.device, source.preserve, source.schema_name) == ("cpu", False, "ExternalSource")
    assert fn.readers.file._schema_name == ops.readers.File.schema_name == "readers__File"


def test_schemas_have_names_of_dali() -> None:
    assert find_schema("nope") is None
    image = schema("decoders__ImageRandomCrop")
    assert (image.Name(), image.OperatorName(), image.ModulePath()) == (
        "decoders__ImageRandomCrop",
        "ImageRandomCrop",
        ["decoders"],
    )
    old = schema("CoinFlip")
    assert (old.IsDeprecated(), old.DeprecatedInFavorOf()) == (True, "random__CoinFlip")


@pytest.mark.parity
def test_states_and_seeds_agree_with_dali() -> None:
    backend = pytest.importorskip("nvidia.dali.backend")
    compared = 0
    for name in {*backend.RegisteredCPUOps(), *backend.RegisteredGPUOps(), "ExternalSource"}:
        ours, theirs = find_schema(name), backend.GetSchema(name)
        if ours is None or ours.IsDeprecated():
            continue
        if not name.startswith(("io__", "experimental__inputs", "inputs", "DumpImage")) and "Sequence" not in name:
            assert ours.IsStateful() == theirs.IsStateful(), name  # DALI forgets readers.sequence
        if not ours.IsStateful() or "Reader" not in name:
            assert ours.HasRandomSeedArg() == theirs.HasRandomSeedArg(), name
        compared += 1
    assert compared > 50


def test_arguments_are_described() -> None:
    resize = schema("Resize")
    assert {"size", "seed", "preserve"} <= set(resize.GetArgumentNames())
    assert (resize.HasArgument("size"), resize.HasArgument("nope")) == (True, False)
    assert resize.GetArgumentType("interp_type") == types.INTERP_TYPE
    assert resize.IsTensorArgument("size")
    assert resize.IsArgumentOptional("size")
    assert (resize.MinNumInput(), resize.MaxNumInput(), resize.GetInputName(0)) == (1, 1, "data")
    resize.CheckArgs(OpSpec("Resize").AddArg("size", [2, 3]).AddArg("device", "cpu"))
    with pytest.raises(KeyError, match='"nope" is not defined'):
        resize.CheckArgs(OpSpec("Resize").AddArg("nope", 1))
    assert schema("readers__File").CalculateOutputs(OpSpec("readers__File")) == 2


@pytest.mark.parametrize(
    ("name", "index", "actual", "operator", "expected"),
    [
        ("Slice", 0, "cpu", None, None),
        ("Slice", 0, "cpu", "gpu", "gpu"),
        ("Slice", 1, "cpu", "gpu", "cpu"),
        ("Slice", 1, "gpu", "cpu", "cpu"),
        ("Slice", 1, None, "gpu", "gpu"),
        ("Shapes", 0, "gpu", "cpu", "gpu"),
        ("decoders__Image", 0, None, "mixed", "cpu"),
    ],
)
def test_devices_of_inputs(
    name: str, index: int, actual: str | None, operator: str | None, expected: str | None
) -> None:
    assert schema(name).GetInputDevice(index, actual, operator) == expected


def test_specs_list_inputs_and_outputs() -> None:
    spec = OpSpec("Cast").AddInput("x", "cpu").AddArgumentInput("a", "y").AddOutput("z", "gpu")
    spec.RenameInput(0, "b")
    spec.RenameOutput(0, "c")
    assert (spec.NumInput(), spec.NumRegularInput(), spec.NumOutput()) == (2, 1, 1)
    assert (spec.InputName(0), spec.InputDevice(0), spec.OutputName(0), spec.OutputDevice(0)) == (
        *("b", "cpu"),
        *("c", "gpu"),
    )
    assert spec.copy().AddInput("d", "cpu").NumInput() == spec.NumInput() + 1


def test_composed_operators_run_one_after_another() -> None:
    halves = ops.Compose([lambda data: (data / 2, data), lambda half, data: half + data])
    chain = ops.Compose([ops.Cast(dtype=types.FLOAT), halves])
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        data = fn.external_source(name="x")
        pipe.set_outputs(chain(data), ops.Compose([])(data))
    assert [float(out.as_array()[0, 0]) for out in pipe.run(x=np.array([[4]], np.int32))] == [6.0, 4.0]
    moved = ops.Compose([ops.Resize(size=3), ops.Resize(size=3, device="gpu")])(fn.external_source(name="y"))
    assert isinstance(moved, DataNode)
    assert moved.device == "gpu"
    pipe.close()


def test_source_info_of_nodes_is_a_property() -> None:
    node = fn.external_source(name="x").source_info()
    assert node.source is not None
    assert node.source.arguments["key"] == "source_info"
