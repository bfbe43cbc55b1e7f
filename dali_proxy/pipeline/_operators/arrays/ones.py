"""`ones` and `ones_like`: samples of ones."""

from __future__ import annotations

from dali_proxy.pipeline._declaration import implements
from dali_proxy.pipeline._operators.arrays.filled_samples import Filled, FilledLike, declare, declare_like

ONES = declare("ones")
ONES_LIKE = declare_like("ones")


@implements(ONES, "cpu")
class Ones(Filled):
    """Samples of ones."""

    number = 1


@implements(ONES_LIKE, "cpu")
class OnesLike(FilledLike):
    """Samples of ones with the shapes of an input."""

    number = 1
