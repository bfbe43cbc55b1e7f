"""The table of NVIDIA's modules and their counterparts in this project."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ROOT = "nvidia.dali"
VERSION = "2.4.0"
"""The version of DALI whose behaviour this project follows."""


@dataclass(frozen=True)
class Stand:
    """The counterpart of one of NVIDIA's modules.

    Attributes:
        module: module of this project with all its names; empty if `names` lists them.
        names: names from other modules, each as "module:attribute".
        values: names with values that are defined here.
    """

    module: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    def load(self, name: str) -> Any:
        """Return the object for a name.

        Raises:
            AttributeError: the counterpart doesn't have the name.
        """
        if name in self.values:
            return self.values[name]
        if name in self.names:
            module, _, attribute = self.names[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        if self.module and not name.startswith("__"):
            return getattr(importlib.import_module(self.module), name)
        raise AttributeError(name)

    def all(self) -> list[str]:
        """Return the public names."""
        found = {name for name in (*self.names, *self.values) if not name.startswith("_")}
        if self.module:
            module = importlib.import_module(self.module)
            found.update(
                getattr(module, "__all__", None) or (name for name in vars(module) if not name.startswith("_"))
            )
        return sorted(found)


def _from(module: str, *names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names}


def _unchanged(function: Any) -> Any:
    """Return the function unchanged: functions of a script are always pickled by value."""
    return function


_POLICIES = _from("dali_proxy.pipeline", "OperatorConcurrency", "StreamPolicy")
_PIPELINE = {**_from("dali_proxy.pipeline", "DataNode", "Pipeline", "pipeline_def"), **_POLICIES}
_TENSORS = _from("dali_proxy.pipeline.tensors", "TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU")
_INTEROP = _from("dali_proxy.pipeline.tensors.interop", "feed_ndarray", "to_torch_type")
_POLICY = _from("dali_proxy._common.policies", "LastBatchPolicy")
_ITERATORS = _from("dali_proxy._iterators", "DALIClassificationIterator", "DALIGenericIterator", "DALIRaggedIterator")
_PLACEHOLDERS = {
    "DALIOutputBatchRef": "dali_proxy._worker.placeholders:BatchRef",
    "DALIOutputSampleRef": "dali_proxy._worker.placeholders:SampleRef",
}
_PYTORCH = _from("dali_proxy.pipeline", "Pipeline") | _from(
    "dali_proxy.pipeline.tensors", "TensorCPU", "TensorGPU", "TensorListGPU"
)
_TORCH = _from("dali_proxy._torch_functions", "TorchPythonFunction")

_INTERNALS = "dali_proxy._nvidia.internals"
_NUMBA = "dali_proxy._nvidia.numba_function"

_FORMATS = _from("dali_proxy.pipeline.tensors.formatting", "format_batch", "format_tensor")

_OLD_TYPES: dict[str, Any] = {
    "CPU_ONLY_DEVICE_ID": None,
    "NFCHW": "FCHW",
    "NFHWC": "FHWC",
    "SAME": "",
    "dali_type_converters": [],
}
_TYPES = {
    **_from("dali_proxy._nvidia.types", "CUDAStream", "PipelineAPIType", "TensorLayout", "_all_types"),
    "ConstantNode": "dali_proxy._nvidia.types:constant_node",
    "_is_cupy_array": f"{_INTERNALS}:is_cupy_array",
}

_SHARED = ("centercrop", "color", "flips", "gaussian_blur", "normalize", "pad", "resize", "totensor")
_TRANSFORMS = ("", ".v2", *(f".v2.{each}" for each in (*_SHARED, "compose", "rand_apply", "randomcrop")))
_FUNCTIONAL = ("", *(f".{each}" for each in (*_SHARED, "crop", "image_metadata")))

_TABLE = {
    "": Stand("dali_proxy.pipeline", values={"__version__": VERSION}),
    "auto_aug": Stand("dali_proxy.pipeline.auto_aug"),
    "auto_aug.augmentations": Stand(
        "dali_proxy.pipeline.auto_aug.augmentations", names=_from("dali_proxy.pipeline.auto_aug.core", "augmentation")
    ),
    "auto_aug.auto_augment": Stand(
        "dali_proxy.pipeline.auto_aug.auto_augment",
        names=_from("dali_proxy.pipeline.auto_aug.core", "Policy", "signed_bin"),
    ),
    "auto_aug.core": Stand("dali_proxy.pipeline.auto_aug.core"),
    "auto_aug.core._utils": Stand(
        names={"get_translations": "dali_proxy.pipeline.auto_aug.augmentations:translations"}
    ),
    "auto_aug.core.decorator": Stand(names=_from("dali_proxy.pipeline.auto_aug.core", "augmentation")),
    "auto_aug.core.policy": Stand(names=_from("dali_proxy.pipeline.auto_aug.core", "Policy")),
    "_autograph": Stand(
        names={
            "do_not_convert": "pipeline:do_not_convert",
            "is_autograph_artifact": "dali_proxy.pipeline._definition.conditional:is_converted",
        }
    ),
    "_conditionals": Stand("dali_proxy.pipeline._graph.conditions"),
    "auto_aug.rand_augment": Stand(
        "dali_proxy.pipeline.auto_aug.rand_augment", names=_from("dali_proxy.pipeline.auto_aug.core", "signed_bin")
    ),
    "auto_aug.trivial_augment": Stand(
        "dali_proxy.pipeline.auto_aug.trivial_augment", names=_from("dali_proxy.pipeline.auto_aug.core", "signed_bin")
    ),
    "backend": Stand("dali_proxy._nvidia.backend", names=_TENSORS),
    "backend.tfrecord": Stand("dali_proxy.pipeline.tfrecord"),
    "backend.types": Stand("dali_proxy.pipeline.types", names=_TYPES, values=_OLD_TYPES),
    "backend_impl": Stand("dali_proxy._nvidia.backend", names=_TENSORS),
    "backend_impl.tfrecord": Stand("dali_proxy.pipeline.tfrecord"),
    "backend_impl.types": Stand(
        "dali_proxy.pipeline.types",
        names={**_TYPES, "_DALIDataType": "dali_proxy.pipeline.types:DALIDataType"},
        values=_OLD_TYPES,
    ),
    "_utils": Stand(),
    "_utils.hacks": Stand(names=_from(_INTERNALS, "not_iterable")),
    "data_node": Stand(
        names={**_from("dali_proxy.pipeline", "DataNode", "newaxis"), **_from(_INTERNALS, "not_iterable")}
    ),
    "experimental": Stand(),
    "experimental.dynamic": Stand("dali_proxy.pipeline.dynamic"),
    "experimental.dynamic._ops": Stand("dali_proxy._nvidia.dynamic_operators"),
    **{f"experimental.torchvision{path}": Stand("dali_proxy.pipeline.torchvision") for path in _TRANSFORMS},
    **{
        f"experimental.torchvision.v2.functional{path}": Stand("dali_proxy.pipeline.torchvision.functional")
        for path in _FUNCTIONAL
    },
    "external_source": Stand(
        names={
            "ExternalSource": "dali_proxy.pipeline.ops:ExternalSource",
            "external_source": "dali_proxy.pipeline.fn:external_source",
        }
    ),
    "fn": Stand(
        "dali_proxy.pipeline.fn",
        names={
            "_shape": "dali_proxy.pipeline.fn:shapes",
            "_tensor_subscript": f"{_INTERNALS}:tensor_subscript",
            "_to_snake_case": f"{_INTERNALS}:to_snake_case",
        },
    ),
    "math": Stand("dali_proxy.pipeline.math"),
    "ops": Stand(
        "dali_proxy.pipeline.ops",
        names={
            **_from("dali_proxy._nvidia.backend", "cpu_ops", "gpu_ops", "mixed_ops"),
            "_DataNode": "pipeline:DataNode",
            "_generate_input_desc": f"{_INTERNALS}:generate_input_desc",
            "_group_inputs": f"{_INTERNALS}:group_inputs",
            "_op_name": f"{_INTERNALS}:op_name",
        },
    ),
    "ops._registry": Stand(
        names={
            "_all_registered_ops": f"{_INTERNALS}:all_registered_ops",
            "_discover_ops": f"{_INTERNALS}:discover_ops",
            **_from("dali_proxy._nvidia.backend", "cpu_ops", "gpu_ops", "mixed_ops"),
        }
    ),
    "pickling": Stand(values={"pickle_by_value": _unchanged}),
    "pipeline": Stand(names={**_PIPELINE, **_from("dali_proxy.pipeline", "do_not_convert")}),
    "pipeline.experimental": Stand(names=_from("dali_proxy.pipeline", "pipeline_def")),
    "plugin": Stand(),
    "plugin.base_iterator": Stand(names=_POLICY),
    "plugin.numba": Stand(names=_from(_NUMBA, "NumbaFunction")),
    "plugin.numba.experimental": Stand(names=_from(_NUMBA, "NumbaFunction")),
    "plugin.numba.fn": Stand(names=_from(_NUMBA, "numba_function")),
    "plugin.numba.fn.experimental": Stand(names=_from(_NUMBA, "numba_function")),
    "plugin.pytorch": Stand(names={**_ITERATORS, **_POLICY, **_INTEROP, **_TORCH, **_PYTORCH}),
    "plugin.pytorch.fn": Stand("dali_proxy._torch_functions"),
    "plugin.pytorch.experimental": Stand(),
    "plugin.pytorch.experimental.proxy": Stand("dali_proxy", names=_PLACEHOLDERS),
    "plugin.pytorch.loader_evaluator": Stand(names=_from("dali_proxy._loader.evaluator", "LoaderEvaluator")),
    "plugin.pytorch.ops": Stand(
        "dali_proxy.pipeline.ops", names=_from("dali_proxy._torch_functions", "TorchPythonFunction")
    ),
    "plugin.pytorch.torch_utils": Stand(
        names={**_INTEROP, **_TENSORS, **_from("dali_proxy.pipeline.tensors.interop", "to_torch_tensor")}
    ),
    "plugin_manager": Stand("dali_proxy._nvidia.plugin_manager"),
    "sysconfig": Stand("dali_proxy._nvidia.sysconfig"),
    "tensors": Stand(names={**_TENSORS, **_FORMATS}),
    "tfrecord": Stand("dali_proxy.pipeline.tfrecord"),
    "types": Stand("dali_proxy.pipeline.types", names=_TYPES, values=_OLD_TYPES),
}


def children(name: str) -> list[str]:
    """Return the names of the public modules directly below the module `name` that have a counterpart."""
    path = name[len(ROOT) + 1 :]
    prefix = f"{path}." if path else ""
    inner = (each[len(prefix) :] for each in _TABLE if each.startswith(prefix))
    return sorted({each.partition(".")[0] for each in inner if each and not each.startswith("_")})


def find(name: str) -> Stand | None:
    """Return the counterpart of the module `name`, "nvidia.dali" or a submodule; None if it has none.

    Submodules with operators, such as `nvidia.dali.fn.decoders`, have the same names in `dali_proxy.pipeline`.
    """
    path = name[len(ROOT) + 1 :]
    stand = _TABLE.get(path)
    if stand is None and path.startswith(("fn.", "ops.", "experimental.dynamic.")):
        inner = path.removeprefix("experimental.")
        module = f"dali_proxy.pipeline.{inner}"
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition("dali_proxy.pipeline.")[2]
            if not missing or not f"{inner}.".startswith(f"{missing}."):
                raise  # our module exists, but imports a missing one
            return None
        stand = Stand(module)
    return stand
