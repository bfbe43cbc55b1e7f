"""Plans of graphs on a GPU, computed without one: the launches that an executor would issue."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.device_planner import PlannedBatch, Planner, simple_derivations
from dali_proxy.pipeline._compiler.make_operator import make_operator
from dali_proxy.pipeline._compiler.partition import Stages, stages_by_device
from dali_proxy.pipeline._cuda.launch import address_offsets
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operator_api.request import BatchRequest
from dali_proxy.pipeline._rng import BatchKey
from pipeline import Pipeline, fn, types
from pipeline.errors import OperatorError
from pipeline.tensors import TensorListCPU
from tests.pipeline.kernels import emulator
from tests.pipeline.kernels.runners import cropped_resized_normalized

KEY = BatchKey(3, 5, 1)
SHAPES = [(31, 40), (25, 64), (64, 20), (33, 33)]


def sample_images(channels: int = 3, layout: str = "HWC") -> TensorListCPU:
    rng = np.random.default_rng(5)
    return TensorListCPU([rng.integers(0, 256, (*shape, channels), np.uint8) for shape in SHAPES], layout)


def pipeline(define: Callable[..., Any], *inputs: str) -> Pipeline:
    pipe = Pipeline(batch_size=4, num_threads=1, device_id=0, seed=11)
    with pipe:
        made = define(*(fn.external_source(name=name) for name in inputs))
        pipe.set_outputs(*(made if isinstance(made, tuple) else (made,)))
    return pipe


def stages(pipe: Pipeline) -> Stages:
    return stages_by_device(pipe._internals.graph)


def main_job(x: Any, label: Any) -> Any:
    """Define a crop that is drawn in the device stage, and a coin and a mean of each sample from the host stage."""
    images = fn.random_resized_crop(x.gpu(), size=(16, 24))
    normal = fn.crop_mirror_normalize(
        images, mirror=fn.random.coin_flip(), mean=fn.random.uniform(range=(90.0, 120.0)), std=[60.0, 61.0, 62.0]
    )
    return normal, label.gpu(), label


def planned(pipe: Pipeline, *inputs: TensorListCPU) -> PlannedBatch | None:
    device = stages(pipe).device
    assert simple_derivations(device) is not None
    return Planner(device, pipe._internals.arguments.executor_config()).plan(inputs, KEY)


LABELS = TensorListCPU(np.arange(4, dtype=np.int64))
COINS = TensorListCPU(np.array([1, 0, 0, 1], np.int32))
MEANS = TensorListCPU(np.array([100.0, 110.0, 95.0, 90.0], np.float32))


def test_parts_of_the_main_job() -> None:
    device = stages(pipeline(main_job, "x", "label")).device
    derivations = simple_derivations(device)
    assert derivations is not None
    assert [(part.on_gpu, [node.operator for node in part.chain]) for part in derivations] == [
        (True, ["random_resized_crop", "crop_mirror_normalize"]),
        (True, []),
        (False, []),
    ]


@pytest.mark.parametrize(
    "define",
    [
        lambda x: fn.crop_mirror_normalize(fn.equalize(x.gpu())),
        lambda x: fn.crop_mirror_normalize(fn.resize(x.gpu(), size=(8, 8)).gpu()).cpu(),
        lambda x: (x.gpu() + 1, x),
    ],
)
def test_other_graphs_have_no_parts(define: Callable[..., Any]) -> None:
    assert simple_derivations(stages(pipeline(define, "x")).device) is None


def addresses(table: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """Return the addresses at an offset in all rows of a launch's table."""
    return np.ndarray((len(table),), np.int64, table.view(np.uint8), offset, (table.dtype.itemsize,))


def test_plan_equals_that_of_the_executor() -> None:
    """The tables equal those of the whole graph's operators for the batch, except for base addresses."""
    pipe = pipeline(main_job, "x", "label")
    made = planned(pipe, sample_images(), LABELS, COINS, MEANS, LABELS)
    assert made is not None
    block = np.zeros(made.nbytes, np.uint8)
    made.write(block)

    wanted = _launch_of(pipe, sample_images(), Samples.dense(np.zeros((4, 3, 16, 24), np.float32)))
    output = made.outputs[0]
    assert output.launch is not None
    assert (output.launch.defines, output.launch.grid) == (wanted.defines, wanted.grid)
    table, expected = wanted.tables[0].copy(), wanted.tables[0].copy()
    table.view(np.uint8)[:] = block[output.offsets[0] :][: table.nbytes]
    begins = addresses(table, address_offsets(table.dtype)[1]).copy()
    for each in (table, expected):
        addresses(each, address_offsets(each.dtype)[1])[:] = 0
        addresses(each, 0)[:] = 0
    assert (table == expected).all()
    for begin, sample in zip(begins, sample_images().samples, strict=True):
        np.testing.assert_array_equal(block[begin : begin + sample.size].reshape(sample.shape), sample)


