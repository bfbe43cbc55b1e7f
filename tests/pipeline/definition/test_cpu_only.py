"""Pipelines for a GPU that run on the CPU, because the environment variable requests it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from pipeline import Pipeline, fn, ops, pipeline_def, types
from pipeline.errors import ArgumentValueError, InputError

IMAGES = np.random.default_rng(0).integers(0, 255, (4, 12, 10, 3), np.uint8)


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALI_PROXY_DEVICE", "cpu")


@pytest.fixture
def files(jpeg_folder: Path) -> list[str]:
    return [str(path) for path in sorted(jpeg_folder.rglob("*.jpg"))[:4]]


@pipeline_def(batch_size=4, num_threads=2, seed=5)
def classified(files: list[str], decoder: str) -> Any:
    encoded, labels = fn.readers.file(files=files, name="Reader")
    images = fn.decoders.image_random_crop(encoded, device=decoder)
    images = fn.resize(images, size=(24, 32))
    images = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT, output_layout="CHW")
    return images, labels.gpu() if decoder == "mixed" else labels


def run_quietly(pipe: Pipeline, **inputs: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        outputs = [output.as_cpu().as_tensor().as_array() for output in pipe.run(**inputs)]
    pipe.close()
    return outputs


def test_moved_pipeline_computes_what_the_cpu_computes(files: list[str]) -> None:
    moved, labels = run_quietly(classified(files, "mixed", device_id=0))
    expected, expected_labels = run_quietly(classified(files, "cpu", device_id=None))
    np.testing.assert_array_equal(moved, expected)
    np.testing.assert_array_equal(labels, expected_labels)


def test_moved_pipeline_warns_once_and_lists_the_changes(files: list[str]) -> None:
    pipe = classified(files, "mixed", device_id=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipe.build()
        pipe.run()
        assert pipe.epoch_size("Reader") == 4
    (warning,) = caught
    assert warning.category is RuntimeWarning
    text = str(warning.message)
    assert text.startswith("the pipeline classified is declared for a GPU, but runs on the CPU as requested:")
    assert "\n  ignored: device_id=1\n  operators on the CPU: fn.decoders.image_random_crop (test_cpu_only.py:" in text
    assert "fn.resize (" in text
    assert "copies left out: 1 (test_cpu_only.py:" in text
    assert text.endswith("outputs on the CPU: 0, 1")
    assert warning.filename == __file__
    assert (pipe.device_id, pipe.output_devices) == (None, ("cpu", "cpu"))
    assert "outputs on cpu, cpu" in repr(pipe)
    pipe.close()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("device_id", [0, None])
def test_pipeline_without_operators_on_the_gpu_does_not_warn(device_id: int | None) -> None:
    with Pipeline(batch_size=4, num_threads=1, device_id=device_id) as pipe:
        pipe.set_outputs(fn.flip(fn.external_source(name="x", layout="HWC")))
    np.testing.assert_array_equal(pipe.run(x=IMAGES)[0].as_array(), IMAGES[:, :, ::-1])
    pipe.close()


def test_class_of_operators_runs() -> None:
    """Scripts from before DALI 1 define their pipelines so."""

    class Turned(Pipeline):
        def __init__(self) -> None:
            super().__init__(4, 2, 0, seed=1)
            self.feed = ops.ExternalSource(device="gpu")
            self.turn = ops.Rotate(device="gpu", angle=90.0)
            self.constant = types.Constant(np.float32([1, 2]), device="gpu")

        def define_graph(self) -> Any:
            self.images = self.feed(name="images")
            turned = self.turn(fn.reshape(self.images, layout="HWC"))
            return turned, turned.shape(device="gpu"), self.constant

        def iter_setup(self) -> None:
            self.feed_input(self.images, IMAGES)

    turned, shapes, constants = run_quietly(Turned())
    np.testing.assert_array_equal(turned, np.rot90(IMAGES, axes=(1, 2)))
    assert shapes.tolist() == [[10, 12, 3]] * 4
    assert constants.tolist() == [[1, 2]] * 4


def test_branches_run() -> None:
    @pipeline_def(batch_size=4, num_threads=2, device_id=0, enable_conditionals=True)
    def chosen() -> Any:
        images = fn.external_source(name="images", layout="HWC")
        result = images.gpu()
        if fn.external_source(name="flag"):
            result = fn.flip(result)
        elif fn.external_source(name="other"):
            result = images
        return result

    flags = np.array([1, 0, 1, 0])
    (found,) = run_quietly(chosen(), images=IMAGES, flag=flags, other=1 - flags)
    np.testing.assert_array_equal(found, np.where(flags[:, None, None, None], IMAGES[:, :, ::-1], IMAGES))


def test_python_function_gets_arrays_on_the_cpu() -> None:
    with Pipeline(batch_size=4, num_threads=1, device_id=0) as pipe:
        images = fn.external_source(name="x", device="gpu")
        pipe.set_outputs(fn.python_function(images, function=lambda image: np.flipud(image).copy(), device="gpu"))
    np.testing.assert_array_equal(run_quietly(pipe, x=IMAGES)[0], IMAGES[:, ::-1])


def test_graph_function_sees_the_declared_devices() -> None:
    """It describes the same graph, and gets the same errors, as on a machine with a GPU."""
    with Pipeline(batch_size=4, num_threads=1, device_id=0):
        node = fn.external_source(name="x").gpu()
        assert node.device == "gpu"
        with pytest.raises(ArgumentValueError, match=r"add \.cpu\(\)"):
            fn.rotate(fn.external_source(name="y"), angle=node)


def test_serialized_pipeline_keeps_its_devices(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is serialized on a machine without a GPU runs on the GPU elsewhere."""
    pipe = classified(files, "mixed", device_id=2)
    data = pipe.serialize()
    with pytest.warns(RuntimeWarning, match="runs on the CPU"):
        assert Pipeline.deserialize(data).device_id is None
    monkeypatch.setenv("DALI_PROXY_DEVICE", "gpu")
    other = Pipeline(batch_size=2)
    with pytest.raises(RuntimeError, match=r"decoders\.image_random_crop needs a GPU|device_id=2"):
        other.deserialize_and_build(data)
    assert (other.batch_size, other.device_id, other.output_devices) == (2, 2, ("gpu", "gpu"))


