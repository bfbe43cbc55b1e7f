"""Allowed differences from NVIDIA DALI's results, and the reasons: one table for all operators.

An operator that isn't listed is exact: it moves data, or rounds once and in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """A bound for differences.

    Attributes:
        integers: largest difference of integers.
        reals: largest difference of real numbers, as a fraction of the largest value (1 at least).
        reason: reason why the bound isn't 0.
        halves: the same as `reals` for float16; by default 0.001, one unit in the last place.
    """

    integers: float
    reals: float
    reason: str
    halves: float = 1e-3


EXACT = Tolerance(0, 0, "it moves data, or computes in whole numbers", 0)

_ORDER = "sums are computed in a different order, and here in double precision"
_ROUNDING = "the last bit of a float32 may differ, which rounds a tie the other way"
_FILTERS = "weights are computed and summed in a different order; a tie rounds the other way"
_SPECTRUM = "sums are computed in a different order, in single precision, as in DALI"
_INTERPOLATED = "positions are computed in a different order, so a weight may differ in its last bits"

#: Differences between our GPU and our CPU that exceed those from DALI.
TOLERANCES_ON_GPU = {
    "experimental.remap": Tolerance(1, 1e-5, _INTERPOLATED),
    "clahe": Tolerance(8, 0, "a lightness may round the other way, and one of its levels is up to 5 levels of a color"),
    "experimental.warp_perspective": Tolerance(1, 2e-6, _INTERPOLATED),
}

TOLERANCES = {
    "brightness": Tolerance(1, 1e-6, _ROUNDING),
    "brightness_contrast": Tolerance(1, 1e-6, _ROUNDING),
    "contrast": Tolerance(1, 1e-6, _ROUNDING),
    "hsv": Tolerance(1, 1e-5, _ROUNDING),
    "hue": Tolerance(1, 1e-5, _ROUNDING),
    "saturation": Tolerance(1, 1e-5, _ROUNDING),
    "color_twist": Tolerance(1, 1e-5, _ROUNDING),
    "cast": Tolerance(0, 0, "DALI converts wide integers to FLOAT16 through FLOAT, which rounds twice"),
    "color_space_conversion": Tolerance(1, 0, "DALI rounds its factors; one value of 300 differs"),
    "bbox_paste": Tolerance(0, 1e-6, _ORDER),
    "bbox_rotate": Tolerance(0, 5e-6, _ORDER),
    "box_encoder": Tolerance(0, 2e-6, _ROUNDING),
    "laplacian": Tolerance(1, 1e-5, _FILTERS),
    "sphere": Tolerance(1, 2e-4, _INTERPOLATED),
    "water": Tolerance(1, 2e-4, _INTERPOLATED),
    "audio_resample": Tolerance(1, 3e-3, "DALI sums up positions in single precision, over 256 samples"),
    "bb_flip": Tolerance(0, 1e-6, _ORDER),
    "coord_flip": Tolerance(0, 1e-6, _ORDER),
    "coord_transform": Tolerance(0, 2e-6, _ORDER),
    "crop_mirror_normalize": Tolerance(1, 1e-6, _ROUNDING),
    "decoders.audio": Tolerance(1, 1e-6, "the builds of libsndfile differ in the last bits of Vorbis and Opus"),
    "decoders.image": Tolerance(1, 1e-6, "grey from colours is rounded in a different order"),
    "decoders.image_crop": Tolerance(1, 1e-6, "as decoders.image"),
    "decoders.image_slice": Tolerance(1, 1e-6, "as decoders.image"),
    "fast_resize_crop_mirror": Tolerance(1, 1e-5, _FILTERS),
    "gaussian_blur": Tolerance(1, 1e-5, _FILTERS),
    "normalize": Tolerance(1, 1e-5, _ORDER),
    "reductions.mean": Tolerance(0, 1e-6, _ORDER),
    "reductions.mean_square": Tolerance(0, 1e-6, _ORDER),
    "reductions.rms": Tolerance(0, 1e-6, _ORDER),
    "reductions.std_dev": Tolerance(0, 2e-6, _ORDER),
    "reductions.sum": Tolerance(0, 2e-5, _ORDER + "; terms that cancel out leave less than their rounding error"),
    "reductions.variance": Tolerance(0, 2e-6, _ORDER),
    "resize": Tolerance(1, 1e-5, _FILTERS),
    "resize_crop_mirror": Tolerance(1, 1e-5, _FILTERS),
    "tensor_resize": Tolerance(1, 1e-5, _FILTERS),
    "rotate": Tolerance(1, 1e-3, _INTERPOLATED),
    "warp_affine": Tolerance(1, 1e-3, _INTERPOLATED),
    "mel_filter_bank": Tolerance(0, 5e-5, "DALI computes the corners of the filters in single precision"),
    "mfcc": Tolerance(0, 2e-6, _SPECTRUM),
    "preemphasis_filter": Tolerance(1, 1e-6, _ROUNDING),
    "to_decibels": Tolerance(0, 1e-6, "the last bits of a logarithm may differ"),
    "power_spectrum": Tolerance(0, 1e-6, _SPECTRUM),
    "spectrogram": Tolerance(0, 2e-6, _SPECTRUM),
    "transforms.combine": Tolerance(0, 1e-6, _ORDER),
    "transforms.crop": Tolerance(0, 1e-6, _ORDER),
    "transforms.rotation": Tolerance(0, 1e-6, _ORDER),
    "transforms.scale": Tolerance(0, 1e-6, _ORDER),
    "transforms.shear": Tolerance(0, 1e-6, _ORDER),
    "transforms.translation": Tolerance(0, 1e-6, _ORDER),
}
