"""Colour operators and blurs on the GPU compared with the CPU.

Both compute in float32 but in different orders, so rounding differs by 1.
"""

from __future__ import annotations

import pytest

from pipeline import types
from tests.pipeline.operators.both import Array
from tests.pipeline.operators.test_gpu import Case, table
from tests.pipeline.operators.test_gpu import test_gpu_equals_cpu as check_gpu_equals_cpu

__all__ = ["table"]

pytestmark = pytest.mark.gpu

LINEAR_DTYPES = ("uint8", "int16", "int32", "float32")
LAYOUTS = ("HWC", "FHWC", "DHWC")
# Tolerances for sums of float32 around 300, and for float16 around 300.
NEAR = {"u": 1, "i": 1, "f": 1e-3}
HALF = {"f": 0.5}


def factor(generator: object) -> Array:
    return generator.uniform(0.4, 1.6, ()).astype("float32")  # type: ignore[attr-defined, no-any-return]


CASES = [
    *[
        Case(
            "brightness_contrast",
            {"dtype": dtype, "brightness_shift": 0.1},
            {"brightness": factor, "contrast": factor, "contrast_center": factor},
            dtypes=LINEAR_DTYPES,
            tolerance={**NEAR, "i": 128 if dtype == types.INT32 else 1},
        )
        for dtype in (types.UINT8, types.INT16, types.INT32, types.FLOAT)
    ],
    *[Case("brightness", {}, {"brightness": factor}, layout=layout, tolerance=NEAR) for layout in LAYOUTS],
    Case("contrast", {"contrast": 1.3}, dtypes=("uint8", "int16", "float32"), tolerance=NEAR),
    *[
        Case(
            "color_twist",
            {"dtype": dtype},
            {"hue": factor, "saturation": factor, "brightness": factor, "contrast": factor},
            dtypes=(*LINEAR_DTYPES, "float16"),
            tolerance=HALF if dtype == types.FLOAT16 else NEAR,
        )
        for dtype in (types.UINT8, types.INT16, types.INT32, types.FLOAT, types.FLOAT16)
    ],
    *[Case("hsv", {"hue": 77.0}, {"value": factor}, layout=layout, tolerance=NEAR) for layout in LAYOUTS],
    Case("hue", {"hue": 120.0}, tolerance=NEAR),
    Case("saturation", {"saturation": 0.2}, tolerance=NEAR),
    *[
        Case("color_space_conversion", {"image_type": source, "output_type": target}, dtypes=("uint8",), tolerance=NEAR)
        for source in (types.RGB, types.BGR, types.YCbCr)
        for target in (types.RGB, types.BGR, types.YCbCr, types.GRAY)
    ],
    *[
        Case("gaussian_blur", {"sigma": 1.3}, layout=layout, tolerance=NEAR)
        for layout in ("HW", "HWC", "CHW", "FHWC", "FCHW", "DHWC", "CDHW", "FDHWC")
    ],
    Case("gaussian_blur", {}, {"sigma": factor}, dtypes=(*LINEAR_DTYPES, "int64"), tolerance=NEAR),
    Case("gaussian_blur", {"window_size": [3, 7]}, dtypes=("float16", "float64"), tolerance={"f": 0.07}),
    Case("gaussian_blur", {"sigma": 20.0, "dtype": types.FLOAT}, dtypes=("uint8", "int16"), tolerance=NEAR),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_color_on_the_gpu_equals_the_cpu(case: Case, table: dict[str, float]) -> None:
    check_gpu_equals_cpu(case, table)
