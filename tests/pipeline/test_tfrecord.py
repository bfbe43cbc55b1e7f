from __future__ import annotations

from typing import Any

import pytest

from pipeline import tfrecord


def test_features_are_described() -> None:
    label = tfrecord.FixedLenFeature([1], tfrecord.int64, -1)
    assert (label.shape, label.dtype, label.default_value, label.variable) == ((1,), tfrecord.int64, -1, False)
    boxes = tfrecord.VarLenFeature([4], tfrecord.float32, 0.0)
    assert (boxes.shape, boxes.variable) == ((4,), True)
    assert tfrecord.VarLenFeature(tfrecord.string, "").shape is None
    assert (tfrecord.int64, tfrecord.string, tfrecord.float32) == (0, 1, 2)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (([1], tfrecord.int64, "a"), RuntimeError),
        (([1], tfrecord.int64, 1.5), RuntimeError),
        (([1], tfrecord.float32, None), RuntimeError),
        (([1], 7, 0), RuntimeError),
        ((1, tfrecord.int64, 0), TypeError),
    ],
)
def test_impossible_features_are_refused(arguments: Any, kind: type[Exception]) -> None:
    for create in (tfrecord.FixedLenFeature, tfrecord.VarLenFeature):
        with pytest.raises(kind):
            create(*arguments)
    with pytest.raises(TypeError, match="takes"):
        tfrecord.VarLenFeature(tfrecord.int64)
