from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dali_proxy.pipeline._declaration.registry import all_schemas, has_implementation, modules_of
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._definition.graph_format import MAGIC, decode_pipeline, encode_pipeline
from dali_proxy.pipeline._definition.serializing import deserialize_for_host, serialize_for_host
from pipeline import Pipeline, errors, fn, pipeline_def, types
from tests.environment import with_project
from tests.pipeline.graphs import graph_of


@pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=11)
def everything() -> Any:
    x = fn.external_source(name="x", dtype=types.FLOAT, layout="HW")
    noise = fn.random.uniform(range=(-1, 1), shape=[2], name="noise")
    return x[1:, 0], x * np.array([1.0, 2.0], np.float32) + noise, fn.random.coin_flip()


def run(pipe: Pipeline) -> list[Any]:
    outputs = [out.as_array().tolist() for out in pipe.run(x=np.ones((3, 2, 2), np.float32))]
    pipe.close()
    return outputs


HOST = """
import sys
from dali_proxy.pipeline._definition.serializing import deserialize_for_host
deserialize_for_host(sys.stdin.buffer.read()).build()
print("dali_proxy.pipeline._catalog" in sys.modules)
"""


def test_hosts_import_only_the_operators_of_their_pipeline() -> None:
    command = [sys.executable, "-c", HOST]
    done = subprocess.run(
        command, input=serialize_for_host(everything()), env=with_project(), capture_output=True, check=True
    )
    assert done.stdout == b"False\n"


ALONE = """
import importlib, sys
from dali_proxy.pipeline._declaration.registry import has_implementation
for operator, device, *modules in map(str.split, sys.stdin):
    for module in modules:
        importlib.import_module(module)
    assert has_implementation(operator, device), operator
"""


def test_modules_of_an_operator_register_it() -> None:
    implemented = [(each.name, device) for each in all_schemas() for device in each.devices]
    lines = [
        " ".join([operator, device, *modules_of({operator})])
        for operator, device in implemented
        if has_implementation(operator, device)
    ]
    assert len(lines) > 170
    command = [sys.executable, "-c", ALONE]
    subprocess.run(command, input="\n".join(lines), text=True, env=with_project(), check=True)


def test_pipeline_comes_back_the_same() -> None:
    pipe = everything()
    copy = deserialize_for_host(serialize_for_host(pipe))
    assert [node.display for node in copy._internals.graph.nodes] == [
        node.display for node in pipe._internals.graph.nodes
    ]
    assert [node.location for node in copy._internals.graph.nodes] == [
        node.location for node in pipe._internals.graph.nodes
    ]
    assert run(copy) == run(pipe)


def test_objects_are_kept_apart_from_the_safe_part() -> None:
    class Anything:
        pass

    node = fn.external_source(name="x", cuda_stream=Anything())
    serialized = encode_pipeline(graph_of([node]), {})
    assert len(serialized.objects) == 1
    with pytest.raises(errors.SerializationError, match=r"Pass them again: .*x\.cuda_stream"):
        decode_pipeline(serialized.data)


def choice_of(content: Any) -> Any:
    """Return the arguments of a node that has one with choices."""
    return next(node["arguments"] for node in content["nodes"] if "operation" in node["arguments"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(version=99), "format 99"),
        (lambda content: content["nodes"][0].update(operator="magic"), "doesn't have the operator 'magic'"),
        (lambda content: content["nodes"][0].update(name=7), "is 7, which isn't text"),
        (lambda content: content["nodes"][0].update(device="tpu"), "doesn't run on the device"),
        (lambda content: content["nodes"][0].update(inputs=[[5, 0]]), "of a later operator"),
        (lambda content: content.update(outputs=[[77, 0]]), "doesn't come from any operator"),
        (lambda content: content.update(outputs=[[0, 3]]), "has no output 3"),
        (lambda content: content["nodes"][0]["arguments"].update(magic=1), "no argument 'magic'"),
        (lambda content: content["nodes"][0]["arguments"].update(layout=1), "damaged: .*'layout' must be"),
        (
            lambda content: content["nodes"][0].update(inputs=[], argument_inputs={"layout": [0, 0]}),
            "of a later operator",
        ),
        (lambda content: content["nodes"][1].update(name="x"), "two operators are called 'x'"),
        (lambda content: choice_of(content).update(operation="Add"), "'operation' in the spelling 'Add'"),
        (lambda content: content.pop("nodes"), "damaged"),
    ],
)
def test_damaged_pipelines_are_refused(change: Any, message: str) -> None:
    pipe = everything()
    data = encode_pipeline(pipe._internals.graph, {}).data
    content = msgpack.unpackb(data[len(MAGIC) :])
    change(content)
    with pytest.raises(errors.SerializationError, match=message):
        decode_pipeline(MAGIC + msgpack.packb(content))


@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_are_refused_with_one_kind_of_error(data: bytes, with_magic: bool) -> None:
    with pytest.raises(errors.SerializationError):
        decode_pipeline(MAGIC + data if with_magic else data)


def numbers(count: int = 3) -> Any:
    return [np.full((3, 1), number, np.int32) for number in range(count)]


def with_source(name: str = "numbers") -> Pipeline:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(numbers(), name=name, cycle="quiet") * 2)
    return pipe


def first(pipe: Pipeline) -> list[list[int]]:
    outputs = [pipe.run()[0].as_array().ravel().tolist() for _ in range(2)]
    pipe.close()
    return outputs


