"""torch's side of the pipeline: datasets hand expensive work to a server and get ordinary tensors, in order.

Names are loaded when they are first used, so that the server's own process never imports torch.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dali_proxy.errors import (
        BatchError,
        BatchSizeError,
        PlaceholderError,
        ProxyCallError,
        ProxyError,
        SampleTypeError,
        ServerClosedError,
        ServerDiedError,
        StaleReferenceError,
        WorkerDiedError,
    )
    from dali_proxy.interop import feed_ndarray, to_torch_tensor, to_torch_type
    from dali_proxy.iterators import DALIClassificationIterator, DALIGenericIterator, DALIRaggedIterator
    from dali_proxy.loader import DataLoader
    from dali_proxy.nvidia.install import install_as_nvidia_dali
    from dali_proxy.policies import LastBatchPolicy
    from dali_proxy.proxy import Proxy
    from dali_proxy.refs import BatchRef, SampleRef
    from dali_proxy.server import DALIServer
    from dali_proxy.telemetry import OperatorTimes, ServerStats

__all__ = [
    "BatchError",
    "BatchRef",
    "BatchSizeError",
    "DALIClassificationIterator",
    "DALIGenericIterator",
    "DALIRaggedIterator",
    "DALIServer",
    "DataLoader",
    "LastBatchPolicy",
    "OperatorTimes",
    "PlaceholderError",
    "Proxy",
    "ProxyCallError",
    "ProxyError",
    "SampleRef",
    "SampleTypeError",
    "ServerClosedError",
    "ServerDiedError",
    "ServerStats",
    "StaleReferenceError",
    "WorkerDiedError",
    "feed_ndarray",
    "install_as_nvidia_dali",
    "to_torch_tensor",
    "to_torch_type",
]

_MODULES = {
    "BatchError": "errors",
    "BatchRef": "refs",
    "BatchSizeError": "errors",
    "DALIClassificationIterator": "iterators",
    "DALIGenericIterator": "iterators",
    "DALIRaggedIterator": "iterators",
    "DALIServer": "server",
    "DataLoader": "loader",
    "LastBatchPolicy": "policies",
    "OperatorTimes": "telemetry",
    "PlaceholderError": "errors",
    "Proxy": "proxy",
    "ProxyCallError": "errors",
    "ProxyError": "errors",
    "SampleRef": "refs",
    "SampleTypeError": "errors",
    "ServerClosedError": "errors",
    "ServerDiedError": "errors",
    "ServerStats": "telemetry",
    "StaleReferenceError": "errors",
    "WorkerDiedError": "errors",
    "feed_ndarray": "interop",
    "install_as_nvidia_dali": "nvidia.install",
    "to_torch_tensor": "interop",
    "to_torch_type": "interop",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def _version() -> str:
    from importlib import metadata  # it takes its time to import, and hardly anybody asks

    try:
        return metadata.version("dali-proxy")
    except metadata.PackageNotFoundError:  # a checkout that is on the path, and not installed
        return "unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
