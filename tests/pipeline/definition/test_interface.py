"""`Pipeline`, `pipeline_def` and `DataNode` from the user's view."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging import decode
from pipeline import DataNode, Pipeline, errors, fn, ops, pipeline_def, types

BATCH = np.arange(6, dtype=np.int32).reshape(2, 3)
ARGUMENTS: dict[str, Any] = {"batch_size": 2, "num_threads": 2, "device_id": None}


def closed(pipe: Pipeline) -> Any:
    outputs = [out.as_array().tolist() for out in pipe.run()]
    pipe.close()
    return outputs


def batches() -> Iterator[Any]:
    while True:
        yield BATCH


# Three ways to define a pipeline


class Counting(Pipeline):
    """Defines its graph in a method."""

    def __init__(self, batch_size: int, num_threads: int, device_id: int | None) -> None:
        super().__init__(batch_size, num_threads, device_id, seed=12)

    def define_graph(self) -> Any:
        data = fn.external_source(source=batches)
        return [data, data + 1]  # a list of outputs


def test_ways_to_define_are_equivalent() -> None:
    @pipeline_def
    def decorated() -> Any:
        data = fn.external_source(source=batches)
        return data, data + 1

    direct = Pipeline(batch_size=2, num_threads=2, device_id=None)
    with direct:
        data = fn.external_source(source=batches)
        direct.set_outputs(data, data + 1)
    pipes = [decorated(**ARGUMENTS), direct, Counting(2, 2, None)]
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


# Pipelines of pipeline_def


DEVICES = ["cpu", pytest.param("mixed", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_arguments_of_the_graph_function_come_first(jpeg_folder: Path, device: str) -> None:
    @pipeline_def
    def mirrored(sideways: bool, upside_down: bool) -> Any:
        """Return each photograph mirrored, and unchanged."""
        encoded, _ = fn.readers.file(file_root=str(jpeg_folder))
        photographs = fn.decoders.image(encoded, device=device)
        return fn.flip(photographs, vertical=upside_down, horizontal=sideways), photographs

    assert (mirrored.__name__, mirrored.__doc__) == ("mirrored", "Return each photograph mirrored, and unchanged.")
    with pytest.raises(errors.BuildError, match="has no batch_size"):
        mirrored(False, True).build()
    pipe = mirrored(False, upside_down=True, num_threads=1, device_id=0, batch_size=30)
    pipe.build()
    try:
        flipped, photographs = (batch.as_cpu() for batch in pipe.run())
    finally:
        pipe.close()
    files = sorted(jpeg_folder.rglob("*.jpg"))
    for sample, (mirror, photograph) in enumerate(zip(flipped, photographs, strict=True)):
        np.testing.assert_array_equal(np.asarray(mirror), np.asarray(photograph)[::-1])
        # By default, nvJPEG repeats colors that are stored at half the size, and the CPU interpolates them.
        expected = decode(np.fromfile(files[sample % len(files)], np.uint8), fancy_upsampling=device == "cpu")
        difference = np.abs(np.asarray(photograph).astype(int) - expected)
        assert difference.max() <= (0 if device == "cpu" else 4)
        assert difference.mean() <= (0 if device == "cpu" else 0.5)


@pytest.mark.parametrize("device", DEVICES)
def test_readers_with_one_seed_go_together(jpeg_folder: Path, device: str) -> None:
    @pipeline_def(num_threads=2, batch_size=6)
    def pairs() -> Any:
        decoded = []
        for _ in range(2):
            encoded, labels = fn.readers.file(seed=7, file_root=str(jpeg_folder), random_shuffle=True)
            decoded.append(fn.decoders.image(encoded, device=device))
        return *decoded, labels

    pipe = pairs(device_id=0)
    pipe.build()
    first, second, labels = (batch.as_cpu() for batch in pipe.run())
    pipe.close()
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert labels.as_array().shape == (6, 1)


def test_pipelines_of_with_and_of_the_decorator_are_equal() -> None:
    def count() -> Any:
        return BATCH, BATCH + 1

    by_hand = Pipeline(batch_size=2, device_id=None, num_threads=3)
    with by_hand:
        read = ops.ExternalSource(count, num_outputs=2)
        low, high = read()
        by_hand.set_outputs(low, high)

    @pipeline_def(batch_size=2, device_id=None, num_threads=3)
    def counting(source: Any) -> Any:
        return fn.external_source(source, num_outputs=2)

    assert closed(by_hand) == closed(counting(count)) == [BATCH.tolist(), (BATCH + 1).tolist()]


def test_arguments_of_the_decorator_are_overridden_by_those_of_the_call() -> None:
    @pipeline_def(num_threads=3, batch_size=5)
    def plain() -> Any:
        return fn.external_source(source=batches)

    pipes = plain(), plain(batch_size=9)
    assert [(pipe.num_threads, pipe.max_batch_size) for pipe in pipes] == [(3, 5), (3, 9)]
    assert [closed(pipe) for pipe in pipes] == [[BATCH.tolist()]] * 2


def test_arguments_of_the_graph_function_shadow_those_of_the_pipeline() -> None:
    @pipeline_def(**{**ARGUMENTS, "batch_size": 5})
    def shadowing(batch_size: int = 3, *, seed: int) -> Any:
        return fn.external_source(name="x") + batch_size + seed

    pipe = shadowing(batch_size=10, seed=100)
    assert (pipe.max_batch_size, pipe.seed) == (5, None)
    assert pipe.run(x=BATCH)[0].as_array().tolist() == (BATCH + 110).tolist()
    pipe.close()


# Current pipelines, sinks and pruning


def operators(pipe: Pipeline) -> list[str]:
    return [node.name for node in pipe._internals.graph.nodes]


def test_unused_nodes_are_pruned_unless_they_are_kept() -> None:
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


def test_threads_have_their_own_current_pipeline() -> None:
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


def test_build_takes_a_function() -> None:
    pipe = Pipeline(**ARGUMENTS)
    pipe.build(define_graph=lambda: [fn.external_source(batches), fn.external_source(batches) * 2])
    pipe.build()
    assert closed(pipe) == [BATCH.tolist(), (BATCH * 2).tolist()]
    with Pipeline(**ARGUMENTS) as pipe:
        pipe.set_outputs(fn.external_source(batches))
    with pytest.raises(errors.GraphError, match=r"build\(define_graph=\.\.\.\) can't be used"):
        pipe.build(define_graph=lambda: fn.external_source(batches))
    assert closed(pipe) == [BATCH.tolist()]
    pipe = Counting(2, 1, None)
    pipe.start_py_workers()
    with pytest.raises(errors.GraphError, match=r"start_py_workers\(\) has already fixed the graph"):
        pipe.build(define_graph=lambda: fn.external_source(batches))
    pipe.close()


def test_graph_that_could_not_be_built_can_be_tried_again() -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=99) as pipe:
        pipe.set_outputs(fn.external_source(name="x").gpu())
    for _ in range(2):
        with pytest.raises(errors.DeviceError, match=r"needs a GPU|device_id=99 is invalid"):
            pipe.build()
    pipe.close()


# Attributes of subclasses

#: Names that DALI's `Pipeline` doesn't have: public ones that ours had or has, and those of scripts written for DALI.
FREE_NAMES = (
    "checkpoint_notes close declare describe executor executor_config from_host_bytes graph input_names inputs keep "
    "name_of output_devices refuse_when_described serialize_for_host show submit summary take_outputs unknown_input "
    "unused_inputs with_graph input reader readers decode resize jpegs labels sources runner builder arguments device"
)


class Assigning(Pipeline):
    """Assigns all names that DALI's `Pipeline` leaves free, in both methods that do so in scripts written for DALI."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{**ARGUMENTS, **arguments})
        for name in FREE_NAMES.split():
            setattr(self, name, None)
        self.input: Any = ops.ExternalSource(name="x")
        self.inputs: Any = ops.ExternalSource(source=batches)

    def define_graph(self) -> Any:
        for name in sorted(set(FREE_NAMES.split()) - {"input", "inputs"}):
            setattr(self, name, None)
        self.graph: Any = self.input()
        return self.graph, self.inputs()