def test_serialized_pipelines_come_back_built_and_equal(tmp_path: Path) -> None:
    pipe = everything()
    data = pipe.serialize(filename=tmp_path / "pipe.bin")
    assert (tmp_path / "pipe.bin").read_bytes() == data
    expected = run(pipe)
    for copy in (Pipeline.deserialize(data), Pipeline.deserialize(filename=str(tmp_path / "pipe.bin"))):
        assert (copy.max_batch_size, copy.num_threads, copy.device_id, copy.seed) == (3, 1, None, 11)
        assert copy.serialize() == data, "a deserialized pipeline can be serialized again"
        assert run(copy) == expected


def test_passed_arguments_override_written_ones() -> None:
    data = everything(prefetch_queue_depth=3).serialize()
    copy = Pipeline.deserialize(data, batch_size=5, num_threads=2, seed=4)
    assert (copy.max_batch_size, copy.num_threads, copy.seed, copy.prefetch_queue_depth) == (5, 2, 4, 3)
    copy.close()
    with pytest.raises(TypeError, match="foo"):
        Pipeline.deserialize(data, foo=1)


@pytest.mark.parametrize(("arguments", "size"), [({}, 3), ({"batch_size": 7, "num_threads": 2}, 7)])
def test_pipeline_without_a_graph_takes_one_from_bytes(arguments: dict[str, Any], size: int) -> None:
    data = everything().serialize()
    pipe = Pipeline(**arguments)
    pipe.deserialize_and_build(data)
    assert (pipe.max_batch_size, pipe.seed, pipe.device_id) == (size, 11, None)
    assert run(pipe) == run(everything())
    with pytest.raises(errors.GraphError, match="already described"):
        pipe.deserialize_and_build(data)


def test_graph_may_be_described_when_it_is_written() -> None:
    pipe = Pipeline(batch_size=3, num_threads=1, device_id=None)
    data = pipe.serialize(define_graph=lambda: fn.external_source(name="x") + 1)
    copy = Pipeline.deserialize(data)
    assert run(copy) == [np.full((3, 2, 2), 2.0).tolist()]
    for described in (pipe, everything()):
        with pytest.raises(errors.GraphError, match="already described"):
            described.serialize(define_graph=lambda: fn.external_source(name="x"))
    with pytest.raises(NotImplementedError, match="no outputs"):
        Pipeline(batch_size=3).serialize()


def test_source_is_left_out_and_must_be_passed_again() -> None:
    data = with_source().serialize()
    assert b"range" not in data, "the bytes have no code"
    with pytest.raises(
        errors.SerializationError, match=r"'numbers' \(the source list\)\. Pass them again: .*callbacks="
    ):
        Pipeline.deserialize(data)
    with pytest.raises(errors.SerializationError, match="no callback 'other'; its callbacks are: 'numbers'"):
        Pipeline.deserialize(data, callbacks={"numbers": numbers(), "other": numbers()})
    with pytest.raises(errors.SerializationError, match="'numbers' doesn't fit: The `source` must be callable"):
        Pipeline.deserialize(data, callbacks={"numbers": 5})
    copy = Pipeline.deserialize(data, callbacks={"numbers": [np.full((3, 1), 7, np.int32)]})
    assert first(copy) == [[14] * 3] * 2, "the source is read repeatedly, as the first one was"


def test_outputs_of_one_source_stay_together() -> None:
    def source(info: types.SampleInfo) -> Any:
        return np.int32(info.idx_in_epoch), np.int32(-info.idx_in_epoch)

    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(*fn.external_source(source, num_outputs=2, batch=False))
    data = pipe.serialize()
    (name,) = encode_pipeline(pipe._internals.graph, {}).objects
    copy = Pipeline.deserialize(data, callbacks={name: source})
    assert [out.as_array().tolist() for out in copy.run()] == [[0, 1, 2], [0, -1, -2]]
    copy.close()
    pipe.close()
    copy = deserialize_for_host(serialize_for_host(pipe))
    assert len({node.argument("source").spec for node in copy._internals.graph.find(Role.EXTERNAL_SOURCE)}) == 1


def test_seed_that_is_not_fixed_stays_so_in_bytes_and_is_drawn_once_for_a_host() -> None:
    pipe = everything(seed=-1)
    assert pipe.seed is None
    copies = [deserialize_for_host(serialize_for_host(pipe)) for _ in range(2)]
    assert copies[0].seed == copies[1].seed is not None
    copy = Pipeline.deserialize(pipe.serialize())
    assert copy.seed is None
    copy.close()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, ValueError, "either serialized_pipeline or filename"),
        ({"serialized_pipeline": b"", "filename": "x"}, ValueError, "either serialized_pipeline or filename"),
        ({"serialized_pipeline": b"garbage"}, errors.SerializationError, "aren't a serialized pipeline"),
        ({"serialized_pipeline": pickle.dumps(print)}, errors.SerializationError, "aren't a serialized pipeline"),
        ({"serialized_pipeline": "text"}, errors.SerializationError, "pass filename="),
        ({"serialized_pipeline": 5}, TypeError, "not int"),
        ({"filename": "/nowhere/pipe.bin"}, FileNotFoundError, "nowhere"),
    ],
)
def test_unreadable_bytes_are_refused(arguments: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Pipeline.deserialize(**arguments)


def test_deserialize_runs_no_code(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(tmp_path / "exploded"),))

    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x", cuda_stream=Bomb()))
    with pytest.raises(errors.SerializationError, match=r"'x\.cuda_stream'"):
        Pipeline.deserialize(pipe.serialize())
    assert not (tmp_path / "exploded").exists()
