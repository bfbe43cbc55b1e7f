"""Iterators over pipelines: policies, epochs, errors, memory."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy import DALIClassificationIterator, DALIGenericIterator, DALIRaggedIterator, LastBatchPolicy
from pipeline import Pipeline, errors, fn, types
from tests.dali_proxy.iterators.datasets import Numbered, epochs, make, numbers

FILL, DROP, PARTIAL = LastBatchPolicy


def seven(padded: bool = True, **arguments: Any) -> Any:
    return make("pipeline", Numbered(7, 2, padded), **arguments)


def ragged_pipe(batches: list[Any] | None = None, **arguments: Any) -> Any:
    """A pipeline with samples of 1, 2, 3 and 4 elements; the last of its 3 batches is padded."""
    rows = [np.full(length + 1, length, np.float32) for length in (0, 1, 2, 3, 4, 4)]
    return make("pipeline", batches or [rows[:2], rows[2:4], rows[4:]], cycle="raise", **arguments)


# The table of the docstring and docs/howto/readers.md: five samples in batches of three.


@pytest.mark.parametrize(
    ("policy", "padded", "last", "next_first"),
    [
        (PARTIAL, True, [4, 5], [1, 2, 3]),
        (PARTIAL, False, [4, 5], [2, 3, 4]),
        (FILL, True, [4, 5, 5], [1, 2, 3]),
        (FILL, False, [4, 5, 1], [2, 3, 4]),
        (DROP, True, [1, 2, 3], [1, 2, 3]),
        (DROP, False, [1, 2, 3], [2, 3, 4]),
    ],
)
@pytest.mark.parametrize("auto_reset", [False, True])
def test_documented_case(
    policy: LastBatchPolicy, padded: bool, last: list[int], next_first: list[int], auto_reset: bool
) -> None:
    pipe = make("pipeline", Numbered(5, 3, padded), batch_size=3)
    iterator = DALIGenericIterator(
        pipe, ["x"], size=5, last_batch_policy=policy, last_batch_padded=padded, auto_reset=auto_reset
    )
    first = [numbers(batch)[0] for batch in iterator]
    second = [numbers(batch)[0] for batch in iterator]
    assert first[-1] == last
    assert second[0] == next_first


def test_pipeline_whose_attributes_a_subclass_replaced_is_iterated() -> None:
    class Assigning(Pipeline):
        def define_graph(self) -> Any:
            self.input = self.checkpoint_notes = self.close = self.executor = None  # type: ignore[assignment,method-assign]
            return fn.external_source(source=[np.ones((2, 1))], cycle=True)

    pipe = Assigning(batch_size=2, num_threads=1, device_id=None)
    assert numbers(next(DALIGenericIterator(pipe, ["x"], size=2)))[0] == [1, 1]


# Length and epochs


@pytest.mark.parametrize("policy", list(LastBatchPolicy))
@pytest.mark.parametrize("padded", [False, True])
def test_len_is_the_number_of_batches_that_come(policy: LastBatchPolicy, padded: bool) -> None:
    """DALI returns the length of the first epoch, even if FILL without padding leaves fewer for later ones."""
    iterator = DALIGenericIterator(
        seven(padded), ["x"], size=7, last_batch_policy=policy, last_batch_padded=padded, auto_reset=True
    )
    for _ in range(4):
        length = len(iterator)
        assert length == len(list(iterator))


def test_size_of_the_documented_loop() -> None:
    iterator = DALIGenericIterator(seven(), ["x"], size=7, last_batch_padded=True)
    assert math.ceil(iterator._size / 2) == len(iterator) == 4
    assert iterator.size == 7


def test_reset_after_the_last_batch_needs_no_stop_iteration() -> None:
    iterator = DALIGenericIterator(seven(), ["x"], size=7, last_batch_policy=DROP, last_batch_padded=True)
    for _ in range(len(iterator)):
        next(iterator)
    iterator.reset()
    assert epochs(iterator, 1) == [[[[1, 2]], [[3, 4]], [[5, 6]]]]


def test_reset_in_the_middle_warns_and_does_nothing() -> None:
    iterator = DALIGenericIterator(seven(), ["x"], size=7, last_batch_padded=True)
    next(iterator)
    with pytest.warns(UserWarning, match="middle of an epoch"):
        iterator.reset()
    with pytest.warns(UserWarning, match="middle of an epoch"):
        assert numbers(next(iter(iterator))) == [[3, 4]]


def test_reset_at_the_beginning_is_silent() -> None:
    iterator = DALIGenericIterator(seven(), ["x"], size=7, last_batch_padded=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iterator.reset()
        assert numbers(next(iter(iterator))) == [[1, 2]]


def test_reset_before_the_only_batch_of_an_epoch_does_nothing() -> None:
    """After that, the first epoch of DALI's iterator has two batches."""
    iterator = DALIGenericIterator(seven(), ["x"], size=2, last_batch_policy=PARTIAL)
    iterator.reset()
    assert epochs(iterator, 2, iterator.reset) == [[[[1, 2]]], [[[3, 4]]]]


