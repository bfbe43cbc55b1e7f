"""The metadata of readers. The test defines a reader, because it tests the hook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._declaration import registry
from dali_proxy.pipeline._declaration.registry import implements, register
from dali_proxy.pipeline._declaration.schema import Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph import apply_operator
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.reader import ReaderMeta, ReaderOperator, ReaderPosition
from pipeline import Pipeline, fn
from pipeline.tensors import TensorListCPU


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that creates a pipeline with a reader of a given count of numbers."""
    monkeypatch.setattr(registry, "_SCHEMAS", dict(registry._SCHEMAS))
    monkeypatch.setattr(registry, "_IMPLEMENTATIONS", dict(registry._IMPLEMENTATIONS))
    counts = [Argument(name, Kind.INT, name, 1) for name in ("size", "num_shards")]
    choices = [Argument(name, Kind.BOOL, name, False) for name in ("pad_last_batch", "stick_to_shard")]
    shard = Argument("shard_id", Kind.INT, "The shard.", 0)
    schema = register(OperatorSchema("readers.numbers", "Counts.", arguments=(*counts, shard, *choices)))

    @implements(schema, "cpu")
    class Numbers(ReaderOperator):
        @property
        def meta(self) -> ReaderMeta:
            value = self.node.argument
            return ReaderMeta(
                value("size"), value("num_shards"), value("shard_id"), value("pad_last_batch"), value("stick_to_shard")
            )

        def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
            return [TensorListCPU(np.arange(batch.size))]

        def begin(self, batch_size: int) -> Any:
            return None

        def skip(self, batch_size: int) -> None:
            pass

        def restore(self, position: ReaderPosition) -> None:
            pass

        position = ReaderPosition()

    def make(**arguments: Any) -> Pipeline:
        with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
            pipe.set_outputs(apply_operator("readers.numbers", (), {"name": "numbers", **arguments}))
        return pipe

    return make


def test_reader_reports_the_six_entries(reading: Any) -> None:
    pipe = reading(size=10, num_shards=3, shard_id=1, pad_last_batch=True, stick_to_shard=True)
    expected = {
        "epoch_size": 10,
        "epoch_size_padded": 12,
        "number_of_shards": 3,
        "shard_id": 1,
        "pad_last_batch": 1,
        "stick_to_shard": 1,
    }
    assert pipe.reader_meta("numbers") == expected
    assert pipe.reader_meta() == {"numbers": expected}
    assert pipe.epoch_size("numbers") == 12
    assert pipe.epoch_size() == {"numbers": 12}
    pipe.close()


def test_unknown_readers_are_named_beside_the_existing_ones(reading: Any) -> None:
    pipe = reading()
    for ask in (pipe.reader_meta, pipe.epoch_size):
        with pytest.raises(RuntimeError, match="no reader 'foo'; its readers are: 'numbers'"):
            ask("foo")
        with pytest.raises(TypeError, match="not int"):
            ask(3)
    pipe.close()


def test_operators_that_are_not_readers_are_refused() -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(name="x"))
    assert pipe.reader_meta() == pipe.epoch_size() == {}
    with pytest.raises(RuntimeError, match="no reader 'x'; its readers are: none"):
        pipe.reader_meta("x")
    pipe.close()


@pytest.mark.parity
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("shards", [1, 3, 5, 10])
def test_padding_equals_dali(shards: int, pad: bool, tmp_path: Any) -> None:
    from nvidia.dali import Pipeline as DaliPipeline
    from nvidia.dali import fn as dali_fn

    for number in range(10):
        np.save(tmp_path / f"{number}.npy", np.zeros(1))
    pipe = DaliPipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(
            dali_fn.readers.numpy(file_root=str(tmp_path), name="r", num_shards=shards, pad_last_batch=pad)
        )
    pipe.build()
    assert ReaderMeta(10, shards, 0, pad).as_dict() == pipe.reader_meta("r")
