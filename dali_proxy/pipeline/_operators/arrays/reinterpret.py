"""`reinterpret`: the bytes of samples as another dtype."""

from __future__ import annotations

from dali_proxy.pipeline._declaration import Argument, Kind, declare_operator
from dali_proxy.pipeline._operators.arrays.reshape import Reshaped
from dali_proxy.pipeline._operators.arrays.reshape_arguments import SHAPE_ARGUMENTS, SHAPE_INPUT
from dali_proxy.pipeline._operators.arrays.views import DATA, returns_views

REINTERPRET = declare_operator(
    name="reinterpret",
    doc="Reinterprets the bytes of samples as another dtype, and changes their shape and layout.",
    inputs=(DATA, SHAPE_INPUT),
    arguments=(
        Argument("dtype", Kind.DTYPE, "Dtype of the output. Without a shape, the last extent is adapted to it."),
        *SHAPE_ARGUMENTS,
    ),
    devices=("cpu", "gpu"),
)


@returns_views(REINTERPRET)
class Reinterpreted(Reshaped):
    """Views of the same bytes with another dtype."""