@pytest.mark.skipif(emulator.COMPILER is None, reason="needs a C++ compiler")
def test_source_that_a_kernel_reads_twice_is_moved_twice() -> None:
    images = TensorListCPU(np.random.default_rng(0).integers(0, 256, (4, 9, 11, 3), np.uint8), "HWC")
    made = planned(pipeline(lambda x: fn.laplacian(x.gpu(), window_size=3), "x"), images)
    assert made is not None
    block = np.zeros(made.nbytes, np.uint8)
    made.write(block)
    (output,) = made.outputs
    assert output.launch is not None
    assert output.target is not None
    result = np.zeros(images.as_array().shape, np.uint8)
    assert output.target.nbytes == result.nbytes
    table = block[output.offsets[0] :][: output.launch.tables[0].nbytes].view(output.launch.tables[0].dtype)
    target, *sources = address_offsets(table.dtype)
    assert len(sources) == 2
    for offset, memory in ((target, result), *((each, block) for each in sources)):
        addresses(table, offset)[:] += memory.ctypes.data
    emulator.run_at("evaluate.cu", "evaluate", output.launch.defines, [table.ctypes.data], output.launch.grid)
    on_cpu = Pipeline(batch_size=4, num_threads=1, device_id=None)
    with on_cpu:
        on_cpu.set_outputs(fn.laplacian(fn.external_source(name="x"), window_size=3))
    on_cpu.build()
    (expected,) = on_cpu.run(x=images)
    on_cpu.close()
    np.testing.assert_allclose(result.astype(np.int16), expected.as_array(), atol=1)


@pytest.mark.skipif(emulator.COMPILER is None, reason="needs a C++ compiler")
def test_patches_of_images_of_any_size_are_one_launch() -> None:
    def define(x: Any) -> Any:
        x = fn.smart_resize(x, factor=8, min_pixels=64, max_pixels=64 * 12)
        return fn.patchify(x, patch_size=4, merge_size=2, temporal_patch_size=2, mean=[100.0], std=[50.0])

    made = planned(pipeline(lambda x: define(x.gpu()), "x"), sample_images())
    assert made is not None
    block = np.zeros(made.nbytes, np.uint8)
    made.write(block)
    (output,) = made.outputs
    assert output.launch is not None
    assert output.target is not None
    memory = np.zeros(output.target.nbytes, np.uint8)
    table = block[output.offsets[0] :][: output.launch.tables[0].nbytes].view(output.launch.tables[0].dtype)
    target, source = address_offsets(table.dtype)
    addresses(table, target)[:] += memory.ctypes.data
    addresses(table, source)[:] += block.ctypes.data
    emulator.run_at("evaluate.cu", "evaluate", output.launch.defines, [table.ctypes.data], output.launch.grid)
    on_cpu = Pipeline(batch_size=4, num_threads=1, device_id=None)
    with on_cpu:
        on_cpu.set_outputs(define(fn.external_source(name="x", layout="HWC")))
    on_cpu.build()
    (expected,) = on_cpu.run(x=sample_images())
    on_cpu.close()
    placed = output.target.table
    assert placed.shapes.tolist() == [list(shape) for shape in expected.shape()]
    for sample, begin in zip(expected.samples, placed.pointers.tolist(), strict=True):
        result = np.ndarray(sample.shape, np.float32, memory, begin)
        np.testing.assert_allclose(result, sample, atol=1.01 / 50)


def _launch_of(pipe: Pipeline, data: TensorListCPU, target: Samples) -> Any:
    """Return the launch that the operators of the whole graph plan."""
    graph, config = pipe._internals.graph, pipe._internals.arguments.executor_config()
    nodes = [node for node in graph.nodes if node.operator in ("random_resized_crop", "crop_mirror_normalize")]
    arguments = {nodes[1].argument_inputs[name]: value for name, value in (("mirror", COINS), ("mean", MEANS))}
    batch = Batch.without_executor(BatchRequest(4, key=KEY), arguments, config.seed)
    pixels = PixelExpression.from_samples(data.table(), data.layout())
    for node in nodes:
        operator = make_operator(node, Setup(4, 1, 0, config.seed))
        assert isinstance(operator, PixelOperator)
        assert pixels is not None
        pixels = operator.express(batch, pixels)
    assert pixels is not None
    return pixels.launch(target)


