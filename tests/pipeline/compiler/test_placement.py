"""Graphs split into a host stage and a device stage: with every cut, they return the bits of the whole graph."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.partition import (
    Stages,
    cut,
    on_cpu_first,
    stages_by_device,
    stages_on_cores,
    stages_on_engine,
)
from dali_proxy.pipeline._definition.serializing import deserialize_for_host, serialize_for_host, with_graph
from dali_proxy.pipeline._graph import Graph
from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult
from dali_proxy.pipeline._rng import BatchKey
from pipeline import Pipeline, fn, pipeline_def
from pipeline.errors import GraphError, OperatorError

SIZE = 4
RANDOM = np.random.default_rng(5)
IMAGES = [RANDOM.integers(0, 255, (6 + number, 9 - number, 3)).astype(np.uint8) for number in range(SIZE)]
WAYS = np.array([0, 1, 2, 1], np.int32)


def main_job(x: Any, way: Any) -> Any:
    images = fn.resize(fn.random_resized_crop(x, size=(8, 8)), size=(5, 5))
    mirror = fn.random.coin_flip()
    normal = fn.crop_mirror_normalize(images, mirror=mirror, mean=[100.0], std=[50.0])
    return normal, mirror, way


def ragged(x: Any, way: Any) -> Any:
    noisy = fn.noise.gaussian(x, stddev=fn.random.uniform(range=(1.0, 9.0)))
    return noisy, fn.flip(noisy, horizontal=way == 1), way + 1, way


def twins(x: Any, way: Any) -> Any:
    crops = fn.random_resized_crop([x, fn.flip(x)], size=(4, 4))
    return crops[0], crops[1], fn.random.uniform(seed=3), fn.random.uniform()


def same_twice(x: Any, way: Any) -> Any:
    doubled = x * 2
    return doubled, doubled, doubled + 1, way, way


def branches(x: Any, way: Any) -> Any:
    angle = fn.random.uniform(range=(-30.0, 30.0))
    made = x
    if way == 0:
        made = fn.rotate(x, angle=angle * 2, keep_size=True)
    elif way == 1:
        if angle > 0:
            made = fn.flip(fn.noise.gaussian(x, stddev=20.0))
    else:
        made = fn.brightness(x, brightness=way * 0.4 + 0.5)
    return made, way


def frames(x: Any, way: Any) -> Any:
    sequence = fn.stack(x, fn.flip(x), axis_name="F")
    shifts = fn.per_frame(fn.random.uniform(range=(0.0, 0.5), shape=[2]))
    return fn.brightness(sequence, brightness_shift=shifts * 0.5), way


GRAPHS = (main_job, ragged, twins, same_twice, branches, frames)


def piped(graph: Callable[..., Any], **arguments: Any) -> Pipeline:
    @pipeline_def(batch_size=SIZE, num_threads=2, enable_conditionals=True)  # type: ignore[untyped-decorator]
    def described() -> Any:
        return graph(fn.external_source(name="x", layout="HWC"), fn.external_source(name="way"))

    made: Pipeline = described(**{"device_id": None, "seed": 3, **arguments})
    return made


def run_fed(pipe: Pipeline, inputs: dict[str, Any], key: BatchKey) -> tuple[Any, ...]:
    done: queue.SimpleQueue[BatchResult] = queue.SimpleQueue()
    pipe._internals.runner.submit(BatchRequest(SIZE, inputs, key), done.put)
    result = done.get(timeout=60)
    if result.error is not None:
        raise result.error
    return result.outputs


def run_stages(whole: Pipeline, stages: Stages, batches: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    host, device = with_graph(whole, stages.host), with_graph(whole, stages.device)
    assert device.input_names == stages.crossing
    try:
        made = []
        for number, batch in enumerate(batches):
            between = host.run(**{name: batch[name] for name in host.input_names})
            made.append(run_fed(device, dict(zip(stages.crossing, between, strict=True)), BatchKey(0, number)))
        return made
    finally:
        host.close()
        device.close()


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_stages_give_the_bits_of_one_pipeline_for_any_cut(graph: Callable[..., Any]) -> None:
    whole = piped(graph)
    inputs = [{"x": IMAGES, "way": WAYS}, {"x": IMAGES[::-1], "way": WAYS[::-1]}]
    expected = [whole.run(**{name: batch[name] for name in whole.input_names}) for batch in inputs]
    late = [node.index for node in whole._internals.graph.nodes if not node.schema.fed]
    for index in [*late, -1]:
        stages = cut(whole._internals.graph, lambda node, index=index: node.index == index)  # type: ignore[misc]
        assert index < 0 or any(node.location.line for node in stages.device.nodes if not node.schema.fed)
        for outputs, wanted in zip(run_stages(whole, stages, inputs), expected, strict=True):
            assert len(outputs) == len(wanted)
            for found, output in zip(outputs, wanted, strict=True):
                assert found.layout() == output.layout()
                assert found.dtype == output.dtype
                pairs = zip(found.samples, output.samples, strict=True)
                assert all(np.array_equal(one, other) for one, other in pairs)
    whole.close()


def test_stages_can_be_sent_to_another_process() -> None:
    whole = piped(twins)
    stages = cut(whole._internals.graph, lambda node: node.operator == "random_resized_crop")
    host = deserialize_for_host(serialize_for_host(with_graph(whole, stages.host)))
    device = deserialize_for_host(serialize_for_host(with_graph(whole, stages.device)))
    expected = whole.run(x=IMAGES)
    outputs = run_fed(device, dict(zip(stages.crossing, host.run(x=IMAGES), strict=True)), BatchKey())
    for found, output in zip(outputs, expected, strict=True):
        assert np.array_equal(found.as_array(), output.as_array())
    for pipe in (whole, host, device):
        pipe.close()


def test_error_of_the_device_stage_names_operator_line_and_sample() -> None:
    def crops(x: Any, way: Any) -> Any:
        return fn.crop(fn.flip(x), crop=(7, 4), name="cropped"), way

    whole = piped(crops)
    with pytest.raises(OperatorError) as expected:
        whole.run(x=IMAGES, way=WAYS)
    with pytest.raises(OperatorError) as found:
        run_stages(
            whole, cut(whole._internals.graph, lambda node: node.operator == "crop"), [{"x": IMAGES, "way": WAYS}]
        )
    assert str(found.value) == str(expected.value)
    assert "cropped" in str(found.value)
    assert 'name="cropped"' in found.value.location
    assert [failure.sample for failure in found.value.failures] == [0]
    whole.close()


def operators(graph: Graph) -> list[tuple[str, str]]:
    return [(node.operator, node.device) for node in graph.nodes]


def test_images_of_a_gpu_decoder_can_be_decoded_on_the_cpu_and_uploaded_as_pixels() -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=0)  # type: ignore[untyped-decorator]
    def described() -> Any:
        encoded, label = fn.external_source(name="encoded"), fn.external_source(name="label")
        images = fn.resize(fn.decoders.image(encoded, device="mixed", name="decoded"), size=(4, 4))
        mirror = fn.random.coin_flip()
        return fn.crop_mirror_normalize(images, mirror=mirror), label, label.gpu(), images.cpu() + 1

    whole = described()
    stages = stages_by_device(whole._internals.graph)
    assert operators(stages.host) == [
        ("external_source", "cpu"),
        ("external_source", "cpu"),
        ("decoders.image", "cpu"),
        ("random.coin_flip", "cpu"),
        ("constant_value", "cpu"),
    ]
    crossing = [stages.host.nodes[edge.node].name for edge in stages.host.outputs]
    (coin,) = [node.name for node in whole._internals.graph.nodes if node.operator == "random.coin_flip"]
    assert crossing == ["label", "decoded", coin, "label"]
    assert operators(stages.device)[4:] == [
        ("copy_to_gpu", "gpu"),
        ("resize", "gpu"),
        ("crop_mirror_normalize", "gpu"),
        ("copy_to_cpu", "gpu"),
        ("constant_value", "cpu"),
        ("arithmetic", "cpu"),
        ("copy_to_gpu", "gpu"),
    ]
    assert [stages.device.device_of(edge) for edge in stages.device.outputs] == ["gpu", "cpu", "gpu", "cpu"]
    streams = {node.name: node.random_stream for node in whole._internals.graph.nodes}
    kept = [*stages.host.nodes, *stages.device.nodes[4:]]
    assert {node.name: node.random_stream for node in kept if node.name in streams} == streams


def test_data_that_is_fed_to_the_gpu_crosses() -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=0)  # type: ignore[untyped-decorator]
    def described() -> Any:
        return fn.external_source(name="x", device="gpu") + 1

    stages = stages_by_device(described()._internals.graph)
    assert stages.host.inputs[0].name == "x"
    assert ("external_source", "cpu") in operators(stages.host)
    assert [each for each in operators(stages.device) if "constant" not in each[0]] == [
        ("external_source", "cpu"),
        ("copy_to_gpu", "gpu"),
        ("copy_to_gpu", "gpu"),  # the constant
        ("arithmetic", "gpu"),
    ]


def test_training_decodes_with_the_engine_what_the_server_has_read() -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=0)  # type: ignore[untyped-decorator]
    def described() -> Any:
        encoded = fn.io.file.read(fn.external_source(name="path"))
        images = fn.decoders.image_random_crop(encoded, device="mixed")
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip()), fn.external_source(
            name="y", device="gpu"
        )

    whole = described()
    stages = stages_on_engine(whole._internals.graph)
    assert {node.device for node in stages.host.nodes} == {"cpu"}
    assert [name for name, _ in operators(stages.host)] == [
        "external_source",
        "io.file.read",
        "random.coin_flip",
        "external_source",
    ]
    assert [each for each in operators(stages.device) if each[0] != "external_source"] == [
        ("decoders.image_random_crop", "mixed"),
        ("crop_mirror_normalize", "gpu"),
        ("copy_to_gpu", "gpu"),
    ]
    streams = {node.name: node.random_stream for node in whole._internals.graph.nodes}
    kept = [*stages.host.nodes, *stages.device.nodes]
    assert {node.name: node.random_stream for node in kept if node.name in streams} == streams


def test_cores_run_the_whole_graph_and_the_results_are_copied() -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=0, enable_conditionals=True)  # type: ignore[untyped-decorator]
    def described() -> Any:
        images = fn.decoders.image(fn.external_source(name="encoded"), device="mixed")
        small = fn.resize(images, size=(4, 4))
        if fn.random.coin_flip():
            small = fn.flip(small)
        return small, fn.random.normal(small.cpu()), small, small + fn.external_source(name="y").gpu()

    whole = described()
    stages = stages_on_cores(whole._internals.graph)
    assert {node.device for node in stages.host.nodes} == {"cpu"}
    assert not {"copy_to_gpu", "copy_to_cpu"}.intersection(node.operator for node in stages.host.nodes)
    assert operators(stages.device)[-2:] == [("copy_to_gpu", "gpu")] * 2
    assert all(node.schema.fed for node in stages.device.nodes[:-2])
    assert [stages.device.device_of(edge) for edge in stages.device.outputs] == ["gpu", "cpu", "gpu", "gpu"]
    streams = {node.name: node.random_stream for node in whole._internals.graph.nodes}
    assert all(streams[node.name] == node.random_stream for node in stages.host.nodes)


def test_cores_leave_operators_of_the_gpu_alone_and_what_reads_them() -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=0)  # type: ignore[untyped-decorator]
    def described() -> Any:
        small = fn.resize(fn.external_source(name="x").gpu(), size=(4, 4))
        moved = fn.python_function(small, function=np.negative, device="gpu")
        return fn.flip(moved), small, moved.cpu() + 1

    graph = described()._internals.graph
    stages = stages_on_cores(graph)
    assert operators(stages.host)[:2] == [("external_source", "cpu"), ("resize", "cpu")]
    assert [node.operator for node in stages.device.nodes if not node.schema.fed and "const" not in node.operator] == [
        "copy_to_gpu",
        "python_function",
        "flip",
        "copy_to_cpu",
        "arithmetic",
    ]
    assert [stages.device.device_of(edge) for edge in stages.device.outputs] == ["gpu", "gpu", "cpu"]


def test_operator_that_cannot_be_placed_is_an_error_that_names_it(tmp_path: Path) -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=0)  # type: ignore[untyped-decorator]
    def reads() -> Any:
        video = fn.readers.video(filenames=[str(tmp_path / "a.mp4")], sequence_length=2, device="gpu")
        return fn.external_source(name="x"), video

    with pytest.raises(GraphError, match=r"(?s)fn.readers.video reads data.*test_placement.py"):
        stages_by_device(reads()._internals.graph)

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)  # type: ignore[untyped-decorator]
    def fed() -> Any:
        return fn.external_source(name="x") + 1

    with pytest.raises(GraphError, match=r"fn.external_source \(name='x'\) reads data"):
        cut(fed()._internals.graph, lambda node: node.operator == "external_source")


def test_graph_without_gpu_operators_stays_unchanged() -> None:
    graph = piped(main_job)._internals.graph
    assert operators(on_cpu_first(graph)) == operators(graph)
    stages = stages_by_device(graph)
    assert operators(stages.host) == operators(graph)
    assert all(node.schema.fed for node in stages.device.nodes)