def test_next_is_also_a_method() -> None:
    assert numbers(DALIGenericIterator(seven(), ["x"], size=7).next()) == [[1, 2]]


def test_iter_in_the_middle_of_an_unsized_epoch_keeps_its_end() -> None:
    batches = [np.array([[1], [2]]), np.array([[3], [4]])]
    iterator = DALIGenericIterator(make("pipeline", batches, cycle="raise"), ["x"])
    next(iterator)
    with pytest.warns(UserWarning, match="middle of an epoch"):
        rest = [numbers(batch) for batch in iterator]
    assert rest == [[[3, 4]]]
    assert epochs(iterator, 2, iterator.reset)[1:] == [[[[1, 2]], [[3, 4]]]]


def test_data_that_ends_before_the_size_ends_the_epoch() -> None:
    batches = [np.array([[1], [2]]), np.array([[3], [4]])]
    iterator = DALIGenericIterator(make("pipeline", batches, cycle="raise"), ["x"], size=9, auto_reset=True)
    assert epochs(iterator, 3) == [[[[1, 2]], [[3, 4]]]] * 3


def test_epoch_ends_with_the_first_of_several_pipelines() -> None:
    """DALI's iterator can't be reset afterwards."""
    pipes = [make("pipeline", [np.full((2, 1), number)] * count, cycle="raise") for number, count in ((1, 3), (2, 2))]
    iterator = DALIGenericIterator(pipes, ["x"], size=12)
    assert epochs(iterator, 2, iterator.reset)[0] == [[[1, 1], [2, 2]], [[1, 1], [2, 2]]]
    assert numbers(next(iterator))[1] == [2, 2]


def test_fed_pipelines() -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.external_source(name="in"))
    iterator = DALIGenericIterator(pipe, ["x"], size=3, last_batch_policy=PARTIAL, last_batch_padded=True)
    with pytest.raises(errors.MissingInputError):
        next(iterator)
    pipe.feed_input("in", np.array([[1], [2]]))
    assert numbers(next(iterator)) == [[1, 2]]
    pipe.feed_input("in", np.array([[3], [3]]))
    assert numbers(next(iterator)) == [[3]]
    assert next(iterator, None) is None


# Arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "Size cannot be 0"),
        ({"size": 2.5}, "number of samples"),
        ({"reader_name": "r"}, "When reader_name is provided, size should not be set"),
        ({"output_map": ["x", "x"]}, "output_map names should be distinct"),
        ({"output_map": []}, "at least one"),
        ({"output_map": "x"}, "list of names"),
        ({"pipelines": []}, "empty"),
        ({"pipelines": [1]}, "needs pipelines, not int"),
        ({"pipelines": None}, "Number of provided pipelines has to be at least 1"),
        ({"auto_reset": 1.5}, "auto_reset"),
        ({"last_batch_policy": 1}, "LastBatchPolicy"),
        ({"size": 1, "last_batch_policy": DROP}, "no batch"),
    ],
)
def test_wrong_argument(arguments: dict[str, Any], message: str) -> None:
    options = {"pipelines": seven(), "output_map": ["x"], "size": 7, **arguments}
    with pytest.raises(errors.GraphError, match=message) as caught:
        DALIGenericIterator(**options)
    assert isinstance(caught.value, TypeError | ValueError)
    if not {"auto_reset", "last_batch_policy"} & set(arguments) and arguments.get("pipelines") != [1]:
        assert isinstance(caught.value, AssertionError), "the type that DALI raises"


def test_several_pipelines_need_a_size() -> None:
    with pytest.raises(errors.ArgumentMismatchError, match="Negative size is supported only for a single pipeline"):
        DALIGenericIterator([seven(), seven()], ["x"])


def test_batch_sizes_must_agree() -> None:
    with pytest.raises(errors.ArgumentMismatchError, match="All pipelines should have the same batch size"):
        DALIGenericIterator([seven(), make("pipeline", Numbered(7, 3, True), 3)], ["x"], size=14)


