"""Tests of external sources and checkpoints of dynamic mode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline import dynamic


def items(source: dynamic.ExternalSource, count: int) -> list[int | None]:
    found: list[int | None] = []
    for _ in range(count):
        try:
            found.append(source().item())
        except StopIteration:
            found.append(None)
    return found


@pytest.mark.parametrize(
    ("cycle", "expected"),
    [(None, [1, 2, None, None]), ("no", [1, 2, None, None]), (True, [1, 2, 1, 2]), ("raise", [1, 2, None, 1])],
)
def test_sources_cycle(cycle: str | bool | None, expected: list[int | None]) -> None:
    assert items(dynamic.ExternalSource([1, 2], cycle=cycle), 4) == expected
    assert items(dynamic.ExternalSource(lambda: (number for number in (1, 2)), cycle=cycle), 4) == expected


def test_source_has_several_outputs_and_repeats_tensors() -> None:
    source = dynamic.ExternalSource(lambda: (np.zeros(2), [3]), 2, layout=["X", None], dtype=dynamic.int32)
    first, second = source(batch_size=3)
    assert (first.batch_size, first.layout, first.dtype) == (3, "X", dynamic.int32)
    assert second.torch().tolist() == [[3]] * 3
    batches = dynamic.ExternalSource(lambda: dynamic.batch([1, 2]))
    assert batches().batch_size == 2
    with pytest.raises(ValueError, match="returned 2 samples instead of 3"):
        batches(batch_size=3)
    with pytest.raises(TypeError, match="must be callable, iterable"):
        dynamic.ExternalSource(3)
    with pytest.raises(ValueError, match="cycle must be"):
        dynamic.ExternalSource([], cycle="always")


def test_checkpoint_restores_registered_objects(tmp_path: Path) -> None:
    rng, pattern = dynamic.random.RNG(3), str(tmp_path / "state_{seq:03d}.json")
    checkpoint = dynamic.checkpoint.Checkpoint()
    assert checkpoint.register(rng) == checkpoint.register(rng) == "__op_0"
    checkpoint.collect()
    assert [checkpoint.save(pattern)[-8:] for _ in range(2)] == ["000.json", "001.json"]
    expected = rng()
    loaded = dynamic.checkpoint.Checkpoint()
    assert loaded.load(pattern).endswith("001.json")
    assert (loaded.is_loaded, loaded.is_complete, loaded.names) == (True, False, ())
    other = dynamic.random.RNG()
    loaded.register(other)
    assert other() == expected
    with pytest.raises(KeyError, match="order"):
        loaded.register(dynamic.random.RNG())
    loaded.clear()
    assert len(loaded) == 0


def test_checkpoint_refuses_what_does_not_fit(tmp_path: Path) -> None:
    rng, checkpoint = dynamic.random.RNG(3), dynamic.checkpoint.current()
    checkpoint.clear()
    with pytest.raises(RuntimeError, match="empty checkpoint"):
        checkpoint.serialize()
    with pytest.raises(ValueError, match="must not start with"):
        checkpoint.register(rng, "__op_1")
    checkpoint.register(rng, "rng")
    with pytest.raises(RuntimeError, match="already been added"):
        checkpoint.register(rng, "other")
    checkpoint.set_state("lost", rng.state)
    with pytest.raises(RuntimeError, match="no corresponding"):
        checkpoint.restore()
    checkpoint.set_state("reader", "state", "File")
    with pytest.raises(TypeError, match="belongs to File"):
        checkpoint.register(dynamic.random.RNG(), "reader")
    with pytest.raises(FileNotFoundError):
        checkpoint.load(str(tmp_path / "{seq}.json"))
    checkpoint.clear()
