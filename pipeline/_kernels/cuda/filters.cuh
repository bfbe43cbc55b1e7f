// Resampling filters and the taps of one output position, as in DALI. Pixel k covers [k, k + 1); its center is k + 0.5.
// Outside the image, edge pixels repeat. Weights are divided by their sum.
//
// Every sum uses fmaf explicitly, so that the kernels that share this file round alike.

enum Filter { NEAREST = 0, LINEAR = 1, CUBIC = 2, LANCZOS3 = 3, TRIANGULAR = 4, GAUSSIAN = 5 };

// Mapping of an output axis to the source: output i lies at origin + (i + 0.5) * scale.
struct Axis {
    double origin, scale;
    float radius;  // of the filter's support, in source pixels
    float shrink;  // filter units per source pixel: 1 / max(1, |scale|) if antialiased, otherwise 1
    int filter;
    int extent;    // of the source, in pixels
    int base;      // for NEAREST, in pixels: positions are rounded as if the source began here
    int adds;      // for NEAREST: whether positions are accumulated (rows) or multiplied (columns); decides ties
};

struct Taps {
    int first, count;
    float offset;  // from the output's position to the center of the first pixel
};

// The nearest pixel, with the arithmetic of `nearest_indices` on the CPU. fmaf with 0 prevents the compiler from fusing
// the product with the sum.
__device__ __forceinline__ int nearest_of(const Axis& axis, int i) {
    const float begin = static_cast<float>(axis.origin - axis.base), scale = static_cast<float>(axis.scale);
    float center = begin + fmaf(axis.adds ? 0.5f : i + 0.5f, scale, 0.0f);
    for (int k = 0; axis.adds && k < i; ++k) center += scale;
    return static_cast<int>(floorf(center)) + axis.base;
}

__device__ __forceinline__ Taps taps_of(const Axis& axis, int i) {
    Taps taps;
    if (axis.filter == NEAREST) {
        taps.first = nearest_of(axis, i);
        taps.count = 1;
        taps.offset = 0;
    } else {
        const double center = fma(i + 0.5, axis.scale, axis.origin);
        const double reach = axis.radius + 1e-4;  // a tap on the edge may round to either side
        taps.first = static_cast<int>(ceil(center - reach - 0.5));
        taps.count = static_cast<int>(floor(center + reach - 0.5)) - taps.first + 1;
        taps.offset = static_cast<float>(taps.first + 0.5 - center);
    }
    return taps;
}

__device__ __forceinline__ float sinc(float x) {
    const float t = 3.14159265358979f * x;
    return x == 0 ? 1.0f : sinf(t) / t;
}

// A smooth filter at distance x >= 0, within its support.
__device__ __forceinline__ float curve(int filter, float x) {
    switch (filter) {
        case CUBIC:  // Catmull-Rom: a = -0.5
            if (x < 1.0f) return fmaf(x * x, fmaf(1.5f, x, -2.5f), 1.0f);
            return x < 2.0f ? fmaf(x, fmaf(x, fmaf(-0.5f, x, 2.5f), -4.0f), 2.0f) : 0.0f;
        case LANCZOS3:
            return x < 3.0f ? sinc(x) * sinc(x / 3.0f) : 0.0f;
        default:  // GAUSSIAN: sigma = 1 / sqrt(8)
            return expf(-4.0f * x * x);
    }
}

// Weight of tap `index`. As in DALI, smooth filters are tables of 32 steps per pixel, interpolated linearly.
__device__ __forceinline__ float weight_of(const Axis& axis, const Taps& taps, int index) {
    if (axis.filter == NEAREST) return 1.0f;
    const float x = (taps.offset + index) * axis.shrink, distance = fabsf(x);
    if (axis.filter == LINEAR || axis.filter == TRIANGULAR) return distance < 1.0f ? 1.0f - distance : 0.0f;
    // The Gaussian isn't 0 at its edges: only the tap on the left edge counts, regardless of the rounding of x.
    if (axis.filter == GAUSSIAN && (x < -1.00001f || x > 0.99999f)) return 0.0f;
    const float position = distance * 32.0f, step = floorf(position);
    const float low = curve(axis.filter, step / 32.0f), high = curve(axis.filter, (step + 1.0f) / 32.0f);
    return fmaf(position - step, high - low, low);
}

__device__ __forceinline__ float weight_sum(const Axis& axis, const Taps& taps) {
    float sum = 0;
    for (int index = 0; index < taps.count; ++index) sum += weight_of(axis, taps, index);
    return sum;
}

__device__ __forceinline__ int clamped(int k, int extent) { return k < 0 ? 0 : (k < extent ? k : extent - 1); }
