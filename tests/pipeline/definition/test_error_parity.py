"""Mistakes with NVIDIA DALI and with this package: our error is an instance of the type that DALI raises.

An error about an operator also names it, and the line of the user's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline.errors import PipelineError

IMAGES = np.zeros((2, 6, 8, 3), np.uint8)
NUMBERS = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
BOOLS = np.array([True, False])

Package = Any
Script = Callable[[Package], Any]

#: A graph function with a mistake in it: the operator that the message names, the inputs, and the function.
GRAPHS: dict[str, tuple[str, list[Any], Callable[..., Any]]] = {
    "unknown argument": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, siz=3)),
    "unknown argument of a class": ("fn.resize", [IMAGES], lambda d, x: d.ops.Resize(siz=3)(x)),
    "no input": ("fn.resize", [], lambda d: d.fn.resize(size=(2, 2))),
    "too many inputs": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, x, x, size=(2, 2))),
    "an argument by position": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, 3)),
    "text as a number": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, resize_x="abc")),
    "nested lists as numbers": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, size=[[1]])),
    "text as an interpolation": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, size=2, interp_type="linear")),
    "a NumPy type as a dtype": ("fn.cast", [IMAGES], lambda d, x: d.fn.cast(x, dtype=np.uint8)),
    "text as a seed": ("fn.random.uniform", [], lambda d: d.fn.random.uniform(seed="a")),
    "a node as a constant": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, size=2, antialias=x)),
    "a number as a name": ("fn.flip", [IMAGES], lambda d, x: d.fn.flip(x, name=3)),
    "text as an input": ("fn.flip", [], lambda d: d.fn.flip("abc")),
    "None as an input": ("fn.flip", [], lambda d: d.fn.flip(None)),
    "an unknown device": ("fn.flip", [IMAGES], lambda d, x: d.fn.flip(x, device="tpu")),
    "GPU to CPU": ("fn.flip", [IMAGES], lambda d, x: d.fn.flip(x.gpu(), device="cpu")),
    "an argument on the GPU": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, size=x.gpu())),
    "a missing argument": ("fn.cast", [IMAGES], lambda d, x: d.fn.cast(x)),
    "a layout that an operator can't use": (
        "fn.flip",
        [],
        lambda d: d.fn.flip(d.fn.external_source(lambda: NUMBERS, layout="AB")),
    ),
    "shapes that don't match": ("arithmetic", [NUMBERS], lambda d, x: x + np.array([1, 2, 3])),
    "a window outside": ("fn.crop", [IMAGES], lambda d, x: d.fn.crop(x, crop=(9, 9))),
    "too many sizes": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, size=(1, 2, 3))),
    "sizes that are mutually exclusive": ("fn.resize", [IMAGES], lambda d, x: d.fn.resize(x, size=(2, 2), resize_x=3)),
    "data that isn't an image": ("fn.decoders.image", [NUMBERS], lambda d, x: d.fn.decoders.image(x)),
    "sum of bools": ("arithmetic", [BOOLS], lambda d, x: x + x),
    "bits of floats": ("arithmetic", [np.ones(2, np.float32)], lambda d, x: x & 1),
    "division by zero": ("arithmetic", [NUMBERS], lambda d, x: x // x),
    "remainder of zero": ("arithmetic", [NUMBERS], lambda d, x: x % 0),
    "an integer that is too big": ("arithmetic", [NUMBERS], lambda d, x: x + 2**40),
    "a sum with text": ("arithmetic", [NUMBERS], lambda d, x: x + "1"),
    "a sum with nothing": ("arithmetic", [NUMBERS], lambda d, x: x + None),
    "a sum with an object": ("arithmetic", [NUMBERS], lambda d, x: object() + x),
    "a complex number": ("arithmetic", [NUMBERS], lambda d, x: x + 1j),
    "a function of text": ("arithmetic", [], lambda d: d.math.sqrt("a")),
    "an index out of range": ("subscript", [NUMBERS], lambda d, x: x[7]),
    "too many indices": ("subscript", [NUMBERS], lambda d, x: x[0, 0, 0]),
    "a step of zero": ("subscript", [NUMBERS], lambda d, x: x[::0]),
    "an index with a fraction": ("", [NUMBERS], lambda d, x: x[1.5]),
    "text as an index": ("", [NUMBERS], lambda d, x: x["a"]),
    "a list as an index": ("", [NUMBERS], lambda d, x: x[[0, 1]]),
    "an index node with a fraction": (
        "subscript",
        [NUMBERS, np.zeros(2, np.float32)],
        lambda d, x, n: x[n],
    ),
    "an index node out of range": ("subscript", [NUMBERS, np.array([0, 9], np.int32)], lambda d, x, n: x[n]),
    "a long name of a dimension": ("", [NUMBERS], lambda d, x: x[d.newaxis("NN")]),
    "a number as a name of a dimension": ("", [NUMBERS], lambda d, x: x[d.newaxis(3)]),
    "names for some new dimensions": ("", [NUMBERS], lambda d, x: x[d.newaxis("A"), d.newaxis]),
    "an unknown property": ("fn.get_property", [NUMBERS], lambda d, x: x.property("foo")),
    "no property": ("fn.get_property", [NUMBERS], lambda d, x: d.fn.get_property(x)),
    "two inputs for a property": ("fn.get_property", [NUMBERS], lambda d, x: d.fn.get_property(x, x, key="layout")),
    "an unknown argument of a source": ("fn.external_source", [], lambda d: d.fn.external_source(foo=3)),
    "text as the dtype of a source": ("fn.external_source", [], lambda d: d.fn.external_source(dtype="uint8")),
    "ndim against layout": ("fn.external_source", [], lambda d: d.fn.external_source(ndim=3, layout="HW")),
    "cycle without a source": ("fn.external_source", [], lambda d: d.fn.external_source(cycle=True)),
    "an unknown cycle": ("fn.external_source", [], lambda d: d.fn.external_source([NUMBERS], cycle="foo")),
    "a source of an invalid type": ("fn.external_source", [], lambda d: d.fn.external_source(5)),
    "a source with two parameters": ("fn.external_source", [], lambda d: d.fn.external_source(lambda a, b: 1)),
    "a source that fails": ("fn.external_source", [], lambda d: d.fn.external_source(lambda: {}["key"])),
    "a source that returns nothing": ("fn.external_source", [], lambda d: d.fn.external_source(lambda: None)),
    "a dtype that isn't declared": (
        "fn.external_source",
        [],
        lambda d: d.fn.external_source(lambda: NUMBERS, dtype=d.types.FLOAT),
    ),
    "a node as a condition": ("", [NUMBERS], lambda d, x: x if x else None),
    "a chained comparison": ("", [NUMBERS], lambda d, x: 1 < x < 3),
    "a loop over a node": ("", [NUMBERS], lambda d, x: list(x)),
    "a search in a node": ("", [NUMBERS], lambda d, x: 1 in x),
    "the length of a node": ("", [NUMBERS], lambda d, x: len(x)),
    "a node as a float": ("", [NUMBERS], lambda d, x: float(x)),
    "a matrix product": ("", [NUMBERS], lambda d, x: x @ 2),
    "divmod": ("", [NUMBERS], lambda d, x: divmod(x, 2)),
    "round": ("", [NUMBERS], lambda d, x: round(x)),
    "an unknown operator": ("", [], lambda d: d.fn.magic()),
    "an unknown operator class": ("", [], lambda d: d.ops.Magic()),
    "an unknown attribute": ("", [NUMBERS], lambda d, x: x.foo),
    "no operand": ("", [], lambda d: d.math.sqrt()),
    "too few operands": ("", [NUMBERS], lambda d, x: d.math.clamp(x)),
    "a constant of text": ("", [], lambda d: d.types.Constant("a")),
    "a graph function that returns nothing": ("graph function", [], lambda d: None),
    "a graph function that returns an empty tuple": ("graph function", [], lambda d: ()),
    "text as an output": ("graph function", [], lambda d: "text"),
    "a dict as an output": ("graph function", [NUMBERS], lambda d, x: {"x": x}),
    "a list of nodes as one output": ("graph function", [NUMBERS], lambda d, x: ([x, x], x)),
    "a tuple of nodes as an input": ("fn.flip", [NUMBERS], lambda d, x: d.fn.flip((x, x))),
    "nodes and arrays as an input": ("fn.flip", [IMAGES], lambda d, x: d.fn.flip([x, IMAGES[0]])),
    "lists of different lengths": ("fn.cat", [NUMBERS], lambda d, x: d.fn.cat([x, x], [x, x, x])),
    "a list of nodes as an operand": ("arithmetic", [NUMBERS], lambda d, x: x * [x, x]),
    "a list of nodes for a Python function": (
        "fn.python_function",
        [NUMBERS],
        lambda d, x: d.fn.python_function([x, x], function=lambda array: array),
    ),
    "a node of another pipeline": (
        "fn.external_source",
        [],
        lambda d: (of_another(d), d.fn.external_source(lambda: NUMBERS)),
    ),
    "one name for two operators": (
        "fn.external_source",
        [],
        lambda d: (d.fn.external_source(name="a"), d.fn.external_source(name="a")),
    ),
}


def of_another(d: Package) -> Any:
    """Return a node of another pipeline. DALI refuses it if a generated name exists twice."""
    with d.Pipeline(**arguments()):
        return d.fn.external_source(lambda: NUMBERS)


def arguments(**more: Any) -> dict[str, Any]:
    return {"batch_size": 2, "num_threads": 1, "device_id": None, **more}


def run_graph(d: Package, inputs: list[Any], graph: Callable[..., Any]) -> None:
    @d.pipeline_def(**arguments(prefetch_queue_depth=1))
    def make() -> Any:
        return graph(d, *(d.fn.external_source(name=f"x{number}") for number in range(len(inputs))))

    pipe = make()
    try:
        pipe.build()
        pipe.run(**{f"x{number}": data for number, data in enumerate(inputs)})
    finally:
        getattr(pipe, "close", lambda: None)()


def fed(d: Package, use: Callable[[Any], Any], **more: Any) -> None:
    """Create a pipeline with an input "x" and a source "s", and use it."""
    pipe = d.Pipeline(**arguments(**more))
    with pipe:
        pipe.set_outputs(d.fn.external_source(name="x") * 2, d.fn.external_source(lambda: NUMBERS, name="s"))
    try:
        pipe.build()
        use(pipe)
    finally:
        getattr(pipe, "close", lambda: None)()


def feeding(data: Any, name: Any = "x", **more: Any) -> Script:
    return lambda d: fed(d, lambda pipe: pipe.feed_input(name, data, **more))


def mixing(pipe: Any) -> None:
    pipe.feed_input("x", NUMBERS)
    pipe.schedule_run()
    pipe.run()


def variadic(d: Package) -> None:
    def graph(**keywords: Any) -> Any:
        return d.fn.external_source(name="x")

    d.pipeline_def(graph)(**arguments())


def define_twice(d: Package) -> None:
    pipe = d.Pipeline(**arguments())
    pipe.set_outputs(d.fn.external_source(name="x"))
    pipe.serialize(define_graph=lambda: d.fn.external_source(name="x"))


def subclass(d: Package) -> None:
    class Nothing(d.Pipeline):  # type: ignore[misc,name-defined]
        def define_graph(self) -> None:
            d.fn.external_source(name="x")

    Nothing(**arguments()).build()


def outputs_of(*outputs: Any) -> Script:
    def script(d: Package) -> None:
        pipe = d.Pipeline(**arguments())
        pipe.set_outputs(*outputs)
        pipe.build()

    return script


#: Other mistakes, as whole scripts.
SCRIPTS: dict[str, Script] = {
    "an unknown argument of Pipeline": lambda d: d.Pipeline(**arguments(foo=3)),
    "an unknown argument of pipeline_def": lambda d: d.pipeline_def(foo=3)(lambda: 1)(**arguments()),
    "a batch size of 0": lambda d: fed(d, lambda pipe: None, batch_size=0),
    "a negative batch size": lambda d: fed(d, lambda pipe: None, batch_size=-5),
    "a batch size with a fraction": lambda d: fed(d, lambda pipe: None, batch_size=2.5),
    "no batch size": lambda d: fed(d, lambda pipe: None, batch_size=None),
    "no threads": lambda d: fed(d, lambda pipe: None, num_threads=0),
    "an unknown number of threads": lambda d: fed(d, lambda pipe: None, num_threads=None),
    "text as the number of threads": lambda d: fed(d, lambda pipe: None, num_threads="a"),
    "text as a device": lambda d: fed(d, lambda pipe: None, device_id="a"),
    "text as the pipeline's seed": lambda d: fed(d, lambda pipe: None, seed="a"),
    "text as a hint": lambda d: fed(d, lambda pipe: None, bytes_per_sample="a"),
    "a negative hint": lambda d: fed(d, lambda pipe: None, bytes_per_sample=-1),
    "a queue of 0": lambda d: fed(d, lambda pipe: None, prefetch_queue_depth=0),
    "text as a queue": lambda d: fed(d, lambda pipe: None, prefetch_queue_depth="a"),
    "a queue with a fraction": lambda d: fed(d, lambda pipe: None, prefetch_queue_depth=1.5),
    "half a queue": lambda d: fed(d, lambda pipe: None, prefetch_queue_depth={"cpu_size": 1}),
    "separate queues without overlap": lambda d: fed(
        d,
        lambda pipe: None,
        prefetch_queue_depth={"cpu_size": 1, "gpu_size": 1},
        exec_async=False,
        exec_pipelined=False,
    ),
    "an operator that no pipeline preserves": lambda d: d.fn.flip(d.fn.external_source(), preserve=True),
    "no graph": lambda d: d.Pipeline(**arguments()).build(),
    "no graph to run": lambda d: d.Pipeline(**arguments()).run(),
    "no graph to serialize": lambda d: d.Pipeline(**arguments()).serialize(),
    "no outputs": outputs_of(),
    "outputs of text": outputs_of("a"),
    "a subclass whose graph has no outputs": subclass,
    "variadic keywords": variadic,
    "two graphs": define_twice,
    "an unknown input": feeding(NUMBERS, "zz"),
    "a number for an input": feeding(NUMBERS, 5),
    "feeding a source": feeding(NUMBERS, "s"),
    "a large batch": feeding(np.zeros((9, 2))),
    "objects": feeding([object()] * 2),
    "nothing": feeding(None),
    "texts": feeding(["a", "b"]),
    "samples of different dimensions": feeding([np.zeros(2), np.zeros((2, 2))]),
    "samples of different types": feeding([np.zeros(2), np.zeros(2, np.int8)]),
    "a layout that doesn't fit": feeding(NUMBERS, layout="HWCCC"),
    "running without data": lambda d: fed(d, lambda pipe: pipe.run()),
    "running with data by position": lambda d: fed(d, lambda pipe: pipe.run(NUMBERS)),
    "running with an unknown input": lambda d: fed(d, lambda pipe: pipe.run(y=NUMBERS), prefetch_queue_depth=1),
    "taking a batch that was not scheduled": lambda d: fed(d, lambda pipe: pipe.share_outputs()),
    "both styles": lambda d: fed(d, mixing),
    "an unknown reader": lambda d: fed(d, lambda pipe: pipe.reader_meta("foo")),
    "a number for a reader": lambda d: fed(d, lambda pipe: pipe.reader_meta(3)),
    "the epoch of an unknown reader": lambda d: fed(d, lambda pipe: pipe.epoch_size("foo")),
    "a checkpoint that was not enabled": lambda d: fed(d, lambda pipe: pipe.checkpoint()),
    "nothing to deserialize": lambda d: d.Pipeline.deserialize(),
    "two sources to deserialize": lambda d: d.Pipeline.deserialize(b"a", filename="x"),
    "garbage to deserialize": lambda d: d.Pipeline.deserialize(b"garbage"),
    "text to deserialize": lambda d: d.Pipeline.deserialize("garbage"),
    "a number to deserialize": lambda d: d.Pipeline.deserialize(5),
    "a file that doesn't exist": lambda d: d.Pipeline.deserialize(filename="/nowhere/pipe"),
}


@pytest.fixture(scope="module")
def dali() -> Package:
    from nvidia import dali

    names = ("Pipeline", "pipeline_def", "fn", "math", "newaxis", "ops", "types")
    return SimpleNamespace(**{name: getattr(dali, name) for name in names})


def error_of(script: Script, package: Package) -> Exception:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            script(package)
        except Exception as error:  # noqa: BLE001 - the caller checks its type
            return error
    raise AssertionError("no error")


@pytest.mark.parity
@pytest.mark.parametrize("mistake", GRAPHS)
def test_mistakes_in_a_graph_raise_the_errors_of_dali(mistake: str, dali: Package) -> None:
    operator, inputs, graph = GRAPHS[mistake]
    theirs = error_of(lambda d: run_graph(d, inputs, graph), dali)
    ours = error_of(lambda d: run_graph(d, inputs, graph), pipeline)
    assert isinstance(ours, type(theirs)), f"{type(theirs).__name__}: {theirs}"
    if operator:
        assert isinstance(ours, PipelineError)
        assert operator in str(ours)
        assert "test_error_parity.py" in str(ours)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # from DALI's incomplete pipelines
@pytest.mark.parametrize("mistake", SCRIPTS)
def test_other_mistakes_raise_the_errors_of_dali(mistake: str, dali: Package) -> None:
    theirs, ours = error_of(SCRIPTS[mistake], dali), error_of(SCRIPTS[mistake], pipeline)
    assert isinstance(ours, type(theirs)), f"{type(theirs).__name__}: {theirs}"


def test_ellipsis_works_where_dali_has_none() -> None:
    run_graph(pipeline, [NUMBERS], lambda d, x: x[..., 0])
