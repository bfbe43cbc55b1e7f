"""The transforms of `pipeline.torchvision`, which has the names, arguments and semantics of torchvision."""

from __future__ import annotations

from dali_proxy.pipeline.torchvision import *  # noqa: F403
from dali_proxy.pipeline.torchvision import __all__ as __all__