@pytest.mark.skipif(emulator.COMPILER is None, reason="needs a C++ compiler")
def test_block_holds_all_arguments_of_a_launch() -> None:
    def define(x: Any) -> Any:
        images = x.gpu()
        small = fn.crop_mirror_normalize(fn.resize(images, size=(9, 7)), dtype=types.UINT8, output_layout="HWC")
        ragged = fn.crop_mirror_normalize(
            fn.resize(images, resize_shorter=12, subpixel_scale=False), mean=[100.0], std=[50.0]
        )
        return images, ragged, small

    data = sample_images()
    made = planned(pipeline(define, "x"), data)
    assert made is not None
    block = np.zeros(made.nbytes, np.uint8)
    made.write(block)
    copies, ragged, small = made.outputs
    read = np.frombuffer(block.tobytes(), np.uint8).copy()  # moved, as on the GPU
    for output in (ragged, small):
        assert output.target is not None
        assert output.launch is not None
        memory = np.zeros(output.target.nbytes, np.uint8)
        planned_table = output.launch.tables[0]
        table = read[output.offsets[0] :][: planned_table.nbytes].view(planned_table.dtype)
        addresses(table, 0)[:] += memory.ctypes.data
        addresses(table, address_offsets(table.dtype)[1])[:] += read.ctypes.data
        pointers = [table.ctypes.data]
        emulator.run_at("evaluate.cu", "evaluate", output.launch.defines, pointers, output.launch.grid)
        placed = output.target.table
        samples = [
            np.ndarray(shape, placed.dtype, buffer=memory, offset=place)
            for shape, place in zip(placed.shapes.tolist(), placed.pointers.tolist(), strict=True)
        ]
        options: dict[str, Any] = {"layout": output.target.layout}
        if output is ragged:
            options |= {"scale": 1 / 50, "bias": -2.0}
        expected = [np.zeros_like(sample) for sample in samples]
        emulator.run(cropped_resized_normalized(data.table(), Samples.from_arrays(expected), **options))
        for one, other in zip(samples, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert ragged.target is not None
    assert small.target is not None
    assert copies.target is not None
    assert (ragged.target.dense, small.target.dense, copies.target.dense) == (False, True, False)
    assert (copies.batch, copies.launch, copies.offsets) == (data, None, ()), "no launch reads it"


@pytest.mark.parametrize(
    "data",
    [
        TensorListCPU([np.zeros((5, 5, channels), np.uint8) for channels in (3, 3, 1, 3)]),
        sample_images(channels=5),
        TensorListCPU(np.zeros((4, 5, 5, 3), np.int32)),
        TensorListCPU(np.zeros((4, 2, 5, 5, 3), np.uint8), "DHWC"),
    ],
)
def test_images_that_the_kernel_does_not_accept_are_not_planned(data: TensorListCPU) -> None:
    pipe = pipeline(lambda x: fn.crop_mirror_normalize(fn.resize(x.gpu(), size=(8, 8))), "x")
    assert planned(pipe, data) is None
    assert planned(pipe, sample_images()) is not None


def test_frames_are_not_planned() -> None:
    def define(x: Any) -> Any:
        angles = fn.per_frame(fn.random.uniform(range=(1.0, 5.0)))
        return fn.crop_mirror_normalize(fn.resize(x.gpu(), size=(8, 8)), mirror=fn.cast(angles, dtype=types.INT32))

    pipe = pipeline(define, "x")
    device = stages(pipe).device
    assert Planner(device, pipe._internals.arguments.executor_config()).plan([sample_images(), COINS], KEY) is None


def test_errors_name_operator_line_and_samples() -> None:
    def define(x: Any) -> Any:
        return fn.crop_mirror_normalize(fn.resize(x.gpu(), resize_shorter=8), crop=(8, 9), name="cut")

    odd = TensorListCPU([np.zeros((*shape, 3), np.uint8) for shape in ((9, 12), (9, 9), (20, 30), (12, 12))])
    with pytest.raises(OperatorError, match=r"crop_mirror_normalize \(name='cut'\) failed for sample 1") as caught:
        planned(pipeline(define, "x"), odd)
    assert [failure.sample for failure in caught.value.failures] == [1, 3]
    assert "test_planner.py" in str(caught.value.location)


def test_planning_needs_no_cupy() -> None:
    code = "import sys, dali_proxy.pipeline._compiler.device_planner, dali_proxy._host.planning; "
    code += "sys.exit('cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def test_graphs_of_copies_alone() -> None:
    made = planned(pipeline(lambda x: (x.gpu(), x), "x"), LABELS, LABELS)
    assert made is not None
    assert made.nbytes == 0, "no launch needs a block"
    assert [(output.batch, output.launch) for output in made.outputs] == [(LABELS, None)] * 2
    assert made.outputs[0].target is not None
    assert made.outputs[0].target.nbytes == 32
    assert made.outputs[1].target is None