def test_pipeline_of_an_iterator_refuses_other_ways_to_run() -> None:
    pipe = seven()
    next(DALIGenericIterator(pipe, ["x"], size=7))
    for method in (pipe.schedule_run, pipe.share_outputs, pipe.release_outputs, pipe.outputs, pipe.run):
        with pytest.raises(RuntimeError, match=r"Currently used: PipelineAPIType\.ITERATOR, but trying to use"):
            method()
    pipe.enable_api_check(False)
    pipe.schedule_run()
    pipe.close()


def test_iterator_refuses_a_pipeline_that_is_run_in_another_way() -> None:
    pipe = seven()
    pipe.run()
    with pytest.raises(RuntimeError, match=r"Currently used: PipelineAPIType\.BASIC, but trying to use"):
        next(DALIGenericIterator(pipe, ["x"], size=7))
    pipe.close()


@pytest.mark.parametrize("names", [["x", "y"], ["data", "label", "more"]])
def test_names_must_fit_the_outputs(names: list[str]) -> None:
    iterator = DALIGenericIterator(seven(), names, size=7)
    with pytest.raises(errors.ArgumentMismatchError, match="has 1 outputs"):
        next(iterator)


def test_fill_last_batch_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="last_batch_policy") as caught:
        iterator = DALIGenericIterator(seven(), ["x"], size=7, fill_last_batch=False, last_batch_padded=True)
    assert caught[0].filename == __file__
    assert epochs(iterator, 1)[0][-1] == [[7]]
    with pytest.warns(DeprecationWarning, match="last_batch_policy") as caught:
        DALIClassificationIterator(seven(), 7, fill_last_batch=True)
    assert caught[0].filename == __file__


def test_unknown_reader() -> None:
    with pytest.raises(errors.PipelineError, match="no reader 'r'"):
        DALIGenericIterator(seven(), ["x"], reader_name="r")


def test_policy_of_another_library() -> None:
    dali = pytest.importorskip("nvidia.dali.plugin.base_iterator")
    iterator = DALIGenericIterator(
        seven(), ["x"], size=7, last_batch_policy=dali.LastBatchPolicy.PARTIAL, last_batch_padded=True
    )
    assert epochs(iterator, 1)[0][-1] == [[7]]


# Errors


def test_pipeline_without_data() -> None:
    with pytest.raises(errors.PipelineError, match="no data"):
        DALIGenericIterator(make("pipeline", [], cycle="no"), ["x"])
    late = DALIGenericIterator(make("pipeline", [], cycle="no"), ["x"], prepare_first_batch=False)
    assert next(late, None) is None


def test_batches_must_be_full_where_samples_are_counted() -> None:
    iterator = DALIGenericIterator(make("pipeline", lambda: np.zeros((1, 1))), ["x"], size=7)
    with pytest.raises(errors.PipelineError, match="1 samples instead of 2"):
        next(iterator)


@pytest.mark.parametrize("bad", [0, 1, 3])
@pytest.mark.parametrize("pipelines", [1, 2])
def test_error_belongs_to_its_batch(bad: int, pipelines: int) -> None:
    class Failing(Numbered):
        def __call__(self) -> Any:
            batch = super().__call__()
            if self.asked == bad + 1:
                raise ValueError("no such file")
            return batch

    sources = [Numbered(7, 2, True), Failing(7, 2, True)][-pipelines:]
    iterator = DALIGenericIterator(
        [make("pipeline", source) for source in sources], ["x"], size=7 * pipelines, last_batch_padded=True
    )
    came: list[Any] = []
    for _ in range(5):
        try:
            came.append(numbers(next(iterator)))
        except errors.SourceError:
            came.append("error")
        except StopIteration:
            came.append("end")
    expected: list[Any] = [[batch] * pipelines for batch in ([1, 2], [3, 4], [5, 6], [7, 7])]
    expected[bad] = "error"
    assert came == [*expected, "end"]


# Memory


def big(value: Any) -> Any:
    return np.full((2, 128, 256), value, np.float32)


class Counting:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> Any:
        self.count += 1
        return big(self.count)


def added() -> Any:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.external_source(Counting()) * 2)
    return pipe


def test_outputs_are_not_copied() -> None:
    pipe = added()
    seen: list[int] = []
    share = pipe.share_outputs

    def watched() -> Any:
        outputs = share()
        seen.append(outputs[0].data_ptr())
        return outputs

    pipe.share_outputs = watched
    iterator = DALIGenericIterator(pipe, ["x"], size=20)
    assert [next(iterator)[0]["x"].data_ptr() for _ in range(5)] == seen[:5]


