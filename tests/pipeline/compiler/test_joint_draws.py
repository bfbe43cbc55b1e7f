"""Random numbers of several operators that are drawn by one call: they are those of each operator alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.rules import joint_draws
from dali_proxy.pipeline._compiler.rules.joint_draws import JointDraws
from pipeline import Pipeline, fn, types
from pipeline.errors import OperatorError

SIZE = 37


def draw(batches: int = 3) -> list[Any]:
    pipe = Pipeline(batch_size=SIZE, num_threads=1, device_id=None, seed=5)
    with pipe:
        pipe.set_outputs(
            fn.random.uniform(range=(-3.0, 7.0)),
            fn.random.uniform(range=(1 - 1e-7, 1.0)),
            fn.random.uniform(range=(0.0, 1.0), shape=[3, 5]),
            fn.random.uniform(shape=0),
            fn.random.uniform(values=[1.0, 5.0, 2.0], dtype=types.INT32, seed=9),
            fn.random.uniform(values=[0.1, 0.2]),
            fn.random.uniform(range=(0.0, 100.0), dtype=types.INT32),
            fn.random.normal(mean=-3.0, stddev=0.1),
            fn.random.normal(shape=[7, 31]),
            fn.random.normal(dtype=types.INT32),
            fn.random.coin_flip(),
            fn.random.coin_flip(probability=0.3, dtype=types.FLOAT, shape=2),
            fn.random.coin_flip(probability=1.0),
            fn.random.coin_flip(dtype=types.UINT8),
            fn.random.coin_flip(probability=fn.random.uniform(range=(0.0, 1.0))),
        )
    pipe.build()
    return [output.as_array() for _ in range(batches) for output in pipe.run()]


@pytest.mark.skipif(joint_draws.compiled is None, reason="needs the C module")
def test_joint_draws_have_the_bits_of_separate_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    run = JointDraws.run_as_one

    def noted(draws: JointDraws, batch: Any) -> bool:
        done.append(len(draws.nodes))
        return run(draws, batch)

    monkeypatch.setattr(JointDraws, "run_as_one", noted)
    together = draw()
    assert max(done) == 12
    monkeypatch.setattr(joint_draws, "compiled", None)
    for one, other in zip(together, draw(), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.skipif(joint_draws.compiled is None, reason="needs the C module")
def test_draws_that_do_not_fit_the_output_are_refused() -> None:
    assert joint_draws.compiled is not None
    draws = np.zeros(1, joint_draws._DRAW)
    draws["count"] = 1
    with pytest.raises(ValueError, match="fit"):
        joint_draws.compiled.draw_numbers(
            draws, np.zeros(0, np.uint32), np.zeros(4, np.uint64), 4, np.zeros(3, np.uint32)
        )


def test_numbers_that_exceed_the_memory_are_an_error_of_their_operator() -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, seed=5)
    with pipe:
        pipe.set_outputs(fn.random.coin_flip(), fn.random.uniform(range=(0.0, 1.0), shape=[10**16]))
    pipe.build()
    with pytest.raises(OperatorError, match=r"fn\.random\.uniform"):
        pipe.run()
