"""The transforms of `pipeline.torchvision`, which has the names, arguments and semantics of torchvision."""

from __future__ import annotations

from pipeline.torchvision import *  # noqa: F403
from pipeline.torchvision import __all__ as __all__
