"""Our iterators compared with NVIDIA DALI's: batches, epoch after epoch, and how far ahead pipelines run."""

from __future__ import annotations

import importlib
import itertools
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dali_proxy
from dali_proxy import LastBatchPolicy
from tests.dali_proxy.iterators.datasets import LIBRARIES, Numbered, epochs, make, numbers

pytestmark = pytest.mark.parity

POLICIES = [policy.name for policy in LastBatchPolicy]
EPOCHS = 5


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """DALI warns about `size` and about each reset() that it ignores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        yield
        logging.disable(logging.NOTSET)


def plugin(library: str) -> Any:
    return dali_proxy if library == "pipeline" else importlib.import_module("nvidia.dali.plugin.pytorch")


def compare(script: Callable[[str], Any]) -> Any:
    """Run a script with both libraries. It must return the same results or fail in both."""
    results = []
    for library in LIBRARIES:
        try:
            results.append(script(library))
        except RuntimeError:  # DROP leaves no batch
            results.append(RuntimeError)
    assert results[1] == results[0]
    return results[1]


@pytest.mark.combinations
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_sizes(policy: str, padded: bool) -> None:
    """The calls take turns with the values of auto_reset; `test_protocol` compares these in detail."""
    auto_resets = itertools.cycle((False, True, "yes", "no", True))  # 5 and 48 have no common factor
    for samples, batch_size, pipelines in itertools.product((1, 2, 3, 6, 7, 8), (1, 2, 3, 7), (1, 2)):

        def script(
            library: str,
            samples: int = samples,
            batch_size: int = batch_size,
            turns: int = pipelines,
            auto_reset: Any = next(auto_resets),  # noqa: B008  # one value for both libraries
        ) -> Any:
            sources = [Numbered(samples, batch_size, padded, first=100 * number) for number in range(turns)]
            iterator = plugin(library).DALIGenericIterator(
                [make(library, source, batch_size) for source in sources],
                ["x"],
                size=samples * turns,
                auto_reset=auto_reset,
                last_batch_padded=padded,
                last_batch_policy=plugin(library).LastBatchPolicy[policy],
            )
            resets = auto_reset in (False, "no")
            first = len(iterator)
            return first, iterator._size, epochs(iterator, EPOCHS, iterator.reset if resets else None)

        compare(script)


@pytest.mark.parametrize("unequal", [(7, 6), (6, 7), (2, 9)])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_pipelines_of_unequal_size_take_turns(policy: str, padded: bool, unequal: tuple[int, int]) -> None:
    def script(library: str) -> Any:
        sources = [Numbered(samples, 2, padded, 100 * number) for number, samples in enumerate(unequal)]
        iterator = plugin(library).DALIGenericIterator(
            [make(library, source) for source in sources],
            ["x"],
            size=sum(unequal),
            last_batch_padded=padded,
            last_batch_policy=plugin(library).LastBatchPolicy[policy],
        )
        return epochs(iterator, EPOCHS, iterator.reset)

    compare(script)


@pytest.mark.parametrize("policy", POLICIES)
def test_number_of_batches(policy: str) -> None:
    for samples, batch_size in itertools.product((1, 2, 3, 7, 8, 9), (1, 2, 3, 8)):

        def script(library: str, samples: int = samples, batch_size: int = batch_size) -> Any:
            iterator = plugin(library).DALIGenericIterator(
                make(library, Numbered(samples, batch_size, True), batch_size),
                ["x"],
                size=samples,
                last_batch_padded=True,
                last_batch_policy=plugin(library).LastBatchPolicy[policy],
            )
            return [len(iterator), *[(len(iterator), numbers(batch)) for batch in iterator], len(iterator)]

        compare(script)


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("policy", POLICIES)
def test_sources_are_called_ahead(policy: str, depth: int, prepare: bool) -> None:
    def script(library: str) -> Any:
        source = Numbered(7, 2, True)
        iterator = plugin(library).DALIGenericIterator(
            make(library, source, prefetch_queue_depth=depth),
            ["x"],
            size=7,
            last_batch_padded=True,
            last_batch_policy=plugin(library).LastBatchPolicy[policy],
            prepare_first_batch=prepare,
        )
        asked = [source.asked]
        for _ in range(3):
            for _batch in iterator:
                asked.append(source.asked)
            iterator.reset()
            asked.append(source.asked)
        return asked

    compare(script)


@pytest.mark.combinations
@pytest.mark.parametrize("auto_reset", [False, True, None, "yes", "no"])
@pytest.mark.parametrize(
    "script",
    ["nnnnnn", "nrnnnn", "nnnrrnnn", "nninnninn", "innnnirnn", "nnrnn", "rnnn", "nnnnirnnn"],
)
def test_protocol(script: str, auto_reset: Any) -> None:
    """n: next(), r: reset(), i: iter()."""

    def play(library: str) -> Any:
        iterator = plugin(library).DALIGenericIterator(
            make(library, Numbered(3, 2, True)),
            ["x"],
            size=3,
            auto_reset=auto_reset,
            last_batch_padded=True,
            last_batch_policy=plugin(library).LastBatchPolicy.PARTIAL,
        )
        log: list[Any] = []
        for step in script:
            if step == "r":
                iterator.reset()
            elif step == "i":
                assert iter(iterator) is iterator
            else:
                batch = next(iterator, None)
                log.append(batch and numbers(batch))
        return log

    compare(play)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("auto_reset", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_epochs_without_a_size_end_with_the_source(policy: str, auto_reset: bool, prepare: bool) -> None:
    batches = [np.array([[1], [2]], np.int32), np.array([[3], [4]], np.int32), np.array([[5]], np.int32)]

    def script(library: str) -> Any:
        iterator = plugin(library).DALIGenericIterator(
            make(library, batches, cycle="raise"),
            ["x"],
            auto_reset=auto_reset,
            last_batch_policy=plugin(library).LastBatchPolicy[policy],
            prepare_first_batch=prepare,
        )
        return len(iterator), iterator._size, epochs(iterator, 3, None if auto_reset else iterator.reset)

    compare(script)


@pytest.mark.parametrize("size", [3, 4, 5, 6])
@pytest.mark.parametrize("policy", POLICIES)
def test_source_of_epochs_and_a_size(policy: str, size: int) -> None:
    batches = [np.array([[1], [2]], np.int32), np.array([[3], [4]], np.int32), np.array([[5], [6]], np.int32)]

    def script(library: str) -> Any:
        iterator = plugin(library).DALIGenericIterator(
            make(library, batches, cycle="raise"),
            ["x"],
            size=size,
            last_batch_padded=True,
            last_batch_policy=plugin(library).LastBatchPolicy[policy],
        )
        return epochs(iterator, 4, iterator.reset)

    compare(script)


@pytest.mark.parametrize("fill", [True, False])
def test_fill_last_batch(fill: bool) -> None:
    def script(library: str) -> Any:
        iterator = plugin(library).DALIGenericIterator(
            make(library, Numbered(3, 2, True)),
            ["x"],
            size=3,
            fill_last_batch=fill,
            last_batch_policy=plugin(library).LastBatchPolicy.DROP,
        )
        return epochs(iterator, 2, iterator.reset)

    compare(script)


WRONG: dict[str, dict[str, Any]] = {
    "auto_reset": {"auto_reset": "maybe"},
    "policy": {"last_batch_policy": "DROP"},
    "reader": {"reader_name": "nobody", "size": -1},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_wrong_arguments(wrong: dict[str, Any]) -> None:
    types = []
    for library in LIBRARIES:
        pipe = make(library, Numbered(3, 2, True))
        with pytest.raises((ValueError, RuntimeError)) as caught:
            plugin(library).DALIGenericIterator(pipe, ["x"], **{"size": 3, **wrong})
        types.append(caught.type)
    assert issubclass(types[1], types[0])


def samples(count: int) -> list[np.ndarray[Any, Any]]:
    return [np.arange(length + 2, dtype=np.float32) for length in range(count)]


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("tag", ["DENSE_TAG", "SPARSE_LIST_TAG", "SPARSE_COO_TAG"])
def test_ragged(tag: str, dense: bool) -> None:
    def source() -> Any:
        return np.arange(6, dtype=np.float32).reshape(2, 3) if dense else samples(2)

    def script(library: str) -> Any:
        kind = plugin(library).DALIRaggedIterator
        iterator = kind(make(library, source), ["x"], size=2, output_types=[getattr(kind, tag)])
        made = next(iterator)[0]["x"]
        if isinstance(made, list):
            return [sample.tolist() for sample in made]
        if not made.is_sparse:
            return made.tolist()
        return made._indices().tolist(), made._values().tolist(), tuple(made.shape), made.to_dense().tolist()

    compare(script)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_dtypes(dtype: str) -> None:
    def script(library: str) -> Any:
        iterator = plugin(library).DALIGenericIterator(make(library, lambda: np.ones((2, 1), dtype)), ["x"], size=2)
        return next(iterator)[0]["x"].dtype

    compare(script)


# Each argument, with each of the iterators


def three(library: str, samples: int = 7, padded: bool = True) -> Any:
    """Return a factory for each kind of iterator, over pipelines of the samples 1, 2, 3 ..."""
    dali, fn = importlib.import_module(library), importlib.import_module(f"{library}.fn")

    def pipe(outputs: int) -> Any:
        made = dali.Pipeline(batch_size=2, num_threads=1, device_id=None)
        with made:
            made.set_outputs(*(fn.external_source(Numbered(samples, 2, padded)) for _ in range(outputs)))
        return made

    kinds = plugin(library)
    return {
        "classification": lambda *options, **named: kinds.DALIClassificationIterator(pipe(2), *options, **named),
        "generic": lambda *options, **named: kinds.DALIGenericIterator(pipe(1), ["x"], *options, **named),
        "ragged": lambda *options, **named: kinds.DALIRaggedIterator(pipe(1), ["x"], *options, **named),
    }


def values(batch: Any) -> list[list[int]]:
    return [output.flatten().tolist() for output in batch[0].values()]


@pytest.mark.parametrize("kind", ["classification", "generic", "ragged"])
def test_arguments_in_their_order(kind: str) -> None:
    def script(library: str) -> Any:
        policy = plugin(library).LastBatchPolicy.DROP
        types = (None,) if kind == "ragged" else ()
        iterator = three(library)[kind](7, None, *types, True, None, False, True, policy, False)
        return [[values(batch) for batch in iterator] for _ in range(2)]

    first, second = compare(script)
    assert first == second
    assert first[-1][-1] == [5, 6]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["classification", "ragged"])
def test_documented_cases(kind: str, policy: str, padded: bool) -> None:
    """`test_sizes` covers the generic iterator. DALI's ragged iterator fails in a partial batch, so this omits it."""

    def script(library: str) -> Any:
        policies = plugin(library).LastBatchPolicy
        asked = "generic" if (library, kind) == ("nvidia.dali", "ragged") else kind
        iterator = three(library, padded=padded)[asked](
            size=7, last_batch_padded=padded, last_batch_policy=policies[policy], auto_reset="yes"
        )
        return [[values(batch) for batch in iterator] for _ in range(3)]

    assert len(compare(script)[0]) == (3 if policy == "DROP" else 4)


