"""`zeros` and `zeros_like`: samples of zeros."""

from __future__ import annotations

from dali_proxy.pipeline._declaration import implements
from dali_proxy.pipeline._operators.arrays.filled_samples import Filled, FilledLike, declare, declare_like

ZEROS = declare("zeros")
ZEROS_LIKE = declare_like("zeros")


@implements(ZEROS, "cpu")
class Zeros(Filled):
    """Samples of zeros."""

    number = 0


@implements(ZEROS_LIKE, "cpu")
class ZerosLike(FilledLike):
    """Samples of zeros with the shapes of an input."""

    number = 0
