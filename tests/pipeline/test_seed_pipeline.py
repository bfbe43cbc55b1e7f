"""What the documentation of `Pipeline`, `pipeline_def` and `DataNode` says, tried. Its examples run as written."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import DataNode, Pipeline, errors, fn, ops, pipeline_def, types
from pipeline._imaging import decode

BATCH = np.arange(6, dtype=np.int32).reshape(2, 3)
ARGUMENTS: dict[str, Any] = {"batch_size": 2, "num_threads": 2, "device_id": None}


def closed(pipe: Pipeline) -> Any:
    made = [out.as_array().tolist() for out in pipe.run()]
    pipe.close()
    return made


def my_generator() -> Iterator[Any]:
    while True:
        yield BATCH


# Three ways to define a pipeline


class SimplePipeline(Pipeline):
    """The legacy way."""

    def __init__(self, batch_size: int, num_threads: int, device_id: int | None) -> None:
        super().__init__(batch_size, num_threads, device_id, seed=12)

    def define_graph(self) -> Any:
        data = fn.external_source(source=my_generator)
        return [data, data + 1]  # a list of outputs


def test_the_three_ways_are_one() -> None:
    @pipeline_def
    def decorated() -> Any:
        data = fn.external_source(source=my_generator)
        return data, data + 1

    direct = Pipeline(batch_size=2, num_threads=2, device_id=None)
    with direct:
        data = fn.external_source(source=my_generator)
        direct.set_outputs(data, data + 1)
    pipes = [decorated(**ARGUMENTS), direct, SimplePipeline(2, 2, None)]
    assert [closed(pipe) for pipe in pipes] == [[BATCH.tolist(), (BATCH + 1).tolist()]] * 3


def test_constants_are_outputs() -> None:
    @pipeline_def(**ARGUMENTS)
    def graph() -> Any:
        return 1, 2.5, True, np.arange(3, dtype=np.uint8), [1, 2], types.Constant(7, dtype=types.INT64)

    pipe = graph()
    outputs = pipe.run()
    assert [out.dtype for out in outputs] == [
        types.INT32, types.FLOAT, types.BOOL, types.UINT8, types.INT32, types.INT64,
    ]  # fmt: skip
    assert outputs[4].as_array().tolist() == [[1, 2]] * 2
    pipe.close()
    assert closed(pipeline_def(lambda: [1, 2])(**ARGUMENTS)) == [[[1, 2]] * 2], "a list of numbers is one output"


# The examples of pipeline_def


DEVICES = ["cpu", pytest.param("mixed", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_the_example_with_arguments(jpeg_folder: Path, device: str) -> None:
    images_dir = str(jpeg_folder)

    @pipeline_def
    def my_pipe(flip_vertical: bool, flip_horizontal: bool) -> Any:
        """Creates a DALI pipeline, which returns flipped and original images"""
        data, _ = fn.readers.file(file_root=images_dir)
        img = fn.decoders.image(data, device=device)
        flipped = fn.flip(img, horizontal=flip_horizontal, vertical=flip_vertical)
        return flipped, img

    assert my_pipe.__name__ == "my_pipe"
    assert my_pipe.__doc__ is not None
    assert "flipped and original" in my_pipe.__doc__
    pipe = my_pipe(True, False)
    with pytest.raises(errors.BuildError, match="has no batch_size"):
        pipe.build()  # the pipeline is not configured properly yet
    pipe = my_pipe(True, False, batch_size=32, num_threads=1, device_id=0)
    pipe.build()  # the pipeline is properly configured, we can build it now
    try:
        flipped, img = (batch.as_cpu() for batch in pipe.run())
    finally:
        pipe.close()
    files = sorted(jpeg_folder.rglob("*.jpg"))
    for sample, (upside_down, picture) in enumerate(zip(flipped, img, strict=True)):
        np.testing.assert_array_equal(np.asarray(upside_down), np.asarray(picture)[::-1])
        # By default, nvJPEG repeats colours that are stored at half the size, and the CPU interpolates them.
        expected = decode(np.fromfile(files[sample % len(files)], np.uint8), fancy_upsampling=device == "cpu")
        difference = np.abs(np.asarray(picture).astype(int) - expected)
        assert difference.max() <= (0 if device == "cpu" else 4)
        assert difference.mean() <= (0 if device == "cpu" else 0.5)


@pytest.mark.parametrize("device", DEVICES)
def test_the_example_of_a_graph(jpeg_folder: Path, device: str) -> None:
    @pipeline_def  # create a pipeline with processing graph defined by the function below
    def my_pipeline() -> Any:
        """Create a pipeline which reads images and masks, decodes the images and returns them."""
        img_files, labels = fn.readers.file(file_root=str(jpeg_folder), seed=1)
        mask_files, _ = fn.readers.file(file_root=str(jpeg_folder), seed=1)
        images = fn.decoders.image(img_files, device=device)
        masks = fn.decoders.image(mask_files, device=device)
        return images, masks, labels

    pipe = my_pipeline(batch_size=4, num_threads=2, device_id=0)
    pipe.build()
    images, masks, labels = (batch.as_cpu() for batch in pipe.run())
    assert all((np.asarray(image) == np.asarray(mask)).all() for image, mask in zip(images, masks, strict=True))
    assert labels.as_array().tolist() == [[0]] * 4
    pipe.close()


def test_the_example_of_a_current_pipeline() -> None:
    def my_source() -> Any:
        return BATCH, BATCH + 1

    pipe = Pipeline(batch_size=2, num_threads=3, device_id=None)
    with pipe:
        src = ops.ExternalSource(my_source, num_outputs=2)
        a, b = src()
        pipe.set_outputs(a, b)

    @pipeline_def(batch_size=2, num_threads=3, device_id=None)
    def my_pipe(my_source: Any) -> Any:
        return fn.external_source(my_source, num_outputs=2)

    assert closed(pipe) == closed(my_pipe(my_source)) == [BATCH.tolist(), (BATCH + 1).tolist()]


def test_the_examples_with_pipeline_arguments() -> None:
    @pipeline_def(batch_size=42, num_threads=3)
    def fixed(flip_vertical: bool, flip_horizontal: bool) -> Any:
        return fn.flip(fn.external_source(name="x"), horizontal=flip_horizontal, vertical=flip_vertical)

    pipe = fixed(True, flip_horizontal=False)
    assert (pipe.max_batch_size, pipe.num_threads) == (42, 3)

    @pipeline_def(batch_size=32, num_threads=3)
    def my_pipe() -> Any:
        data = fn.external_source(source=my_generator)
        return data

    pipe = my_pipe(batch_size=128)  # batch_size=128 overrides batch_size=32
    assert (pipe.max_batch_size, pipe.num_threads) == (128, 3)
    assert closed(pipe) == [BATCH.tolist()]


def test_arguments_of_the_graph_function_shadow_those_of_the_pipeline() -> None:
    @pipeline_def(**{**ARGUMENTS, "batch_size": 5})
    def shadowing(batch_size: int = 3, *, seed: int) -> Any:
        return fn.external_source(name="x") + batch_size + seed

    pipe = shadowing(batch_size=10, seed=100)
    assert (pipe.max_batch_size, pipe.seed) == (5, None)
    assert pipe.run(x=BATCH)[0].as_array().tolist() == (BATCH + 110).tolist()
    pipe.close()


def test_variadic_keywords_are_not_allowed() -> None:
    with pytest.raises(TypeError, match=r"takes \*\*kwargs"):

        @pipeline_def
        def graph(**kwargs: Any) -> Any:
            return fn.external_source(**kwargs)


# Current pipelines, sinks and what is pruned


def operators(pipe: Pipeline) -> list[str]:
    return [node.name for node in pipe.graph.nodes]


def test_what_no_output_needs_is_pruned_unless_it_is_kept() -> None:
    with Pipeline(**ARGUMENTS) as pipe:
        x = fn.external_source(name="x")
        fn.copy(x, name="pruned")
        fn.copy(x, name="preserved", preserve=True)
        sink = fn.copy(x, name="sink")
        pipe.add_sink(sink)
        pipe.set_outputs(x)
    assert operators(pipe) == ["x", "preserved", "sink"]
    assert pipe.run(x=BATCH)[0].as_array().tolist() == BATCH.tolist()
    with pytest.raises(errors.GraphError, match="too late"):
        pipe.add_sink(sink)
    pipe.close()
    with pytest.raises(TypeError, match="needs a DataNode"):
        Pipeline(**ARGUMENTS).add_sink("sink")  # type: ignore[arg-type]


def test_current_pipelines_are_a_stack() -> None:
    outer, inner = Pipeline(**ARGUMENTS), Pipeline(**ARGUMENTS)
    x = fn.external_source(name="x")
    Pipeline.push_current(outer)
    with contextlib.suppress(ZeroDivisionError), inner:
        fn.copy(x, name="in inner", preserve=True)
        raise ZeroDivisionError
    y = fn.external_source(name="y")
    fn.copy(y, name="in outer", preserve=True)
    Pipeline.pop_current()
    inner.set_outputs(x)
    outer.set_outputs(y)
    assert operators(inner) == ["x", "in inner"]
    assert operators(outer) == ["y", "in outer"]
    with pytest.raises(errors.GraphError, match="there is no current pipeline"):
        Pipeline.pop_current()
    with pytest.raises(errors.GraphError, match="within a pipeline"):
        fn.copy(x, preserve=True)


def test_each_thread_has_its_own_current_pipeline() -> None:
    with Pipeline(**ARGUMENTS) as pipe:
        failures: list[Exception] = []

        def other() -> None:
            try:
                fn.copy(fn.external_source(name="z"), preserve=True)
            except errors.GraphError as error:
                failures.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        pipe.set_outputs(fn.external_source(name="x"))
    assert len(failures) == 1
    assert operators(pipe) == ["x"]


# Building


def test_building_with_a_function() -> None:
    pipe = Pipeline(**ARGUMENTS)
    pipe.build(define_graph=lambda: [fn.external_source(my_generator), fn.external_source(my_generator) * 2])
    pipe.build()
    assert closed(pipe) == [BATCH.tolist(), (BATCH * 2).tolist()]
    with Pipeline(**ARGUMENTS) as pipe:
        pipe.set_outputs(fn.external_source(my_generator))
    with pytest.raises(errors.GraphError, match=r"build\(define_graph=\.\.\.\) can't be used"):
        pipe.build(define_graph=lambda: fn.external_source(my_generator))
    assert closed(pipe) == [BATCH.tolist()]
    pipe = SimplePipeline(2, 1, None)
    pipe.start_py_workers()
    with pytest.raises(errors.GraphError, match=r"start_py_workers\(\) has already fixed the graph"):
        pipe.build(define_graph=lambda: fn.external_source(my_generator))
    pipe.close()


def test_a_graph_that_could_not_be_built_can_be_tried_again() -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x").gpu())
    for _ in range(2):
        with pytest.raises(errors.DeviceError, match="device_id=None"):
            pipe.build()
    pipe.close()


# Running


class ExternalPipeline(Pipeline):
    """Feeds its inputs in `iter_setup`, from NumPy arrays."""

    def __init__(self) -> None:
        super().__init__(**ARGUMENTS)
        self.batches = iter([BATCH, BATCH + 1])

    def define_graph(self) -> Any:
        self.images = fn.external_source()
        return self.images

    def iter_setup(self) -> None:
        self.feed_input(self.images, next(self.batches))


def test_iter_setup_feeds_until_the_data_ends() -> None:
    pipe = ExternalPipeline()
    assert [pipe.run()[0].as_array().tolist() for _ in range(2)] == [BATCH.tolist(), (BATCH + 1).tolist()]
    with pytest.raises(StopIteration):
        pipe.run()
    pipe.batches = iter([BATCH])
    pipe.reset()
    assert pipe.run()[0].as_array().tolist() == BATCH.tolist()
    pipe.close()


def test_the_scheduling_calls() -> None:
    @pipeline_def(**ARGUMENTS)
    def numbers() -> Any:
        return fn.external_source(lambda iteration: BATCH + iteration)

    pipe = numbers()
    pipe.build()
    assert pipe.empty()
    pipe.schedule_run()
    pipe.schedule_run()
    assert not pipe.empty()
    first = pipe.share_outputs()
    assert isinstance(first, tuple)
    held = np.asarray(first[0].as_array())
    pipe.release_outputs()
    (second,) = pipe.outputs()
    assert [held.tolist(), second.as_array().tolist()] == [BATCH.tolist(), (BATCH + 1).tolist()]
    pipe.close()


def test_named_inputs_and_the_arguments_of_the_other_documents() -> None:
    @pipeline_def(**ARGUMENTS, exec_dynamic=True)
    def decoding() -> Any:
        encoded = fn.external_source(
            name="encoded_img", blocking=False, no_copy=True, dtype=types.INT32, ndim=1, layout="W"
        )
        return encoded * 2

    pipe = decoding()
    (out,) = pipe.run(encoded_img=BATCH)
    assert out.as_array().tolist() == (BATCH * 2).tolist()
    assert out.layout() == "W"
    assert pipe.exec_dynamic
    pipe.close()


# DataNode


def test_a_data_node_stands_for_a_batch() -> None:
    node = fn.external_source(name="x")
    assert isinstance(node, DataNode)
    assert (node.name, node.device, node.source is not None) == ("x", "cpu", True)
    assert "'x'" in repr(node)
    assert {node: 1}[node] == 1, "it can be a key"
    assert DataNode("free", "gpu").device == "gpu"
    with Pipeline(**ARGUMENTS) as pipe:
        pipe.set_outputs(node.cpu(), node.shape(), node.property("layout"), -node[0] + 1, DataNode.shape(node))
    outputs = pipe.run(x=BATCH)
    assert outputs[1].as_array().tolist() == [[3], [3]]
    assert outputs[3].as_array().tolist() == [1, -2]
    pipe.close()
    bare = Pipeline(**ARGUMENTS)
    bare.set_outputs(DataNode("free"))
    with pytest.raises(errors.GraphError, match="isn't the output of an operator"):
        bare.build()