def test_subclass_may_assign_any_name_that_dali_leaves_free(tmp_path: Path) -> None:
    pipe = Assigning(enable_checkpointing=True)
    assert "not described" in repr(pipe)
    for _ in range(2):
        assert [out.as_array().tolist() for out in pipe.run(x=BATCH)] == [BATCH.tolist()] * 2
    pipe.feed_input("x", BATCH)
    pipe.feed_input(pipe.graph, BATCH)
    with pytest.raises(errors.UnknownInputError, match="the inputs are: 'x'"):
        pipe.feed_input("y", BATCH)
    assert (pipe.num_outputs, pipe.input_feed_count("x"), pipe.reader_meta(), pipe.epoch_size()) == (2, 2, {}, {})
    assert pipe.executor_statistics() == {}
    pipe.save_graph_to_dot_file(tmp_path / "graph.dot")
    assert "fn.external_source" in (tmp_path / "graph.dot").read_text()
    pipe._repr_html_()
    with pytest.raises(errors.SerializationError, match="needs Python objects"):
        Pipeline.deserialize(pipe.serialize())
    assert "built" in repr(pipe)
    assert all(getattr(pipe, name) is None for name in FREE_NAMES.split() if name not in ("input", "inputs", "graph"))
    Pipeline.close(pipe)
    assert "closed" in repr(pipe)


