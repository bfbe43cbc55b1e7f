"""Operators and arguments that the parity tests leave out, and the reasons."""

from __future__ import annotations

import json
from pathlib import Path

from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._operators.decoding.cache_arguments import CACHE_ARGUMENTS
from dali_proxy.pipeline._readers.arguments import EPOCH_SHUFFLE_ARGUMENTS, READER_ARGUMENTS

_RANDOM = "random: distributions are tested in tests/pipeline/{}"
_REFERENCE = "not on DALI's CPU: compared with a reference in tests/pipeline/{}"
_OWN = "compared with DALI in tests/pipeline/{}"

#: Operators without a case. Each reason ends with the file that tests the operator.
EXCEPTIONS = {
    "batch_permutation": _RANDOM.format("operators/arrays/test_arrays.py"),
    "decoders.image_random_crop": _RANDOM.format("operators/geometry/test_random_crops.py"),
    "decoders.inflate": "DALI needs a GPU; compared with liblz4 in tests/pipeline/operators/decoding/test_inflate.py",
    "decoders.video": _OWN.format("operators/decoding/test_video_decoder.py"),
    "dump_image": _REFERENCE.format("operators/decoding/test_dump_image.py"),
    "dl_tensor_python_function": _OWN.format("operators/user_code/test_python_function.py"),
    "equalize": _OWN.format("operators/color/test_byte_map.py"),
    "experimental.inputs.video": _OWN.format("operators/decoding/test_video_input.py"),
    "experimental.readers.fits": "DALI needs a GPU; compared with Astropy in tests/pipeline/readers/test_fits.py",
    "experimental.readers.video": _OWN.format("readers/test_video_experimental.py"),
    "experimental.dilate": _REFERENCE.format("operators/effects/test_morphology.py"),
    "experimental.erode": _REFERENCE.format("operators/effects/test_morphology.py"),
    "experimental.resize": "not on DALI's CPU: the same as resize, in tests/pipeline/operators/geometry/test_resize.py",
    "experimental.median_blur": _REFERENCE.format("operators/effects/test_median_blur.py"),
    "experimental.remap": _REFERENCE.format("operators/geometry/test_remap.py"),
    "optical_flow": "another method than DALI's: compared with known motion in "
    "tests/pipeline/operators/geometry/test_optical_flow.py",
    "external_source": _OWN.format("external_source/test_parity.py"),
    "filter": _OWN.format("operators/effects/test_filter.py"),
    "inputs.video": _OWN.format("operators/decoding/test_video_input.py"),
    "noise.gaussian": _RANDOM.format("operators/effects/test_noise.py"),
    "noise.salt_and_pepper": _RANDOM.format("operators/effects/test_noise.py"),
    "noise.shot": _RANDOM.format("operators/effects/test_noise.py"),
    "per_frame": _OWN.format("operators/user_code/test_python_function.py"),
    "python_function": _OWN.format("operators/user_code/test_python_function.py"),
    "random.beta": _RANDOM.format("operators/random/test_random.py"),
    "random.choice": _RANDOM.format("operators/random/test_random.py"),
    "random.coin_flip": _RANDOM.format("operators/random/test_random.py"),
    "random.normal": _RANDOM.format("operators/random/test_random.py"),
    "random.uniform": _RANDOM.format("operators/random/test_random.py"),
    "random_bbox_crop": _RANDOM.format("operators/boxes/test_random_bbox_crop.py"),
    "random_crop_generator": _RANDOM.format("operators/geometry/test_random_crops.py"),
    "random_resized_crop": _RANDOM.format("operators/geometry/test_random_crops.py"),
    "readers.caffe": _OWN.format("readers/test_caffe.py"),
    "readers.caffe2": _OWN.format("readers/test_caffe.py"),
    "readers.coco": _OWN.format("readers/test_coco.py"),
    "readers.file": _OWN.format("readers/test_parity.py"),
    "readers.mxnet": _OWN.format("readers/test_mxnet.py"),
    "readers.nemo_asr": _OWN.format("readers/test_nemo_asr.py"),
    "readers.sequence": _OWN.format("readers/test_parity.py"),
    "readers.tfrecord": _OWN.format("readers/test_tfrecord.py"),
    "readers.video": _OWN.format("readers/test_video.py"),
    "readers.video_resize": _OWN.format("readers/test_video.py"),
    "jitter": _RANDOM.format("operators/geometry/test_displacements.py"),
    "roi_random_crop": _RANDOM.format("operators/geometry/test_roi_random_crop.py"),
    "segmentation.random_mask_pixel": _RANDOM.format("operators/boxes/test_segmentation.py"),
    "segmentation.random_object_bbox": _RANDOM.format("operators/boxes/test_segmentation.py"),
    "smart_resize": "DALI doesn't have it: tested in tests/pipeline/operators/geometry/test_patchify.py",
    "ssd_random_crop": _RANDOM.format("operators/boxes/test_ssd_random_crop.py"),
    "readers.webdataset": _OWN.format("readers/test_webdataset.py"),
}

_ROOT = Path(__file__).parents[2]


def _of_ours() -> dict[str, str]:
    """Return reasons for operators that DALI doesn't have. A file of tests is named after the operator."""
    theirs = json.loads((_ROOT / "docs" / "dali_operators.json").read_text(encoding="utf-8"))["operators"]
    tests = {each.stem: each.relative_to(_ROOT) for each in (_ROOT / "tests/pipeline/operators").glob("*/test_*.py")}
    return {
        schema.name: f"DALI doesn't have it: compared with a reference in {tests[stem]}"
        for schema in all_schemas()
        if schema.name not in theirs
        and not schema.hidden
        and schema.alias_of is None
        and (stem := "test_" + schema.name.replace(".", "_")) in tests
    }


EXCEPTIONS |= _of_ours()

#: Arguments that no case draws, by operator.
_OURS = {"palette_indices", *(argument.name for argument in CACHE_ARGUMENTS)}  # for a GPU, or DALI doesn't have it
UNDRAWN: dict[str, set[str]] = {
    **{f"decoders.image{kind}": _OURS for kind in ("", "_random_crop", "_slice")},
    "decoders.image_crop": {"crop_d", "crop_pos_z"} | _OURS,  # images have no depth
    **{operator: {"antialias"} for operator in ("audio_resample", "decoders.audio")},  # DALI doesn't have it
    # The tests in tests/pipeline/readers compare the arguments that all readers share.
    "readers.numpy": {argument.name for argument in (*READER_ARGUMENTS, *EPOCH_SHUFFLE_ARGUMENTS)},
}
