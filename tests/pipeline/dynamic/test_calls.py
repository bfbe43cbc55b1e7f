"""Tests of operators in dynamic mode: calls, modes, contexts, random numbers, errors."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from dali_proxy.pipeline._dynamic import context
from dali_proxy.pipeline._executor.executor import Executor
from pipeline import dynamic, fn, pipeline_def
from pipeline.errors import GraphError, InputError, OperatorError, PipelineError
from tests.clips import Clips, number_of
from tests.waiting import PATIENCE_S

IMAGES = [np.random.default_rng(n).integers(0, 255, (20 + n, 30, 3), dtype=np.uint8) for n in range(3)]


def augment(images: dynamic.Batch | dynamic.Tensor, flip: object) -> dynamic.Batch | dynamic.Tensor:
    images = dynamic.resize(images, size=(16, 16))
    images = dynamic.flip(images, horizontal=flip)
    return dynamic.crop_mirror_normalize(images, mean=[100.0], std=[50.0])


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def graph() -> object:
    images = fn.resize(fn.external_source(name="images", layout="HWC"), size=(16, 16))
    images = fn.flip(images, horizontal=fn.external_source(name="flip"))
    return fn.crop_mirror_normalize(images, mean=[100.0], std=[50.0])


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    pipe = graph()
    try:
        (output,) = pipe.run(images=IMAGES, flip=np.int32([0, 1, 1]))
        return output.as_array()
    finally:
        pipe.close()


@pytest.mark.parametrize("mode", dynamic.EvalMode)
def test_results_have_the_bits_of_a_pipeline_in_every_mode(mode: dynamic.EvalMode, expected: np.ndarray) -> None:
    with mode:
        batch = augment(dynamic.batch(IMAGES, layout="HWC"), dynamic.batch([0, 1, 1]))
        singles = [augment(dynamic.tensor(image), flip) for image, flip in zip(IMAGES, (0, 1, 1), strict=True)]
        assert np.array_equal(batch.torch(), expected)
        assert all(np.array_equal(each, row) for each, row in zip(singles, expected, strict=True))


def test_deferred_mode_runs_a_chain_as_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    run = Executor.run
    monkeypatch.setattr(
        Executor, "run", lambda self, request: (ran.append(len(self.graph.nodes)), run(self, request))[1]
    )
    images = dynamic.batch(IMAGES, layout="HWC")
    ran.clear()
    with dynamic.EvalMode.deferred:
        batch = augment(images, 1)
        assert ran == []
        batch.evaluate()
    assert ran == [4]  # one input and three operators


def test_deferred_mode_computes_results_that_are_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with dynamic.EvalMode.deferred:
        first = dynamic.random.uniform(shape=(3,))
        second = first * 2
        assert np.array_equal(second.numpy(), first.numpy() * 2)
        third = first + 1
        dynamic.EvalContext.current().evaluate_all()
        monkeypatch.setattr(Executor, "run", None)
        assert np.array_equal(third.numpy(), first.numpy() + 1)


def test_executors_are_used_again_for_other_data(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic.flip(IMAGES[0], horizontal=1)
    monkeypatch.setattr(Executor, "_prepare_steps", None)
    assert np.array_equal(dynamic.flip(IMAGES[1], horizontal=1), IMAGES[1][:, ::-1])


@pytest.mark.parametrize("mode", [dynamic.EvalMode.eager, dynamic.EvalMode.deferred])
def test_error_names_the_line_of_the_call_and_keeps_its_cause(mode: dynamic.EvalMode) -> None:
    image = dynamic.tensor(np.zeros((10, 10, 3), np.uint8))

    def wrong() -> None:
        dynamic.crop(image, crop=(20, 20)).evaluate()

    with dynamic.EvalMode.sync_cpu, pytest.raises(OperatorError) as direct:
        wrong()
    with mode, pytest.raises(type(direct.value)) as raised:
        wrong()
    line = f"test_calls.py:{wrong.__code__.co_firstlineno + 1}"
    assert str(raised.value.__cause__) == str(direct.value)
    assert line in str(direct.value)
    assert line in str(raised.value)


def test_error_of_a_cached_operator_names_the_present_line() -> None:
    image = dynamic.tensor(np.zeros((10, 10, 3), np.uint8))
    lines = []
    for _ in range(2):
        with pytest.raises(OperatorError) as first:
            dynamic.crop(image, crop=(20, 20))
        lines.append(first.value.location)
    with pytest.raises(OperatorError) as second:
        dynamic.crop(image, crop=(20, 20))
    assert lines[0] == lines[1] != second.value.location
    assert second.value.location in str(second.value)


def test_unknown_arguments_and_wrong_devices_are_errors_of_the_call() -> None:
    with pytest.raises(TypeError, match="sizee"):
        dynamic.resize(IMAGES[0], sizee=3)
    with pytest.raises(TypeError, match=r"rng=random\.RNG"):
        dynamic.random.uniform(seed=3)
    with pytest.raises(ValueError, match="Invalid device"):
        dynamic.resize(IMAGES[0], size=3, device="foo")


def test_batch_size_gives_a_batch() -> None:
    assert dynamic.random.uniform(shape=(2,), batch_size=3).shape == [(2,)] * 3
    assert dynamic.zeros(shape=(2,), batch_size=2).batch_size == 2
    assert isinstance(dynamic.zeros(shape=(2,)), dynamic.Tensor)


def test_arguments_accept_dtypes_of_all_libraries() -> None:
    for dtype in (dynamic.float32, "float32", np.float32):
        assert dynamic.cast([1, 2], dtype=dtype).dtype == dynamic.float32


def test_random_numbers_depend_on_the_generator_and_the_number_of_draws() -> None:
    first, second = dynamic.random.RNG(seed=5), dynamic.random.RNG(seed=5)
    numbers = [dynamic.random.normal(shape=(4,), rng=first).numpy() for _ in range(2)]
    assert np.array_equal(numbers[0], dynamic.random.normal(shape=(4,), rng=second))
    assert not np.array_equal(*numbers)
    resumed = dynamic.random.RNG(state=second.state)
    assert [resumed() for _ in range(3)] == [second() for _ in range(3)]


def test_default_generator_is_seeded_per_thread() -> None:
    dynamic.random.set_seed(3)
    expected = dynamic.random.uniform(shape=(3,)).numpy()
    found: list[np.ndarray] = []

    def draw() -> None:
        dynamic.random.set_seed(3)
        found.append(dynamic.random.uniform(shape=(3,)).numpy())

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    assert np.array_equal(found[0], expected)


class Drawn(torch.utils.data.Dataset[float]):
    """The next number of the default generator for each sample."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(dynamic.random.uniform(range=(0, 1)))


