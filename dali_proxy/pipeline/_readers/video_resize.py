"""`readers.video_resize`: `readers.video` followed by `resize`."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from dali_proxy.pipeline._declaration import declare_operator
from dali_proxy.pipeline._graph.nodes import apply_operator, check_call
from dali_proxy.pipeline._operator_api.functions import make_function
from dali_proxy.pipeline._operators.geometry.resize import FILTER_ARGUMENTS
from dali_proxy.pipeline._operators.geometry.resize_arguments import RESIZE_ARGUMENTS
from dali_proxy.pipeline._readers.video import VIDEO_READER_ARGUMENTS

_OF_READER = {argument.name for argument in VIDEO_READER_ARGUMENTS}


def video_resize(*, name: str | None = None, device: str | None = None, **arguments: Any) -> Any:
    """Add the two operators to the graph. The schema below has the documentation for users."""
    check_call(VIDEO_RESIZE, (), {"name": name, "device": device, **arguments})  # so that errors name this function
    of_reader = {key: value for key, value in arguments.items() if key in _OF_READER or key == "seed"}
    of_resize = {key: value for key, value in arguments.items() if key not in of_reader}
    read = apply_operator("readers.video", (), {"name": name, "device": device, **of_reader})
    frames, *others = read if isinstance(read, tuple) else (read,)
    resized = apply_operator("resize", (frames,), of_resize)
    return (resized, *others) if others else resized


VIDEO_RESIZE = declare_operator(
    name="readers.video_resize",
    doc="""Reads sequences of frames from videos, FHWC, and resizes them.

Combines `fn.readers.video` with `fn.resize` of its first output, and accepts the arguments of both. `dtype` and `name`
apply to the reader.""",
    arguments=(
        *VIDEO_READER_ARGUMENTS,
        *(each for each in (*RESIZE_ARGUMENTS, *FILTER_ARGUMENTS) if each.name not in _OF_READER),
    ),
    devices=("cpu", "gpu"),
    function=video_resize,
)

_declared = make_function(replace(VIDEO_RESIZE, function=None))
video_resize.__doc__ = _declared.__doc__
video_resize.__signature__ = inspect.signature(_declared)  # type: ignore[attr-defined]