def test_tensors_stay_unchanged_while_they_are_held() -> None:
    """DALI's documentation only guarantees them until the next call."""
    iterator = DALIGenericIterator(added(), ["x"], size=1000)
    held = [next(iterator)[0]["x"] for _ in range(10)]
    for _ in range(60):
        next(iterator)
    assert [(tensor.min().item(), tensor.max().item()) for tensor in held] == [(2.0 * n, 2.0 * n) for n in range(1, 11)]
    assert len({tensor.data_ptr() for tensor in held}) == 10


def test_memory_is_reused_when_tensors_are_dropped() -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.cast(fn.external_source(Counting()), dtype=types.INT32))
    iterator = DALIGenericIterator(pipe, ["x"], size=1000)
    pointers = {next(iterator)[0]["x"].data_ptr() for _ in range(50)}
    assert len(pointers) <= pipe._internals.runner.executor.batch_memory._buffers.allocated < 10
    pipe.close()


def test_tensors_outlive_iterator_and_pipeline() -> None:
    pipe = added()
    tensor = next(DALIGenericIterator(pipe, ["x"], size=100))[0]["x"]
    part = tensor[1, 5:]
    del tensor
    pipe.close()
    del pipe
    assert part.eq(2).all()


def test_tensor_may_be_written_without_effect_on_other_batches() -> None:
    source = big(1)
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.external_source(lambda: source), types.Constant(np.array([1.0, 2.0], np.float32)))
    iterator = DALIGenericIterator(pipe, ["x", "constant"], size=100)
    for _ in range(4):
        (batch,) = next(iterator)
        assert batch["x"].eq(1).all()
        assert batch["constant"].tolist() == [[1, 2], [1, 2]]
        batch["x"].zero_()
        batch["constant"].zero_()


# Ragged batches


def test_ragged_output_is_an_error_with_advice() -> None:
    iterator = DALIGenericIterator(ragged_pipe(), ["boxes"], size=5)
    with pytest.raises(errors.InputError, match=r"'boxes' is ragged.*\(1,\) and \(2,\).*DALIRaggedIterator") as caught:
        next(iterator)
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(errors.InputError, match=r"\(3,\) and \(4,\)"):
        next(iterator)


@pytest.mark.parametrize(("policy", "batches"), [(FILL, [2, 2, 2]), (DROP, [2, 2]), (PARTIAL, [2, 2, 1])])
@pytest.mark.parametrize("tag", [DALIRaggedIterator.SPARSE_LIST_TAG, DALIRaggedIterator.SPARSE_COO_TAG])
def test_ragged_policies(policy: LastBatchPolicy, batches: list[int], tag: str) -> None:
    iterator = DALIRaggedIterator(
        ragged_pipe(), ["x"], size=5, output_types=[tag], last_batch_policy=policy, last_batch_padded=True
    )
    for _ in range(2):
        assert [len(batch[0]["x"]) for batch in iterator] == batches


def test_ragged_lists_share_memory_and_stay() -> None:
    samples = [np.full((rows, 40_000), rows, np.float32) for rows in (1, 2)]
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.external_source(lambda: samples) + 1)
    pointers: list[Any] = []
    share = pipe.share_outputs

    def watched() -> Any:
        outputs = share()
        pointers.append([sample.data_ptr() for sample in outputs[0]])
        return outputs

    pipe.share_outputs = watched  # type: ignore[method-assign]
    tags = [DALIRaggedIterator.SPARSE_LIST_TAG]
    iterator = DALIRaggedIterator(pipe, ["x"], size=100, output_types=tags)
    held = [next(iterator)[0]["x"] for _ in range(5)]
    for _ in range(20):
        next(iterator)
    assert [[sample.data_ptr() for sample in batch] for batch in held] == pointers[:5]
    assert all(sample.eq(rows + 1).all() for batch in held for rows, sample in enumerate(batch, 1))


def test_coo_of_images_and_of_scalars() -> None:
    images = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((4, 1), np.float32)]
    tags = [DALIRaggedIterator.SPARSE_COO_TAG]
    coo = next(DALIRaggedIterator(make("pipeline", lambda: images), ["x"], size=2, output_types=tags))[0]["x"]
    assert coo.shape == (2, 4, 3)
    assert coo.to_dense()[0, :2].tolist() == images[0].tolist()
    assert coo.to_dense()[1, :, 0].tolist() == [1, 1, 1, 1]
    assert coo.to_dense().sum() == 15 + 4
    assert coo.coalesce()._nnz() == 10
    scalars = make("pipeline", lambda: np.array([3.0, 4.0]))
    assert next(DALIRaggedIterator(scalars, ["x"], size=2, output_types=tags))[0]["x"].to_dense().tolist() == [3, 4]