def test_forked_workers_of_torch_draw_numbers_of_their_seeds() -> None:
    assert 0 <= Drawn()[0] < 1  # with the generator that the workers would inherit
    torch.manual_seed(3)
    loader = torch.utils.data.DataLoader(Drawn(), num_workers=2, multiprocessing_context="fork")
    numbers = [float(number) for _ in range(2) for number in loader]
    assert len(set(numbers)) == 8
    torch.manual_seed(3)
    assert [float(number) for number in loader] == numbers[:4]


def test_context_is_active_in_one_thread_only() -> None:
    context = dynamic.EvalContext(num_threads=1)
    errors: list[str] = []

    def enter() -> None:
        try:
            with context:
                pass
        except PipelineError as error:
            errors.append(str(error))

    with context:
        assert dynamic.EvalContext.current() is context
        assert dynamic.flip(IMAGES[0]).shape == IMAGES[0].shape
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    context.close()
    assert "active in another thread" in errors[0]


def test_number_of_threads_is_checked() -> None:
    for wrong in (0, -1, 10**6, True, "2"):
        with pytest.raises(GraphError, match="number of threads"):
            dynamic.set_num_threads(wrong)
    assert dynamic.get_num_threads() == 2


def test_threads_that_come_at_the_same_time_share_the_default_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    both_are_inside, first_is_back = threading.Barrier(2), threading.Event()
    pool = context._DefaultPool()

    def number() -> int:
        if both_are_inside.wait(PATIENCE_S):
            first_is_back.wait(PATIENCE_S)
        return 1

    def get(_: int) -> context.ThreadPool:
        found = pool.get()
        first_is_back.set()
        return found

    monkeypatch.setattr(context, "get_num_threads", number)
    with ThreadPoolExecutor(2) as executor:
        one, other = executor.map(get, range(2))
    assert one is other
    assert one.threads.run(lambda index: None, 2) == []
    pool.set(None)


def test_readers_iterate_over_epochs(tmp_path: Path) -> None:
    for number in range(5):
        folder = tmp_path / str(number % 2)
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(bytes([number]) * 3)
    reader = dynamic.readers.File(file_root=tmp_path)
    labels = [[batch[1].torch().flatten().tolist() for batch in reader.next_epoch(batch_size=2)] for _ in range(2)]
    assert [[*itertools.chain(*epoch)] for epoch in labels] == [[0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 0, 0]]
    assert len(list(reader.next_epoch())) == 5  # tensors
    assert reader.get_metadata()["epoch_size"] == 5
    state = reader.get_state()
    expected = [data.numpy()[0] for data, _ in reader.next_epoch()]
    other = dynamic.readers.File(file_root=tmp_path)
    other.set_state(state)
    assert [data.numpy()[0] for data, _ in other.next_epoch()] == expected
    rest = iter(reader.next_epoch())
    first = next(rest)
    other.set_state(reader.get_state())
    expected = [data.numpy()[0] for data, _ in rest]
    assert [data.numpy()[0] for data, _ in other.next_epoch()] == expected
    assert len(expected) == 4
    assert first[0].device == dynamic.Device.CPU
    with pytest.raises(TypeError, match="file_roots"):
        dynamic.readers.File(file_roots=tmp_path)
    reader.close()
    other.close()


