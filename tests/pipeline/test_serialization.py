from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import Pipeline, errors, fn, pipeline_def, types
from pipeline.graph import Graph
from pipeline.serialization import MAGIC, decode_pipeline, encode_pipeline


@pipeline_def(batch_size=3, num_threads=1, device_id=None, seed=11)
def everything() -> Any:
    x = fn.external_source(name="x", dtype=types.FLOAT, layout="HW")
    noise = fn.random.uniform(range=(-1, 1), shape=[2], name="noise")
    return x[1:, 0], x * np.array([1.0, 2.0], np.float32) + noise, fn.random.coin_flip()


def run(pipe: Pipeline) -> list[Any]:
    outputs = [out.as_array().tolist() for out in pipe.run(x=np.ones((3, 2, 2), np.float32))]
    pipe.close()
    return outputs


def test_a_pipeline_comes_back_the_same() -> None:
    pipe = everything()
    copy = Pipeline.from_host_bytes(pipe.serialize_for_host())
    assert [node.display for node in copy.graph.nodes] == [node.display for node in pipe.graph.nodes]
    assert [node.location for node in copy.graph.nodes] == [node.location for node in pipe.graph.nodes]
    assert run(copy) == run(pipe)


def test_objects_are_kept_apart_from_the_safe_part() -> None:
    class Anything:
        pass

    node = fn.external_source(name="x", cuda_stream=Anything())
    made = encode_pipeline(Graph.of([node]), {})
    assert len(made.objects) == 1
    with pytest.raises(errors.SerializationError, match="pass them again"):
        decode_pipeline(made.data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(version=99), "format 99"),
        (lambda content: content["nodes"][0].update(operator="magic"), "no operator 'magic'"),
        (lambda content: content["nodes"][0].update(device="tpu"), "does not run on the device"),
        (lambda content: content["nodes"][0].update(inputs=[[5, 0]]), "comes after it"),
        (lambda content: content.update(outputs=[[77, 0]]), "no operator's output"),
        (lambda content: content.pop("nodes"), "damaged"),
    ],
)
def test_damaged_pipelines_are_refused(change: Any, message: str) -> None:
    pipe = everything()
    data = encode_pipeline(pipe.graph, {}).data
    content = msgpack.unpackb(data[len(MAGIC) :])
    change(content)
    with pytest.raises(errors.SerializationError, match=message):
        decode_pipeline(MAGIC + msgpack.packb(content))


@given(st.binary(max_size=200), st.booleans())
def test_arbitrary_bytes_are_refused_with_one_kind_of_error(data: bytes, with_magic: bool) -> None:
    with pytest.raises(errors.SerializationError):
        decode_pipeline(MAGIC + data if with_magic else data)