@pytest.mark.parametrize("tags", [["foo"], ["dense", "dense"], "dense", []])
def test_wrong_output_types(tags: Any) -> None:
    with pytest.raises(errors.ArgumentMismatchError, match="output_types"):
        DALIRaggedIterator(ragged_pipe(), ["x"], size=5, output_types=tags)


def test_dense_by_default() -> None:
    assert isinstance(next(DALIRaggedIterator(seven(), ["x"], size=7))[0]["x"], torch.Tensor)


# Checkpoints


def checkpointed(padded: bool = True, checkpoint: bytes | None = None) -> Any:
    def source(info: Any) -> Any:  # a callable source can resume anywhere, because it gets the number of the sample
        numbered = Numbered(7, 2, padded)
        numbered.asked = info.iteration
        return numbered()

    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, enable_checkpointing=True, checkpoint=checkpoint)
    with pipe:
        pipe.set_outputs(fn.external_source(source, batch=True, batch_info=True))
    return pipe


@pytest.mark.combinations
@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("taken", [0, 1, 3, 4, 5, 6, 9])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("policy", list(LastBatchPolicy))
def test_checkpoints(policy: LastBatchPolicy, padded: bool, taken: int, prepare: bool) -> None:
    options: dict[str, Any] = {"size": 7, "last_batch_policy": policy, "last_batch_padded": padded, "auto_reset": True}
    whole = DALIGenericIterator(checkpointed(padded), ["x"], prepare_first_batch=prepare, **options)
    for _ in range(taken):
        next(whole, None)
    (checkpoint,) = whole.checkpoints()
    again = DALIGenericIterator(checkpointed(padded, checkpoint), ["x"], prepare_first_batch=not prepare, **options)
    left, rest = epochs(whole, 3), epochs(again, 3)
    assert [epoch for epoch in rest if epoch][:2] == [epoch for epoch in left if epoch][:2]


def test_checkpoint_at_the_end_of_data() -> None:
    def pipe(checkpoint: bytes | None = None) -> Any:
        batches = [np.array([[1], [2]]), np.array([[3], [4]])]
        return make("pipeline", batches, cycle="raise", enable_checkpointing=True, checkpoint=checkpoint)

    iterator = DALIGenericIterator(pipe(), ["x"])
    for taken in range(3):
        (checkpoint,) = iterator.checkpoints()
        again = DALIGenericIterator(pipe(checkpoint), ["x"])
        assert epochs(again, 1) == [[[[1, 2]], [[3, 4]]][taken:] if taken < 2 else []]
        next(iterator, None)
    (checkpoint,) = iterator.checkpoints()
    assert epochs(DALIGenericIterator(pipe(checkpoint), ["x"]), 1) == [[[[1, 2]], [[3, 4]]]]


def test_checkpoints_must_be_enabled() -> None:
    with pytest.raises(errors.PipelineError, match="enable_checkpointing"):
        DALIGenericIterator(seven(), ["x"], size=7).checkpoints()


def test_checkpoints_must_belong_together() -> None:
    options: dict[str, Any] = {"size": 14, "last_batch_padded": True}
    iterator = DALIGenericIterator([checkpointed(), checkpointed()], ["x"], **options)
    first = iterator.checkpoints()
    next(iterator)
    second = iterator.checkpoints()
    again = DALIGenericIterator([checkpointed(checkpoint=each) for each in second], ["x"], **options)
    assert numbers(next(again)) == [[3, 4], [3, 4]]
    with pytest.raises(errors.PipelineError, match="weren't made together"):
        DALIGenericIterator([checkpointed(checkpoint=each) for each in (first[0], second[1])], ["x"], **options)


@pytest.mark.parametrize("tag", [None, DALIRaggedIterator.DENSE_TAG, DALIRaggedIterator.SPARSE_LIST_TAG])
def test_equal_outputs_have_separate_memory(tag: str | None) -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        x = fn.external_source([[np.ones(3, np.int32)] * 2])
        pipe.set_outputs(fn.cast(x, dtype=types.FLOAT), fn.cast(x, dtype=types.FLOAT))
    if tag is None:
        iterator = DALIGenericIterator(pipe, ["first", "second"], size=2)
    else:
        iterator = DALIRaggedIterator(pipe, ["first", "second"], size=2, output_types=[tag, tag])
    (batch,) = next(iterator)
    batch["first"][0][0] = 5
    assert batch["second"][0].tolist() == [1, 1, 1]
    pipe.close()