def test_subclass_that_is_dropped_ends_although_it_assigned_close() -> None:
    pipe = Assigning()
    pipe.run(x=BATCH)
    del pipe  # the fixture checks that its threads end


@pytest.mark.parity
def test_pipeline_has_no_other_names_than_dali_and_the_documentation() -> None:
    from nvidia.dali import Pipeline as DaliPipeline

    ours = {"checkpoint_notes", "close", "explain", "input_names", "output_devices", "preview", "show", "unused_inputs"}
    names = {name for name in dir(Pipeline) if not name.startswith("_")}
    assert names - set(dir(DaliPipeline)) == ours
    assert set(vars(Pipeline(**ARGUMENTS))) == {"_internals"}


def test_names_that_dali_leaves_free_work_unless_a_subclass_assigns_them() -> None:
    pipe = Counting(2, 2, None)
    assert (pipe.input_names, pipe.output_devices, dict(pipe.unused_inputs)) == ((), ("cpu", "cpu"), {})
    assert dict(pipe.checkpoint_notes) == {}
    assert "fn.external_source" in pipe.show().dot
    pipe.close()


# Running


class FedPipeline(Pipeline):
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
    pipe = FedPipeline()
    assert [pipe.run()[0].as_array().tolist() for _ in range(2)] == [BATCH.tolist(), (BATCH + 1).tolist()]
    with pytest.raises(StopIteration):
        pipe.run()
    pipe.batches = iter([BATCH])
    pipe.reset()
    assert pipe.run()[0].as_array().tolist() == BATCH.tolist()
    pipe.close()


def test_scheduling_calls() -> None:
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


def test_named_inputs_take_their_options() -> None:
    @pipeline_def(**ARGUMENTS, exec_dynamic=True)
    def doubling() -> Any:
        numbers = fn.external_source(
            name="numbers", blocking=False, no_copy=True, dtype=types.INT32, ndim=1, layout="W"
        )
        return numbers * 2

    pipe = doubling()
    (out,) = pipe.run(numbers=BATCH)
    assert out.as_array().tolist() == (BATCH * 2).tolist()
    assert out.layout() == "W"
    assert pipe.exec_dynamic
    pipe.close()


# DataNode


def test_data_node_stands_for_a_batch() -> None:
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