def test_array_on_a_gpu_is_an_error_that_names_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnGpu:
        __cuda_array_interface__: ClassVar[Any] = {
            "shape": (4, 2),
            "typestr": "|u1",
            "data": (1 << 20, True),
            "version": 3,
        }

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with Pipeline(batch_size=4, num_threads=1, device_id=0) as pipe:
        pipe.set_outputs(fn.external_source(name="x", device="gpu"))
    with pytest.warns(RuntimeWarning), pytest.raises(InputError, match="input 'x': OnGpu is on a GPU, but none"):
        pipe.feed_input("x", OnGpu())
    pipe.close()


def test_another_value_of_the_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALI_PROXY_DEVICE", "tpu")
    with pytest.raises(ArgumentValueError, match='DALI_PROXY_DEVICE must be "cpu" or "gpu", not \'tpu\''):
        Pipeline(batch_size=1)


def test_operators_of_debug_mode_run_on_the_cpu() -> None:
    devices = []

    @pipeline_def(batch_size=4, num_threads=1, device_id=0, debug=True, enable_conditionals=True)
    def debugged() -> Any:
        images = fn.flip(fn.external_source(name="x", layout="HWC").gpu())
        devices.append((images.device, type(images.get()).__name__))
        result = images
        if fn.external_source(name="flag") > 0:
            result = types.Constant(IMAGES[0], layout="HWC", device="gpu")
        return result, images.cpu()

    pipe = debugged()
    flags = np.array([0, 1, 0, 1])
    with pytest.warns(RuntimeWarning, match=r"(?s)debugged is declared for a GPU.*fn\.flip.*outputs on the CPU: 0"):
        chosen, flipped = pipe.run(x=IMAGES, flag=flags)
    assert devices == [("gpu", "TensorListCPU")]
    np.testing.assert_array_equal(flipped.as_array(), IMAGES[:, :, ::-1])
    np.testing.assert_array_equal(
        chosen.as_array(), np.where(flags[:, None, None, None], IMAGES[:1], IMAGES[:, :, ::-1])
    )
    pipe.close()


@pytest.mark.parametrize("debug", [False, True])
def test_outputs_have_the_interfaces_of_the_declared_devices(debug: bool) -> None:
    @pipeline_def(batch_size=4, num_threads=1, device_id=0, debug=debug)
    def pipe() -> Any:
        data = fn.external_source(lambda: IMAGES, layout="HWC")
        return data, data.gpu()

    made = pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        declared_on_cpu, declared_on_gpu = made.run()
    assert declared_on_cpu.at(1).shape == IMAGES[1].shape
    assert declared_on_gpu.at(1).shape() == [*IMAGES[1].shape]
    assert declared_on_gpu.at(1).layout() == "HWC"
    np.testing.assert_array_equal(declared_on_gpu.at(1).as_cpu(), IMAGES[1])
    np.testing.assert_array_equal(declared_on_gpu.as_cpu().at(1), IMAGES[1])
    assert declared_on_gpu.as_cpu().at(1).shape == IMAGES[1].shape
    made.close()
