"""Run drawn calls on both sides and compare their outputs."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dali_proxy.pipeline._declaration.registry import lookup
from dali_proxy.pipeline._declaration.schema import OperatorSchema
from docs.operators import NAMES
from tests.parity.drawing import Array, Call, Draw, Type
from tests.parity.tolerances import EXACT, TOLERANCES, TOLERANCES_ON_GPU
from tests.pipeline.operators.both import Output, as_dali, difference, run_dali, run_ours

#: Function that draws one call of an operator.
Case = Callable[[Draw], Any]

CASES: dict[str, list[Case]] = {}
#: Cases of operators that DALI doesn't have on the CPU.
CASES_ON_GPU: dict[str, list[Case]] = {}

_LISTED = json.loads(NAMES.read_text())

#: First words of the documentation of arguments without effect.
_IDLE = ("Accepted for compatibility", "Deprecated")


def case(*operators: str) -> Callable[[Case], Case]:
    """Decorate a function that draws a call of each of these operators; it may accept the operator's name."""
    return partial(_add, CASES, operators)


def case_on_gpu(*operators: str) -> Callable[[Case], Case]:
    """Decorate a function like `case`, for operators that DALI doesn't have on the CPU."""
    return partial(_add, CASES_ON_GPU, operators)


def _add(cases: dict[str, list[Case]], operators: Sequence[str], function: Case) -> Case:
    for operator in operators:
        cases.setdefault(operator, []).append(function)
    return function


def draw_call(operator: str, data: st.DataObject, *, gpu: bool = False) -> Call:
    """Return a call of an operator, for both sides on the CPU or for a GPU and the CPU."""
    framed = [name for name, each in _LISTED["arguments"][operator].items() if each["takes"] == "frame"]
    draw = Draw(data, framed, gpu=gpu)
    function = draw.one(*(CASES.get(operator) or CASES_ON_GPU[operator]))
    if function.__code__.co_argcount > 1:
        function(draw, operator)  # type: ignore[call-arg]
    else:
        function(draw)
    return draw.call


def graph_of(operator: str, call: Call, *, gpu: bool = False) -> Callable[..., Any]:
    """Return the graph of one call, for either side: it takes the batches as data nodes."""
    batches = [data for data, _ in call.inputs if isinstance(data, list)]
    mixed = "mixed" in lookup(operator).devices

    def graph(fn: Any, types: Any, *nodes: Any) -> Any:
        function = fn
        for part in operator.split("."):
            function = getattr(function, part)
        rest = iter(nodes)
        inputs = []
        for position, (data, _) in enumerate(call.inputs):
            value = next(rest) if isinstance(data, list) else data
            moved = gpu and not mixed and isinstance(data, list) and position not in call.on_cpu
            inputs.append(value.gpu() if moved else value)
        arguments = {name: _resolve(types, value) for name, value in call.constants.items()}
        for name, node in zip(call.per_sample, nodes[len(batches) :], strict=True):
            arguments[name] = fn.per_frame(node) if name in call.by_frame else node
        if gpu:
            arguments["device"] = "mixed" if mixed else "gpu"
        made = function(*inputs, **arguments)
        made = tuple(made) if isinstance(made, list | tuple) else (made,)
        return tuple(output.cpu() if gpu else output for output in made)

    return graph


def _resolve(types: Any, value: Any) -> Any:
    return getattr(types, value.name) if isinstance(value, Type) else value


def feeds_of(call: Call) -> tuple[list[list[Array]], list[str | None]]:
    """Return the batches to feed, and their layouts."""
    batches = [(data, layout) for data, layout in call.inputs if isinstance(data, list)]
    return [*(data for data, _ in batches), *call.per_sample.values()], [layout for _, layout in batches]


def run_here(operator: str, call: Call, *, gpu: bool = False) -> list[Output]:
    """Run a call here, on the CPU or the GPU."""
    feeds, layouts = feeds_of(call)
    options = {"device_id": 0} if gpu else {}
    graph = graph_of(operator, call, gpu=gpu)
    with as_dali():
        return run_ours(graph, *feeds, layouts=layouts, batch_size=call.batch_size, **options)


def run_there(operator: str, call: Call) -> list[Output]:
    """Run a call in DALI, on the CPU."""
    feeds, layouts = feeds_of(call)
    return run_dali(graph_of(operator, call), *feeds, layouts=layouts, batch_size=call.batch_size)


def compare(
    operator: str, call: Call, ours: list[Output], theirs: list[Output], *, gpu: bool = False
) -> dict[str, float]:
    """Assert that outputs are equal within the tolerance of the operator and of the call.

    Returns:
        the largest difference by dtype: absolute for integers (for those of 32 bits and more, the excess over the bound
        for real numbers), and a fraction of the largest value for real numbers.
    """
    bound = TOLERANCES.get(operator, EXACT)
    if gpu:
        bound = TOLERANCES_ON_GPU.get(operator, bound)
    found: dict[str, float] = {}
    assert len(ours) == len(theirs)
    for here, there in zip(ours, theirs, strict=True):
        assert here.layout == there.layout
        assert len(here.samples) == len(there.samples)
        for sample, (our, their) in enumerate(zip(here.samples, there.samples, strict=True)):
            assert our.shape == their.shape, f"sample {sample}"
            assert our.dtype == their.dtype
            largest, allowed = difference(our, their), bound.integers
            scale = max(1.0, float(np.abs(their[np.isfinite(their)].astype(np.float64)).max(initial=0)))
            if our.dtype.kind == "f":
                largest, allowed = largest / scale, bound.halves if our.dtype == np.float16 else bound.reals
            elif our.dtype.itemsize > 2:  # more digits than float32 has
                largest = max(0.0, largest - scale * bound.reals)
            if largest > allowed and ((our != their).mean() <= call.ties or largest <= call.ends * scale):
                continue
            assert largest <= allowed, f"sample {sample} differs by {largest}, allowed are {allowed}"
            found[our.dtype.name] = max(found.get(our.dtype.name, 0.0), largest)
    return found


def record(device: str, operator: str, found: dict[str, float]) -> None:
    """Write the largest differences of an operator to the file that the environment names, if any."""
    name = os.environ.get("DALI_PROXY_PARITY_RECORD")
    if name is None:
        return
    with Path(name).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the operators of several processes go into one file
        file.seek(0)
        notes = json.loads(file.read() or '{"cpu": {}, "gpu": {}, "examples": {}}')
        notes[device][operator] = {dtype: float(f"{largest:.1e}") for dtype, largest in sorted(found.items())}
        notes["examples"][device] = int(os.environ.get("DALI_PROXY_PARITY_EXAMPLES", "12"))
        file.truncate(0)
        file.write(json.dumps(notes, indent=1, sort_keys=True) + "\n")


def documented(schema: OperatorSchema) -> set[str]:
    """Return the arguments of an operator that have an effect."""
    return {each.name for each in schema.arguments if not each.doc.startswith(_IDLE)}