@pytest.mark.parametrize("kind", ["classification", "generic", "ragged"])
@pytest.mark.parametrize("size", [np.int64(7), 7.0])
def test_sizes_that_scripts_compute(size: Any, kind: str) -> None:
    def script(library: str) -> Any:
        iterator = three(library)[kind](size=size, last_batch_padded=True)
        return len(iterator), iterator.size, iterator.batch_size, len(list(iterator))

    assert compare(script) == (4, 7, 2, 4)


@pytest.mark.parametrize("dynamic", [False, True, None])
@pytest.mark.parametrize("kind", ["DALIGenericIterator", "DALIRaggedIterator"])
def test_shapes_may_change_for_any_dynamic_shape(kind: str, dynamic: Any) -> None:
    """According to the documentation, it fails without it; in DALI 2.4 it doesn't."""

    def script(library: str) -> Any:
        batches = [np.zeros((2, length), np.int32) for length in (3, 5)]
        pipe = make(library, batches, cycle="raise")
        return [
            tuple(batch[0]["x"].shape) for batch in getattr(plugin(library), kind)(pipe, ["x"], dynamic_shape=dynamic)
        ]

    assert compare(script) == [(2, 3), (2, 5)]


def test_classification() -> None:
    def script(library: str) -> Any:
        dali, fn = importlib.import_module(library), importlib.import_module(f"{library}.fn")
        pipe = dali.Pipeline(batch_size=2, num_threads=1, device_id=None)
        with pipe:
            images = fn.external_source(lambda: np.ones((2, 4, 5, 3), np.uint8))
            pipe.set_outputs(images, fn.external_source(Numbered(7, 2, True)))
        (batch,) = next(plugin(library).DALIClassificationIterator(pipe, size=7))
        return [(name, tuple(made.shape), made.dtype) for name, made in batch.items()]

    compare(script)