def test_video_takes_paths(clips: Clips) -> None:
    paths = [str(clips.path("h264.mp4")), clips.path("av1.mp4")]
    assert [number_of(frame) for frame in dynamic.video(paths[0], frames=[3, 1]).numpy()] == [3, 1]
    both = dynamic.video(paths, times=[0.4, 0.8])
    assert [[number_of(frame) for frame in each.numpy()] for each in both.tensors] == [[10, 20]] * 2


def test_operators_of_files_take_paths(clips: Clips) -> None:
    path = clips.path("h264.mp4")
    content = np.frombuffer(path.read_bytes(), np.uint8)
    for given in (path, str(path), os.fsencode(path)):
        assert number_of(dynamic.io.video(given, frames=[3]).numpy()[0]) == 3
        np.testing.assert_array_equal(dynamic.io.file.read(given).numpy(), content)
    with pytest.raises(InputError, match=r"pass the content, path\.read_bytes\(\)"):
        dynamic.decoders.image(path)  # its input is the content


def test_imread_decodes_files(jpeg_folder: Path) -> None:
    files = sorted(jpeg_folder.rglob("*.jpg"))[:2]
    image, images = dynamic.imread(files[0]), dynamic.imread(files)
    assert image.layout == "HWC"
    assert np.array_equal(image, images.select(0))


def test_operators_are_functions_with_documentation() -> None:
    for name in ("resize", "decoders.image", "random.uniform", "experimental.dilate", "math.sin", "reductions.sum"):
        found = sys.modules["dali_proxy.pipeline.dynamic"]
        for part in name.split("."):
            found = getattr(found, part)
        assert found.__doc__
    assert "rng" in dynamic.random.uniform.__doc__
    assert "seed (" not in dynamic.random.uniform.__doc__
    assert "Devices: cpu, gpu." in dynamic.io.video.__doc__
    with pytest.raises(AttributeError, match="no operator 'resise'"):
        _ = dynamic.resise


def test_list_has_an_input_for_each_of_several_calls() -> None:
    """As in `fn`: the arguments and the random numbers are the same."""
    image, mask = dynamic.tensor(IMAGES[0], layout="HWC"), dynamic.tensor(IMAGES[0][..., :1], layout="HWC")
    for first, second in ((image, mask), (dynamic.batch([image, image]), dynamic.batch([mask, mask]))):
        cut, cut_mask = dynamic.random_resized_crop([first, second], size=(9, 9))
        assert np.array_equal(np.asarray(cut.torch())[..., :1], cut_mask.torch())
    a, b = dynamic.crop([image, image], crop=(4, 4))  # of equal shape: not one tensor with another dimension
    assert a.shape == b.shape == (4, 4, 3)
    assert dynamic.crop([image], crop=(4, 4)).shape == (4, 4, 3)
    anchors, shapes = dynamic.random_crop_generator([dynamic.tensor([9, 7]), dynamic.tensor([9, 7])])
    assert np.array_equal(anchors[0], anchors[1])
    assert np.array_equal(shapes[0], shapes[1])
    a, b = dynamic.flip([IMAGES[0], torch.zeros(4, 5, 3)])  # arrays, as the function of a dataset gets them
    assert (a.shape, b.shape) == (IMAGES[0].shape, (4, 5, 3))
    assert dynamic.cast([[1, 2], [3, 4]], dtype=dynamic.float32).shape == (2, 2)


def test_wrong_lists_of_inputs_are_errors() -> None:
    image = dynamic.tensor(IMAGES[0], layout="HWC")
    with pytest.raises(GraphError, match=r"fn.flip: input 0 is a list of data and other objects\n  at .*test_calls.py"):
        dynamic.flip([image, 3])
    with pytest.raises(GraphError, match="must have the same length"):
        dynamic.cat([image, image], [image])
    with pytest.raises(PipelineError, match="a tuple with batches: pass a list"):
        dynamic.flip((dynamic.batch(IMAGES), dynamic.batch(IMAGES)))


def test_name_of_an_axis_without_a_layout_is_an_error_that_says_how_to_give_one() -> None:
    with pytest.raises(PipelineError, match=r"no layout: give it one with reinterpret"):
        dynamic.expand_dims(np.zeros((2, 3)), axes=2, new_axis_names="C").evaluate()
    named = dynamic.reinterpret(np.zeros((2, 3)), layout="HW")
    assert dynamic.expand_dims(named, axes=2, new_axis_names="C").layout == "HWC"
