"""Calls of operators on images, frames, volumes and signals of several dtypes, for `benchmarks.operators.libraries`."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.operators.cases import CASES, MEAN, PERSPECTIVE, STD, Case, PerSample, Type

IMAGES = ("images", "images.float32", "images.int16")
PLANES = ("images.CHW", "images.CHW.float32")
CLIPS = ("clips", "clips.float32")
VOLUMES = ("volumes", "volumes.float32", "volumes.int16")
FLOAT = Type("FLOAT")
NEAREST, CUBIC = Type("INTERP_NN"), Type("INTERP_CUBIC")
FACTOR, ANGLE = PerSample("factors"), PerSample("angles")
AXIS = [0.3, 0.5, 0.8]
_COS, _SIN = float(np.cos(0.3)), float(np.sin(0.3))
#: From the result to the source, as x, y and z: about x, so that slices mix.
TURN = [1.0, 0.0, 0.0, 0.0, 0.0, _COS, -_SIN, 9.0, 0.0, _SIN, _COS, -8.0]


def _each(operator: str, names: tuple[str, ...], *others: str, variant: str = "", **arguments: Any) -> list[Case]:
    """Return a case for each kind of data; the variant names it."""
    return [Case(operator, (name, *others), arguments, f"{variant} {name}".strip()) for name in names]


_RESIZES = {
    "linear": {"antialias": False},
    "antialiased": {},
    "nearest": {"interp_type": NEAREST},
    "cubic": {"interp_type": CUBIC, "antialias": False},
}

FORMS: tuple[Case, ...] = (
    *(case for how, more in _RESIZES.items()
      for case in _each("resize", IMAGES + PLANES + CLIPS, size=(224, 300), variant=how, **more)),
    *(case for how, more in _RESIZES.items()
      for case in _each("resize", VOLUMES, size=(20, 70, 70), variant=how, **more)),
    *_each("resize", ("thumbnails", "thumbnails.float32"), size=(480, 640), antialias=False, variant="enlarge"),
    *_each("resize", ("volumes", "volumes.float32"), size=(32, 128, 128), antialias=False, variant="enlarge"),
    *_each("rotate", IMAGES + CLIPS, angle=ANGLE, keep_size=True, fill_value=0.0, variant="linear"),
    *_each("rotate", IMAGES + CLIPS, angle=ANGLE, keep_size=True, fill_value=0.0, interp_type=NEAREST,
           variant="nearest"),
    *_each("rotate", VOLUMES, angle=ANGLE, axis=AXIS, keep_size=True, fill_value=0.0, variant="linear"),
    *_each("rotate", VOLUMES, angle=ANGLE, axis=AXIS, keep_size=True, fill_value=0.0, interp_type=NEAREST,
           variant="nearest"),
    *_each("warp_affine", IMAGES, matrix=[1.0, 0.2, -20.0, -0.2, 1.0, 30.0], fill_value=0.0, variant="linear"),
    *_each("warp_affine", VOLUMES, matrix=TURN, fill_value=0.0, variant="linear"),
    *_each("experimental.warp_perspective", IMAGES, matrix=PERSPECTIVE, fill_value=0.0),
    *_each("experimental.remap", IMAGES, "columns", "rows", pixel_origin="center"),
    *_each("gaussian_blur", IMAGES + PLANES + CLIPS, sigma=1.5, window_size=9),
    *_each("gaussian_blur", VOLUMES, sigma=1.5, window_size=9),
    *_each("gaussian_blur", ("images", "images.float32"), sigma=4.0, window_size=25, variant="window 25"),
    *_each("laplacian", IMAGES + PLANES, window_size=3),
    *_each("filter", ("images", "images.float32"), "kernels"),
    *_each("experimental.median_blur", IMAGES[:2], window_size=[3, 3]),
    *_each("experimental.dilate", IMAGES[:2], mask_size=[3, 3]),
    *_each("experimental.erode", IMAGES[:2], mask_size=[3, 3]),
    *_each("crop", IMAGES + PLANES, crop=(224, 224)),
    *_each("crop", CLIPS, crop=(100, 100)),
    *_each("crop", VOLUMES, crop_d=16, crop_h=60, crop_w=60),
    *_each("slice", VOLUMES, start=[2, 9, 9], shape=[16, 60, 60], axes=[0, 1, 2]),
    *_each("flip", IMAGES + PLANES + CLIPS + VOLUMES, horizontal=1, variant="horizontal"),
    *_each("flip", ("images", "volumes"), horizontal=0, vertical=1, variant="vertical"),
    *_each("flip", VOLUMES, horizontal=0, depthwise=1, variant="depthwise"),
    *_each("pad", IMAGES, axes=[0, 1], shape=[600, 800]),
    *_each("pad", VOLUMES, axes=[0, 1, 2], shape=[32, 100, 100]),
    *_each("paste", IMAGES, ratio=1.5, paste_x=0.0, paste_y=0.0, fill_value=0),
    *_each("erase", IMAGES, anchor=[50.0, 60.0], shape=[180.0, 190.0], fill_value=0),
    *_each("erase", VOLUMES, anchor=[5.0, 20.0, 20.0], shape=[9.0, 30.0, 30.0], axis_names="DHW", fill_value=0),
    *_each("transpose", IMAGES, perm=[2, 0, 1], variant="HWC to CHW"),
    *_each("transpose", ("images.CHW", "images.CHW.float32"), perm=[1, 2, 0], variant="CHW to HWC"),
    *_each("transpose", CLIPS, perm=[3, 0, 1, 2], variant="FHWC to CFHW"),
    *_each("transpose", VOLUMES, perm=[2, 1, 0, 3], variant="swap x and z"),
    *_each("cast", ("images", "images.int16", "volumes", "volumes.int16"), dtype=FLOAT, variant="to float"),
    *_each("cast", ("images.float32", "volumes.float32"), dtype=Type("UINT8"), variant="to uint8"),
    *_each("cast", ("images.float32", "images.int16"), dtype=Type("INT32"), variant="to int32"),
    *_each("cat", IMAGES, "images", axis=1)[:1],
    *_each("cat", ("volumes.float32",), "volumes.float32", axis=0),
    *_each("stack", ("images",), "images"),
    *_each("crop_mirror_normalize", IMAGES, crop=(224, 224), mirror=1, mean=MEAN, std=STD, dtype=FLOAT),
    *_each("crop_mirror_normalize", CLIPS, crop=(100, 100), mirror=1, mean=MEAN, std=STD, dtype=FLOAT,
           output_layout="FCHW"),
    *_each("normalize", IMAGES + PLANES + VOLUMES, dtype=FLOAT, variant="all"),
    *_each("normalize", IMAGES, axes=[0, 1], dtype=FLOAT, variant="channels"),
    *_each("normalize", PLANES, axes=[1, 2], dtype=FLOAT, variant="planes"),
    *_each("normalize", VOLUMES, mean=120.0, stddev=50.0, dtype=FLOAT, variant="numbers"),
    *(case for name in ("sum", "mean", "max")
      for case in _each(f"reductions.{name}", ("images", "images.float32", "images.int16", "volumes.float32"),
                        variant="all")),
    *(case for name in ("sum", "mean", "max")
      for case in _each(f"reductions.{name}", ("images", "images.float32"), axes=[0, 1], variant="channels")),
    *_each("brightness_contrast", IMAGES + CLIPS + VOLUMES, brightness=FACTOR, contrast=FACTOR, contrast_center=128.0),
    *_each("color_twist", IMAGES + CLIPS, hue=20.0, saturation=0.8, brightness=1.1, contrast=0.9),
    *_each("color_space_conversion", ("images",), image_type=Type("RGB"), output_type=Type("GRAY"), variant="grey"),
    *_each("color_space_conversion", ("images",), image_type=Type("RGB"), output_type=Type("BGR"), variant="BGR"),
    *_each("color_space_conversion", ("images",), image_type=Type("RGB"), output_type=Type("YCbCr"), variant="YCbCr"),
    *_each("lookup_table", ("images",), keys=list(range(256)), values=[float(255 - key) for key in range(256)],
           dtype=Type("UINT8"), variant="bytes"),
    *_each("equalize", ("images",)),
    *_each("clahe", ("greys",), tiles_x=8, tiles_y=8, clip_limit=2.0),
    *_each("debayer", ("mosaics",), blue_position=(0, 0)),
    *_each("jpeg_compression_distortion", ("images",), quality=60),
    *_each("coord_transform", ("points",), M=[0.9, 0.1, -0.1, 1.1], T=[1.0, 2.0]),
    *_each("one_hot", ("tokens",), num_classes=100),
    *_each("decoders.image", ("jpegs",), variant="JPEG"),
    *_each("decoders.image", ("pngs",), variant="PNG"),
    *_each("decoders.audio", ("flacs",)),
    *(Case("audio_resample", (name,), {"in_rate": float(rate), "out_rate": float(to)}, f"{rate} to {to} {name}")
      for rate, to in ((16000, 22050), (44100, 16000), (48000, 16000), (16000, 8000)) for name in ("tones",)),
    *_each("audio_resample", ("tones.int16", "stereo"), in_rate=44100.0, out_rate=16000.0, variant="44100 to 16000"),
    *_each("audio_resample", ("tones",), scale=1.0173, variant="by 1.0173"),
    *_each("spectrogram", ("tones",), nfft=512, window_length=400, window_step=160, center_windows=False),
    *_each("power_spectrum", ("tones",)),
    *_each("mel_filter_bank", ("spectra",), sample_rate=16_000.0),
    *_each("mfcc", ("spectra",), n_mfcc=20, normalize=True),
    *_each("to_decibels", ("spectra",), reference=1.0, cutoff_db=-80.0),
    *_each("preemphasis_filter", ("tones",)),
    *(Case(case.operator, case.inputs, case.arguments, case.variant, random=True)
      for case in CASES if case.operator.startswith(("noise.", "random."))),
)  # fmt: skip
