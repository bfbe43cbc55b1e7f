"""Many inputs, many outputs and many dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from torch.utils.data import default_collate

from dali_proxy import DALIServer
from pipeline import Pipeline, fn
from pipeline.errors import ArgumentValueError
from tests.dali_proxy.indexed import affine

COUNT = 150
SHAPE = (1,) * 30 + (2, 3)


def test_hundreds_of_inputs_and_outputs_and_32_dimensions() -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        numbers = [fn.external_source(name=f"x{index}") for index in range(COUNT)]
        large = fn.external_source(name="large")
        pipe.set_outputs(*(number + 1 for number in numbers), large, large * 2)
    given = {f"x{index}": np.int64(index) for index in range(COUNT)}
    with DALIServer(pipe) as server:
        for _ in range(2):
            samples = [server.proxy(**given, large=np.full(SHAPE, number, np.float32)) for number in range(2)]
            *numbers, same, double = server.produce_data(default_collate(samples))
            assert [number.tolist() for number in numbers] == [[index + 1] * 2 for index in range(COUNT)]
            assert same.shape == double.shape == (2, *SHAPE)
            assert double.sum() == 2 * same.sum() == 12


def test_batch_that_no_message_could_describe_is_an_error_at_once() -> None:
    with pytest.raises(ArgumentValueError, match="batch_size of 1000000: a server takes 524288 at most"):
        DALIServer(affine(batch_size=1_000_000))
