"""Standard normal numbers from uniform ones: the quantile function of the normal distribution.

Additions, multiplications, divisions and square roots of float64 in a fixed order give the same bits with NumPy, in C
and on GPUs. dali_proxy/pipeline/normal_quantile.h is the version of the last two, and has the formulas' sources.
"""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._imaging.native import compiled

_CENTER = 0.425
#: Coefficients of numerators and denominators, from the highest power to the lowest.
_NEAR_CENTER = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080),
    (5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
     5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0),
)  # fmt: skip
_NEAR_TAIL = (
    (7.74545014278341407640e-4, 0.0227238449892691845833, 0.241780725177450611770, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.148103976427480074590,
     0.689767334985100004550, 1.67638483018380384940, 2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.00124266094738807843860, 0.0265321895265761230930,
     0.296560571828504891230, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     0.0148753612908506148525, 0.136929880922735805310, 0.599832206555887937690, 1.0),
)  # fmt: skip
_LOG_EVEN = (1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01)
_LOG_ODD = (1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01, 6.666666666666735130e-01)


def normal_quantiles(numbers: Array) -> Array:
    """Replace uniform numbers by standard normal ones.

    Args:
        numbers: contiguous float64, multiples of 2**-53 from [0, 1), as NumPy's generators draw. Each stands for the
            center of an interval, so that the results are symmetric, and between -8.3 and 8.3.

    Returns:
        `numbers`.

    Example:
        >>> normal_quantiles(np.array([0.5, 0.975])).round(4)
        array([0.  , 1.96])
    """
    if compiled is not None:
        compiled.normal_quantiles(numbers)
        return numbers
    centered = numbers.reshape(-1)
    centered -= 0.5
    centered += 2.0**-54
    positions = np.flatnonzero(np.abs(centered) > _CENTER)
    tails = centered[positions]
    root = np.sqrt(-_log(0.5 - np.abs(tails)))
    quantiles = np.where(root <= 5.0, _quotient(_NEAR_TAIL, root - 1.6), _quotient(_FAR_TAIL, root - 5.0))
    distances = 0.180625 - centered * centered
    centered *= _polynomial(_NEAR_CENTER[0], distances)
    centered /= _polynomial(_NEAR_CENTER[1], distances)
    centered[positions] = np.copysign(quantiles, tails)
    return numbers


def _log(x: Array) -> Array:
    bits = x.view(np.int64) + (0x3FF0000000000000 - 0x3FE6A09E00000000)
    k = ((bits >> 52) - 1023).astype(np.float64)
    f = ((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E00000000).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    series = z * _polynomial(_LOG_ODD, w) + w * _polynomial(_LOG_EVEN, w)
    half_square = 0.5 * f * f
    return k * 6.93147180369123816490e-01 - (
        (half_square - (s * (half_square + series) + k * 1.90821492927058770002e-10)) - f
    )


def _quotient(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Array) -> Array:
    return _polynomial(coefficients[0], x) / _polynomial(coefficients[1], x)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    result = coefficients[0] * x
    for coefficient in coefficients[1:-1]:
        result += coefficient
        result *= x
    result += coefficients[-1]
    return result
