"""Arguments of calls: their names, their warnings, and the types of values that they accept."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn, ops, types

IMAGE = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)


def argument(node: Any, name: str) -> Any:
    return node.source.arguments[name]


def images() -> Any:
    return fn.external_source(name="images", layout="HWC")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: fn.crop(x, output_dtype=types.FLOAT),
            "`output_dtype` is a deprecated alias for `dtype`. Use `dtype`",
        ),
        (lambda x: fn.shapes(x, type=types.INT32), "`type` is a deprecated alias for `dtype`"),
        (lambda x: fn.resize(x, size=2, image_type=types.RGB), "`image_type` is no longer used"),
        (lambda x: fn.crop(x, crop=(1, 1), seed=-1), "seed\" should not be used with operators that don't use random"),
        (lambda x: fn.decoders.image(x, split_stages=True), "`split_stages` is now deprecated and its usage is"),
        (lambda x: ops.Crop(output_dtype=types.FLOAT)(x), "`output_dtype` is a deprecated alias"),
        (fn.shapes, "`nvidia.dali.fn.shapes` is now deprecated.\nUse :meth:`nvidia.dali.pipeline.DataNode.shape` inst"),
        (lambda x: fn.fast_resize_crop_mirror(x, crop=(1, 1), size=2), "Use `nvidia.dali.fn.resize_crop_mirror` inst"),
        (lambda x: fn.experimental.filter(x, x), "`nvidia.dali.fn.experimental.filter` is now deprecated. Use `nv"),
        (lambda x: ops.CoinFlip()(), "`nvidia.dali.ops.CoinFlip` is now deprecated. Use `nvidia.dali.fn.random.coin_f"),
    ],
)
def test_deprecated_name_causes_a_warning_at_the_users_line(call: Callable[[Any], Any], message: str) -> None:
    with pytest.warns(DeprecationWarning, match=re.escape(message)) as caught:
        call(images())
    assert {warning.filename for warning in caught} == {__file__}


def test_deprecated_argument_has_the_effect_of_its_successor() -> None:
    with pytest.warns(DeprecationWarning, match="deprecated alias"):
        node = fn.crop(images(), output_dtype=types.FLOAT)
    assert argument(node, "dtype") == types.FLOAT
    with (
        pytest.warns(DeprecationWarning, match="deprecated alias"),
        pytest.raises(TypeError, match="unexpected 'output_dtype' deprecated argume"),
    ):
        fn.crop(images(), output_dtype=types.FLOAT, dtype=types.FLOAT)


def test_class_checks_its_arguments_when_it_is_created() -> None:
    with pytest.raises(KeyError, match='Argument "size" is not defined for operator "Crop"'):
        ops.Crop(size=3)
    crop = ops.Crop(crop=(2, 2), device="cpu")
    with pytest.raises(ValueError, match="The argument `crop` was already specified in __init__"):
        crop(images(), crop=(3, 3))


def test_class_of_a_python_function_takes_it_by_position() -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=None):
        assert len(ops.PythonFunction(lambda x: (x, x), 2)(images())) == 2
        assert not argument(ops.PythonFunction(abs, batch_processing=False)(images()), "batch_processing")
        assert argument(ops.DLTensorPythonFunction(abs)(images()), "batch_processing")
    with pytest.raises(TypeError, match="multiple values for argument 'function'"):
        ops.PythonFunction(abs, function=abs)
    with pytest.raises(TypeError, match="takes 0 values by position"):
        ops.Crop(3)


def test_several_outputs_are_a_list() -> None:
    assert isinstance(fn.readers.file(files=["a"]), list)
    assert isinstance(ops.readers.File(files=["a"])(), list)
    assert isinstance(fn.random_bbox_crop(images()), list)


@pytest.mark.parametrize("value", [Path("some/file"), "some/file"])
def test_path_may_be_an_object(value: Any) -> None:
    reader = fn.readers.file(file_list=value, file_root=value, file_filters=value)[0]
    assert argument(reader, "file_list") == argument(reader, "file_root") == "some/file"
    assert argument(reader, "file_filters") == ("some/file",)
    assert argument(fn.readers.file(files=[value])[0], "files") == ("some/file",)


@pytest.mark.parametrize("number", [3, np.int64(3), np.float32(3), np.array(3), np.array([3]), np.uint8([[3]])])
def test_number_may_be_an_array_of_one_element(number: Any) -> None:
    reader = fn.readers.file(files=["a"], num_shards=number, file_root="/")[0]
    assert argument(reader, "num_shards") == 3
    assert argument(fn.decoders.image(images(), hw_decoder_load=number), "hw_decoder_load") == 3.0
    assert argument(fn.transpose(images(), perm=number), "perm") == (3,)


def test_number_may_be_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    assert argument(fn.resize(images(), size=torch.tensor([3, 4])), "size") == (3.0, 4.0)
    assert argument(fn.pad(images(), axes=torch.tensor(1)), "axes") == (1,)


def test_choice_may_be_in_any_case() -> None:
    assert argument(fn.crop(images(), out_of_bounds_policy="EDGE"), "out_of_bounds_policy") == "edge"
    with pytest.raises(errors.ArgumentValueError, match="Not supported out_of_bounds_policy: beyond"):
        fn.crop(images(), out_of_bounds_policy="beyond")
    with pytest.raises(RuntimeError, match="Unsupported property key: 7"):
        fn.get_property(images(), key=7)


@pytest.mark.parametrize("policy", ["edge", "clamp", "reflect", "reflect_1001", "reflect_101", "wrap"])
def test_crop_beyond_the_image_repeats_it_like_a_slice(policy: str) -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        x = fn.external_source(source=[[IMAGE]], layout="HWC")
        window = fn.slice(x, start=[-2, -3], shape=[8, 11], axes=[0, 1], out_of_bounds_policy=policy)
        pipe.set_outputs(fn.crop(x, crop=(8, 11), out_of_bounds_policy=policy), window)
    crop, window = (np.array(output[0]) for output in pipe.run())
    np.testing.assert_array_equal(crop, window)
    pipe.close()
