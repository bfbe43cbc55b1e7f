"""The torch side: datasets pass expensive work to a server and get ordinary tensors back, in order.

Names are loaded when they are first used, so that the server's own process never imports torch.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dali_proxy import torchvision
    from dali_proxy._cluster.ray_cluster import RayCluster
    from dali_proxy._common.policies import LastBatchPolicy
    from dali_proxy._iterators import DALIClassificationIterator, DALIGenericIterator, DALIRaggedIterator
    from dali_proxy._loader.loader import DataLoader
    from dali_proxy._loader.loss_spikes import LossSpike, LossSpikes, loss_spikes
    from dali_proxy._loader.mixing import CutMix, MixUp
    from dali_proxy._loader.mixture import Mixture, SourceCounts
    from dali_proxy._loader.packed_batch_sampler import PackedBatchSampler
    from dali_proxy._loader.packed_collate import PackedCollate
    from dali_proxy._loader.packed_stream import PackedStream
    from dali_proxy._loader.patch_grid import PatchGrid
    from dali_proxy._loader.windowed_order import ShuffleRadius, WindowedOrder
    from dali_proxy._nvidia.install import install_as_nvidia_dali
    from dali_proxy._server.counters import OperatorTimes
    from dali_proxy._server.serve import attach, serve
    from dali_proxy._server.server import DALIServer
    from dali_proxy._server.telemetry import ServerStats
    from dali_proxy._torch_functions import TorchPythonFunction, torch_python_function
    from dali_proxy._worker.placeholders import BatchRef, SampleRef
    from dali_proxy._worker.proxy import Proxy
    from dali_proxy.errors import (
        BatchError,
        BatchSizeError,
        NameTakenError,
        PlaceholderError,
        ProxyCallError,
        ProxyError,
        SampleTypeError,
        ServerClosedError,
        ServerDiedError,
        StaleReferenceError,
        WorkerDiedError,
    )
    from dali_proxy.pipeline import Pipeline, dynamic, fn, operator_def, ops, pipeline_def, types
    from dali_proxy.pipeline._sheet import show
    from dali_proxy.pipeline.tensors.interop import feed_ndarray, to_torch_tensor, to_torch_type

__all__ = [
    "BatchError",
    "BatchRef",
    "BatchSizeError",
    "CutMix",
    "DALIClassificationIterator",
    "DALIGenericIterator",
    "DALIRaggedIterator",
    "DALIServer",
    "DataLoader",
    "LastBatchPolicy",
    "LossSpike",
    "LossSpikes",
    "MixUp",
    "Mixture",
    "NameTakenError",
    "OperatorTimes",
    "PackedBatchSampler",
    "PackedCollate",
    "PackedStream",
    "PatchGrid",
    "Pipeline",
    "PlaceholderError",
    "Proxy",
    "ProxyCallError",
    "ProxyError",
    "RayCluster",
    "SampleRef",
    "SampleTypeError",
    "ServerClosedError",
    "ServerDiedError",
    "ServerStats",
    "ShuffleRadius",
    "SourceCounts",
    "StaleReferenceError",
    "TorchPythonFunction",
    "WindowedOrder",
    "WorkerDiedError",
    "attach",
    "dynamic",
    "feed_ndarray",
    "fn",
    "install_as_nvidia_dali",
    "loss_spikes",
    "operator_def",
    "ops",
    "pipeline_def",
    "serve",
    "show",
    "to_torch_tensor",
    "to_torch_type",
    "torch_python_function",
    "torchvision",
    "types",
]

# Only now: CUDA reads it when it starts. `pipeline._cuda.connections` says why this number.
if not getattr(getattr(sys.modules.get("torch"), "cuda", None), "is_initialized", bool)():
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "16")

#: The public names of each module, below this package.
_NAMES = {
    "_cluster.ray_cluster": "RayCluster",
    "_common.policies": "LastBatchPolicy",
    "_iterators": "DALIClassificationIterator DALIGenericIterator DALIRaggedIterator",
    "_loader.loader": "DataLoader",
    "_loader.loss_spikes": "LossSpike LossSpikes loss_spikes",
    "_loader.mixing": "CutMix MixUp",
    "_loader.mixture": "Mixture SourceCounts",
    "_loader.packed_batch_sampler": "PackedBatchSampler",
    "_loader.packed_collate": "PackedCollate",
    "_loader.packed_stream": "PackedStream",
    "_loader.patch_grid": "PatchGrid",
    "_loader.windowed_order": "ShuffleRadius WindowedOrder",
    "_nvidia.install": "install_as_nvidia_dali",
    "_server.counters": "OperatorTimes",
    "_server.serve": "attach serve",
    "_server.server": "DALIServer",
    "_server.telemetry": "ServerStats",
    "_torch_functions": "TorchPythonFunction torch_python_function",
    "_worker.placeholders": "BatchRef SampleRef",
    "_worker.proxy": "Proxy",
    "errors": "BatchError BatchSizeError NameTakenError PlaceholderError ProxyCallError ProxyError SampleTypeError "
    "ServerClosedError ServerDiedError StaleReferenceError WorkerDiedError",
    "pipeline": "Pipeline dynamic fn operator_def ops pipeline_def types",
    "pipeline._sheet": "show",
    "pipeline.tensors.interop": "feed_ndarray to_torch_tensor to_torch_type",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in ("distributed", "pipeline", "torchvision"):
        return importlib.import_module(f"{__name__}.{name}")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    importlib.import_module(f"{__name__}.pipeline._requirements").check_requirements()
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def _version() -> str:
    from importlib import metadata  # its import is slow, and the version is rarely read

    try:
        return metadata.version("dali-proxy")
    except metadata.PackageNotFoundError:  # a checkout that is on the path, and not installed
        return "unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
